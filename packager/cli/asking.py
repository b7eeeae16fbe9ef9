"""Asks questions on a terminal, and limits the time that a verb may take."""

import getpass
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from packager.base import process
from packager.base.errors import HungError, MlpackError, TimedOutError, UnansweredError, UnreachableError, UsageError
from packager.cli.console import put_question

PASSWORD = "MLPACK_KEY_PASSWORD"  # noqa: S105 - the name of the variable

_GRACE = 0.25
"""Seconds after the limit in which a verb may still end by itself, with a better message."""

_AGAIN = 0.05
"""Seconds between attempts to raise the error: Python ignores an exception raised in a finalizer or during a fork."""


def has_terminal() -> bool:
    """Return whether there is a terminal to ask a question on."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(question: str, proposed: str) -> str:
    """Return the line that the user types, or `proposed` if the line is empty.

    Raises:
        MlpackError: The input has ended.
    """
    return _answer(f"{question} [{proposed}]") or proposed


def ask_hidden(question: str) -> str:
    """Return the password that the user types; the terminal does not show it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", getpass.GetPassWarning)
            return getpass.getpass(f"{question}: ", stream=sys.stderr)
    except getpass.GetPassWarning:
        raise UsageError("the terminal would show what you type", hint=f"set {PASSWORD}") from None
    except EOFError:
        raise _no_answer() from None


def password_of(file: object, ask: Callable[[str], str] = ask_hidden) -> bytes:
    """Return the password of a private key: that of MLPACK_KEY_PASSWORD, or the user's answer.

    Args:
        file: The file of the key, for the question.
        ask: Asks the question.
    """
    password = os.environ.get(PASSWORD)
    if password is None:
        if not has_terminal():
            message = f"{file} needs a password, and there is no terminal to ask on"
            raise UnansweredError(message, hint=f"set {PASSWORD}")
        password = ask(f"password of {file}")
    return password.encode()


def _answer(question: str) -> str:
    # typer's prompts write a part of the question to stdout, which another program may read.
    put_question(question)
    line = sys.stdin.readline()
    if not line:
        put_question("", end="\n")
        raise _no_answer()
    return line.strip()


def _no_answer() -> MlpackError:
    return MlpackError("nothing was done: the input ended before an answer")


def require_yes(question: str, *, unanswered: str, hint: str, declined: str = "nothing was done") -> None:
    """Ask `question`, and return only if the user answers yes; any other answer counts as no.

    Raises:
        UnansweredError: There is no terminal to ask on; the message is `unanswered`.
        MlpackError: The user does not agree; the message is `declined`.
    """
    if not has_terminal():
        raise UnansweredError(unanswered, hint=hint)
    if _answer(f"{question} [y/N]").lower() not in ("y", "yes"):
        raise MlpackError(declined)


def confirm_deletion(question: str) -> None:
    """Ask before something is deleted, and return only if the user answers yes. Raises the errors of `require_yes`."""
    nothing = "nothing was deleted"
    unanswered = f"{nothing}: there is no terminal to ask on"
    require_yes(question, unanswered=unanswered, hint="-y answers yes", declined=nothing)


@dataclass
class Limit:
    """The error that is raised at the timeout; the block may replace it as its work proceeds."""

    timeout_error: TimedOutError


@contextmanager
def limited(seconds: float | None, timeout_error: TimedOutError) -> Iterator[Limit]:
    """Interrupt the block after `seconds`, and kill a program that it has started.

    Args:
        seconds: The timeout; None or 0 for none.
        timeout_error: The error to raise at the timeout, unless the block sets another one in its Limit.
    """
    limit = Limit(timeout_error)
    if not seconds:
        yield limit
        return

    def expire(_number: int, _frame: FrameType | None) -> None:
        if not process.is_blocked and not _is_handled(limit.timeout_error):
            raise limit.timeout_error

    earlier = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds + _GRACE, _AGAIN)
    end = time.monotonic() + seconds - _GRACE
    try:
        yield limit
    except (HungError, UnreachableError):
        if time.monotonic() < end:
            raise
        raise limit.timeout_error from None  # what was left of the time was kubectl's limit
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)


def _is_handled(error: BaseException) -> bool:
    """Return whether `error` has been raised already, so that the running code cleans up after it."""
    current = sys.exc_info()[1]
    while current is not None and current is not error:
        current = current.__context__
    return current is error

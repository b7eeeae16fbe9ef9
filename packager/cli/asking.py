"""Asks questions on a terminal, and limits the time that a verb may take."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import typer

from packager.base import signals
from packager.base.errors import HungError, MlpackError, TimedOutError, UnansweredError, UnreachableError
from packager.cli.console import put_question

_GRACE = 0.25
"""Seconds after the limit in which a verb may still end by itself, with a better message."""

_AGAIN = 0.05
"""Seconds between attempts to raise the error: Python ignores an exception raised in a finalizer or during a fork."""


def has_terminal() -> bool:
    """Return whether there is a terminal to ask a question on."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(question: str, proposed: str) -> str:
    """Return the line that the user types, or `proposed` if the line is empty. Raises typer.Abort when stdin ends."""
    return _answer(f"{question} [{proposed}]") or proposed


def password_of(file: object, *, is_new: bool = False) -> bytes:
    """Return the password of a private key: that of MLPACK_KEY_PASSWORD, or the user's answer; twice, if it is new."""
    password = os.environ.get("MLPACK_KEY_PASSWORD")
    if password is None:
        if not has_terminal():
            message = f"{file} needs a password, and there is no terminal to ask on"
            raise UnansweredError(message, hint="set MLPACK_KEY_PASSWORD")
        password = typer.prompt(f"password of {file}", hide_input=True, confirmation_prompt=is_new, err=True)
    return str(password).encode()


def _answer(question: str) -> str:
    # typer's prompts write a part of the question to stdout, which another program may read.
    put_question(question)
    line = sys.stdin.readline()
    if not line:
        put_question("", end="\n")
        raise typer.Abort
    return line.strip()


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
        if not signals.is_blocked and not _is_handled(limit.timeout_error):
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

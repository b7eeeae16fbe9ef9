"""Asks questions on a terminal, and limits the time that a verb may take."""

from __future__ import annotations

import signal
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base import signals
from packager.base.errors import HungError, MlpackError, TimedOutError, UnansweredError, UnreachableError, UsageError
from packager.cli.console import put_question

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

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


def ask_hidden(question: str, *, hint: str) -> str:
    """Return the line that the user types; the terminal does not show it."""
    with _unechoed(hint):
        try:
            return _answer(question)
        finally:
            put_question("", end="\n")


@contextmanager
def _unechoed(hint: str) -> Iterator[None]:
    """Switch the terminal's echo off while the block runs."""
    import termios

    try:
        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
        silent = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
        termios.tcsetattr(descriptor, termios.TCSAFLUSH, silent)
    except (OSError, termios.error):
        raise UsageError("the terminal would show what you type", hint=hint) from None
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSAFLUSH, before)


def confirm(question: str) -> bool:
    """Return whether the user answers yes; any other answer counts as no."""
    return _answer(f"{question} [y/N]").lower() in ("y", "yes")


def _answer(question: str) -> str:
    # typer's prompts write a part of the question to stdout, which another program may read.
    put_question(question)
    line = sys.stdin.readline()
    if not line:
        put_question("", end="\n")
        raise MlpackError("nothing was done: the input ended before an answer")
    return line.strip()


def require_yes(question: str, *, unanswered: UnansweredError, declined: str) -> None:
    """Ask `question`, and return only if the user answers yes."""
    if not has_terminal():
        raise unanswered
    if not confirm(question):
        raise MlpackError(declined)


def confirm_deletion(question: str) -> None:
    """Ask before something is deleted, and return only if the user answers yes. Raises the errors of `require_yes`."""
    unanswered = UnansweredError("nothing was deleted: there is no terminal to ask on", hint="-y answers yes")
    require_yes(question, unanswered=unanswered, declined="nothing was deleted")


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

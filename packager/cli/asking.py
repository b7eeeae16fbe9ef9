"""Asks questions on a terminal, and limits the time that a verb may take."""

import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import typer

from packager.base.errors import HungError, MlpackError, TimedOutError, UnansweredError, UnreachableError
from packager.cli.console import put_question, say

_GRACE = 0.25
"""Seconds before the limit in which an error of kubectl counts as a timeout."""


def has_terminal() -> bool:
    """Return whether there is a terminal to ask a question on."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def password_of(file: object, *, is_new: bool = False) -> bytes:
    """Return the password of a private key: that of MLPACK_KEY_PASSWORD, or the user's answer; twice, if it is new."""
    password = os.environ.get("MLPACK_KEY_PASSWORD")
    if password is None:
        if not has_terminal():
            message = f"{file} needs a password, and there is no terminal to ask on"
            raise UnansweredError(message, hint="set MLPACK_KEY_PASSWORD")
        password = typer.prompt(f"password of {file}", hide_input=True, confirmation_prompt=is_new, err=True)
    return str(password).encode()


def require_yes(question: str, *, unanswered: str, hint: str, declined: str = "nothing was done") -> None:
    """Ask `question`, and return only if the user answers yes; any other answer counts as no.

    Raises:
        UnansweredError: There is no terminal to ask on; the message is `unanswered`.
        MlpackError: The user does not agree; the message is `declined`.
    """
    if not has_terminal():
        raise UnansweredError(unanswered, hint=hint)
    put_question(f"{question} [y/N]: ")  # typer writes a part of a question to stdout, which another program may read
    if not (line := sys.stdin.readline()):
        say("")
    if line.strip().lower() not in ("y", "yes"):
        raise MlpackError(declined)


def confirm_deletion(question: str) -> None:
    """Ask before something is deleted, and return only if the user answers yes. Raises the errors of `require_yes`."""
    unanswered = "nothing was deleted: there is no terminal to ask on"
    require_yes(question, unanswered=unanswered, hint="-y answers yes", declined="nothing was deleted")


@dataclass
class Limit:
    """The error that is raised at the timeout; the block may replace it as its work proceeds."""

    timeout_error: TimedOutError


@contextmanager
def limited(seconds: float | None, timeout_error: TimedOutError) -> Iterator[Limit]:
    """Raise the error of the Limit when kubectl, which has the same deadline, was stopped at it.

    Args:
        seconds: The timeout; None or 0 for none.
        timeout_error: The error to raise at the timeout, unless the block sets another one in its Limit.
    """
    limit = Limit(timeout_error)
    end = time.monotonic() + (seconds or math.inf) - _GRACE
    try:
        yield limit
    except (HungError, UnreachableError):
        if time.monotonic() < end:
            raise
        raise limit.timeout_error from None

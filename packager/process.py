"""Starts programs: the only importer of subprocess. Argument lists only, never a shell."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from packager.errors import ToolError, reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, slots=True)
class Finished:
    """A program that has ended: its exit code, and all that it wrote."""

    returncode: int
    stdout: str
    stderr: str


def find(program: str) -> str | None:
    """Return the path of `program` (a name on PATH, or a path), or None when there is none that can be run."""
    return shutil.which(program)


def run(argv: Sequence[str], *, timeout: float | None = None) -> Finished:
    """Run a program to its end and return what it wrote; its exit code is for the caller to judge.

    Args:
        argv: The program and its arguments.
        timeout: Seconds after which the program is killed.

    Raises:
        ToolError: The program is missing, cannot be started, or did not end in time.
    """
    try:
        with _started(argv[0]):
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                encoding="utf-8",
                errors="replace",
                timeout=timeout,
                check=False,
            )
    except subprocess.TimeoutExpired:
        raise ToolError(f"{argv[0]} did not end within {timeout:g} seconds") from None
    return Finished(done.returncode, done.stdout, done.stderr)


class Running:
    """A program at work.

    Attributes:
        stdout: What it writes, as it comes.
    """

    def __init__(self, started: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
        assert started.stdout is not None
        self._started = started
        self._errors = errors
        self.stdout: IO[bytes] = started.stdout

    def wait(self) -> Finished:
        """Wait for its end, and return its exit code and what it wrote to stderr."""
        returncode = self._started.wait()
        self._errors.seek(0)
        return Finished(returncode, "", self._errors.read().decode(errors="replace"))


@contextmanager
def stream(argv: Sequence[str]) -> Iterator[Running]:
    """Start a program whose output is read while it runs; when the block ends before it does, it is stopped.

    Raises:
        ToolError: The program is missing, or cannot be started.
    """
    with tempfile.TemporaryFile() as errors:
        with _started(argv[0]):
            started = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
        try:
            yield Running(started, errors)
        finally:
            started.terminate()
            started.wait()
            if started.stdout is not None:
                started.stdout.close()


def attached(argv: Sequence[str], *, stdout_to_stderr: bool = False) -> int:
    """Run a program on the user's own terminal, and return its exit code.

    Args:
        argv: The program and its arguments.
        stdout_to_stderr: Whether what it prints is for people only.

    Raises:
        ToolError: The program is missing, or cannot be started.
    """
    with _started(argv[0]):
        return subprocess.run(argv, stdout=2 if stdout_to_stderr else None, check=False).returncode


@contextmanager
def _started(program: str) -> Iterator[None]:
    """Say why a program does not start."""
    try:
        yield
    except FileNotFoundError:
        raise ToolError(f"{program}: no such program", hint=f"install {program}, or put it on PATH") from None
    except OSError as error:
        raise ToolError(f"{program} could not be started: {reason(error)}") from None

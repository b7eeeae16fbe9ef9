"""Starts programs: the only importer of subprocess. Argument lists only, never a shell."""

from __future__ import annotations

import io
import math
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

from packager.base import signals
from packager.base.errors import HungError, ToolError, reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

T = TypeVar("T")
Tell: TypeAlias = "Callable[[str], object]"
"""Receives a line of text for the user."""

MAX_BYTES = 64 << 20
"""The bytes that a program may print to stdout before it is stopped; the answer of a large cluster takes a few MiB."""

_ERROR_BYTES = 1 << 20
"""The bytes of stderr that are kept: its end, where a program explains its failure."""

_CHUNK = 64 << 10

_STOP_SECONDS = 5.0
"""Seconds that a program which is asked to end may take."""

_MOMENT = 2.0
"""Seconds in which a program ends by itself that has nothing more to do."""


class Finished(NamedTuple):
    """A program that has ended: its exit code and its output; of a long stderr, the end."""

    returncode: int
    stdout: str
    stderr: str


def find(program: str) -> str | None:
    """Return the path of `program` (a name on PATH, or a path), or None if it does not exist or cannot be run."""
    return shutil.which(program)


def run(  # noqa: PLR0913 - an option each
    argv: Sequence[str],
    *,
    timeout: float | None = None,
    max_bytes: int = MAX_BYTES,
    memory: int | None = None,
    stdin: bytes | None = None,
    variables: Mapping[str, str] | None = None,
) -> Finished:
    """Run a program to its end and return its output; the caller judges its exit code.

    Args:
        argv: The program and its arguments.
        timeout: Seconds after which the program is killed.
        max_bytes: The bytes that it may print, to stdout and to stderr each, before it is killed.
        memory: The bytes of memory that it may write to, where the system limits this (Linux); None for no limit.
        stdin: The bytes for its standard input; None for none.
        variables: Environment variables in addition to those of this process.
    """
    pipe = subprocess.PIPE
    end = math.inf if timeout is None else time.monotonic() + timeout
    options: dict[str, Any] = {"stdin": subprocess.DEVNULL if stdin is None else pipe, "stdout": pipe, "stderr": pipe}
    env = {**os.environ, **(variables or {})}
    begin = partial(Running, idle=lambda _waited: None, end=end)
    with _started(argv, _kill, begin, env=env, start_new_session=True, **options) as running:
        if memory is not None and sys.platform == "linux":
            running.limit(memory)

        def content() -> Iterator[bytes]:
            yield stdin or b""
            running.close_input()

        if stdin is not None:
            running.feed(content())
        try:
            output = running.stdout.read(max_bytes + 1)
            if len(output) > max_bytes:
                raise ToolError(f"{argv[0]} printed more than {max_bytes:,} bytes and was stopped")
            done = running.wait()
        except TimeoutError:
            raise HungError(f"{argv[0]} did not finish within {timeout:.3g} seconds") from None
    return done._replace(stdout=output.decode(errors="replace"))


TICK = 1.0
"""Seconds without output after which `idle` is called."""


class Running:
    """A running program."""

    def __init__(self, child: subprocess.Popen[bytes], idle: Callable[[float], object], end: float = math.inf) -> None:
        assert child.stdout is not None
        self._child = child
        self._idle = idle
        self._end = end  # the moment of `time.monotonic` after which TimeoutError is raised
        self._errors = b""  # the end of its stderr
        self._reader = threading.Thread(target=self._read_errors, daemon=True)
        self._reader.start()
        self._feeder: threading.Thread | None = None
        self._feed_error: Exception | None = None
        self.fed = 0  # the number of bytes that it has read, or that a pipe holds for it
        self.stdout = io.BufferedReader(
            _Output(child.stdout.fileno(), self._wait_for), _CHUNK
        )  # the output, as it comes

    def limit(self, memory: int) -> None:
        """Limit the bytes of memory that it may write to."""
        import resource  # noqa: PLC0415 - Windows has no such module

        with suppress(OSError, ValueError):  # a lower limit is there already, or the program runs as another user
            resource.prlimit(self._child.pid, resource.RLIMIT_DATA, (memory, memory))

    def wait(self) -> Finished:
        """Wait for its end, and return its exit code and its stderr."""
        self._wait_for(self._has_ended)
        self._reader.join(_STOP_SECONDS)  # something that it has started may keep its stderr open
        return Finished(self._child.wait(), "", self._errors.decode(errors="replace"))

    def _has_ended(self, seconds: float) -> bool:
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(seconds)
        return self._child.poll() is not None

    def _wait_for(self, is_ready: Callable[[float], object]) -> None:
        """Call a function, which waits for some seconds, until it returns something; `idle` in between."""
        waited = 0.0
        while not is_ready(pause := min(TICK, max(0.0, self._end - time.monotonic()))):
            if time.monotonic() >= self._end:
                raise TimeoutError
            waited += pause
            self._idle(waited)

    def stop(self) -> None:
        """Ask it to end, from any thread; its output then ends."""
        _send(self._child, signal.SIGTERM)

    def give_up(self) -> Finished:
        """Stop it unless it ends by itself within a moment, and return its stderr.

        It may read no more of its input. Its exit code means nothing if it had to be stopped.
        """
        if self._feeder is None or not self._feeder.is_alive():
            self.release()
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(_MOMENT)
        _stop(self._child)
        return self.wait()

    def feed(self, chunks: Iterable[bytes]) -> None:
        """Write `chunks` to its input while its output is read; they are made in another thread."""
        self._feeder = threading.Thread(target=self._feed, args=(chunks,), daemon=True)
        self._feeder.start()

    def _feed(self, chunks: Iterable[bytes]) -> None:
        stdin = self._child.stdin
        assert stdin is not None
        try:
            for chunk in chunks:
                try:
                    stdin.write(chunk)
                    stdin.flush()
                except (OSError, ValueError):  # it has ended, or has been stopped: its exit code says why
                    return
                self.fed += len(chunk)
        except Exception as error:  # noqa: BLE001 - of the maker of the chunks: the reader raises it
            self._feed_error = error
            with suppress(OSError, ValueError):
                stdin.close()

    def require_fed(self) -> None:
        """Raise the exception of the function that makes the chunks, if it raised one."""
        if self._feed_error is not None:
            raise self._feed_error

    def release(self) -> None:
        """Write a line feed to its input, and close that."""
        with suppress(OSError, ValueError):  # it has ended
            if self._child.stdin is not None:
                self._child.stdin.write(b"\n")
        self.close_input()

    def close_input(self) -> None:
        """Close its input."""
        with suppress(OSError, ValueError):  # it has ended
            if self._child.stdin is not None:
                self._child.stdin.close()

    def _read_errors(self) -> None:
        assert self._child.stderr is not None
        with self._child.stderr as stream:
            while chunk := os.read(stream.fileno(), _CHUNK):
                self._errors = (self._errors + chunk)[-_ERROR_BYTES:]


class _Output(io.RawIOBase):
    """A pipe that is read with `wait_for`."""

    def __init__(self, descriptor: int, wait_for: Callable[[Callable[[float], object]], None]) -> None:
        self._descriptor = descriptor
        self._wait_for = wait_for
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._wait_for(lambda seconds: self._poll.poll(seconds * 1000))
        data = os.read(self._descriptor, len(buffer))
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def stream(
    argv: Sequence[str],
    *,
    idle: Callable[[float], object] = lambda _seconds: None,
    keep_stdin_open: bool = False,
    variables: Mapping[str, str] | None = None,
) -> Iterator[Running]:
    """Start a program whose output is read while it runs; when the block ends before it does, it is stopped.

    `idle` is called with the seconds without output, each TICK; its exception ends the reading. With
    `keep_stdin_open`, the input is open until `release`; without it, the input is empty.
    """
    stdin = subprocess.PIPE if keep_stdin_open else subprocess.DEVNULL
    env = {**os.environ, **(variables or {})}
    options: dict[str, Any] = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with _started(argv, _stop, partial(Running, idle=idle), env=env, start_new_session=True, **options) as running:
        yield running


def run_in_terminal(
    argv: Sequence[str],
    *,
    stdout_to_stderr: bool = False,
    quiet: bool = False,
    variables: Mapping[str, str] | None = None,
) -> int:
    """Run a program on the user's own terminal, and return its exit code; `quiet` drops its stdout."""
    stdout = subprocess.DEVNULL if quiet else 2 if stdout_to_stderr else None
    with _started(argv, _kill, lambda child: child, stdout=stdout, env={**os.environ, **(variables or {})}) as child:
        return child.wait()


@contextmanager
def _started(
    argv: Sequence[str],
    stop: Callable[[subprocess.Popen[bytes]], None],
    begin: Callable[[subprocess.Popen[bytes]], T],
    **options: Any,
) -> Iterator[T]:
    """Start a program, yield what `begin` returns for it, and stop it when the block ends before it does.

    No signal handler raises while it is started or stopped: see `packager.base.signals`.
    """
    is_main = threading.current_thread() is threading.main_thread()
    try:
        if is_main:
            signals.is_blocked = True
        try:
            child = subprocess.Popen(argv, **options)
        except FileNotFoundError:
            raise ToolError(f"{argv[0]}: program not found", hint=f"install {argv[0]}, or put it on PATH") from None
        except OSError as error:
            raise ToolError(f"{argv[0]} could not be started: {reason(error)}") from None
        try:
            begun = begin(child)
            if is_main:
                signals.is_blocked = False
                signals.run_postponed()
            yield begun
        finally:
            if is_main:
                signals.is_blocked = True
            stop(child)
    finally:
        if is_main:
            signals.is_blocked = False
            signals.run_postponed()


def _stop(child: subprocess.Popen[bytes]) -> None:
    _send(child, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):  # it may take no notice
        child.wait(_STOP_SECONDS)
    _kill(child)


def _kill(child: subprocess.Popen[bytes]) -> None:
    _send(child, signal.SIGKILL)
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def _send(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send a signal to a program that has not ended and, if it has a session of its own, to what it has started."""
    if child.poll() is not None:
        return
    with suppress(ProcessLookupError):
        if os.getpgid(child.pid) == child.pid:
            os.killpg(child.pid, number)
        else:
            child.send_signal(number)


class Runner:
    """The runner of this system: it starts programs and really waits."""

    run = staticmethod(run)
    stream: Callable[..., AbstractContextManager[Running]] = staticmethod(stream)
    run_in_terminal = staticmethod(run_in_terminal)
    clock = staticmethod(time.monotonic)  # the seconds since some moment in the past

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def now(self) -> datetime:
        """Return the time of day, in UTC."""
        return datetime.now(UTC)


SYSTEM = Runner()


class Progress(Protocol):
    """Shows the progress of a task."""

    def __call__(self, label: str, total: int, *, unit: str) -> AbstractContextManager[Callable[[int], None]]:
        """Return a context with a function that adds completed steps; `unit` is "bytes", or a word in the plural."""

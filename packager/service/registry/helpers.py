"""Starts programs that answer line by line, for checks and templates that could harm or stop this process."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from packager.base.errors import EndedError, HungError, ToolError, reason
from packager.base.process import MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

_CHUNK = 64 << 10
_STOP_SECONDS = 5.0
_START_SECONDS = 20.0
"""Seconds more that a program which has just been started may take to answer."""


class Helper:
    """A program that answers each line with a line, until it is closed; it has no environment.

    It is started when it is first asked, and again after it has failed. Threads that ask wait for each other.
    """

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = tuple(argv)
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def ask(self, line: bytes, *, timeout: float, max_bytes: int = MAX_BYTES) -> bytes:
        """Return the program's answer to a line, both without their line feed.

        Raises EndedError, ToolError or HungError.
        """
        with self._lock:
            if self._child is None or self._child.poll() is not None:
                self._end()
                self._child = self._start()
                timeout += _START_SECONDS
            try:
                return self._answer(self._child, line, timeout, max_bytes)
            except (ToolError, OSError) as error:
                self._end()
                if isinstance(error, ToolError):
                    raise
                raise EndedError(f"{self._argv[0]} has ended: {reason(error)}") from None

    def close(self) -> None:
        """Kill the program, if it runs."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            for pipe in (self._child.stdin, self._child.stdout):
                with suppress(OSError):
                    assert pipe is not None
                    pipe.close()
        self._child = None

    def _start(self) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={}
            )
        except OSError as error:
            raise ToolError(f"{self._argv[0]} could not be started: {reason(error)}") from None

    def _answer(self, child: subprocess.Popen[bytes], line: bytes, timeout: float, max_bytes: int) -> bytes:
        assert child.stdin is not None
        assert child.stdout is not None
        end = time.monotonic() + timeout
        child.stdin.write(line + b"\n")
        child.stdin.flush()
        answer = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(child.stdout, selectors.EVENT_READ)
            while not answer.endswith(b"\n"):
                if not selector.select(max(0.0, end - time.monotonic())):
                    raise HungError(f"{self._argv[0]} did not answer within {timeout:g} seconds")
                chunk = os.read(child.stdout.fileno(), _CHUNK)
                if not chunk:
                    raise EndedError(f"{self._argv[0]} has ended without an answer", _killer(child))
                answer += chunk
                if len(answer) > max_bytes:
                    raise ToolError(f"{self._argv[0]} answered more than {max_bytes:,} bytes")
        return bytes(answer[:-1])


class Helpers:
    """Processes of a program that answers lines, one for each simultaneous thread; see `Helper`."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = tuple(argv)
        self._helpers: list[Helper] = []
        self._free: list[Helper] = []

    def ask(self, line: bytes, *, timeout: float, max_bytes: int = MAX_BYTES) -> bytes:
        """Return the answer of the process that was used last and is free, or else of a new one. Raises as `Helper`."""
        try:
            helper = self._free.pop()  # atomic: two threads never get the same process
        except IndexError:
            helper = Helper(self._argv)
            self._helpers.append(helper)
        try:
            return helper.ask(line, timeout=timeout, max_bytes=max_bytes)
        finally:
            self._free.append(helper)

    def close(self) -> None:
        """Kill the processes."""
        for helper in self._helpers:
            helper.close()


def _killer(child: subprocess.Popen[bytes]) -> str | None:
    """Return the name of the signal that has killed a program which has closed its output; None for none."""
    try:
        returncode = child.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        return None
    names = {number.value: number.name for number in signal.Signals}
    return names.get(-returncode, f"signal {-returncode}") if returncode < 0 else None

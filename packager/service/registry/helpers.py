"""Starts programs that answer line by line, for templates that could harm or stop this process."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
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


class Helpers:
    """Processes of a program that answers each line with a line, one for each simultaneous thread; without environment.

    A process is started when none is free, and killed when it has failed.
    """

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = tuple(argv)
        self._children: set[subprocess.Popen[bytes]] = set()
        self._free: list[subprocess.Popen[bytes]] = []

    def ask(self, line: bytes, *, timeout: float, max_bytes: int = MAX_BYTES) -> bytes:
        """Return the answer to a line, both without their line feed, of the process that was used last and is free.

        Raises EndedError, ToolError or HungError.
        """
        try:
            child = self._free.pop()  # atomic: two threads never get the same process
        except IndexError:
            child = self._start()
            timeout += _START_SECONDS
        try:
            answer = self._answer(child, line, timeout, max_bytes)
        except (ToolError, OSError) as error:
            self._end(child)
            if isinstance(error, ToolError):
                raise
            raise EndedError(f"{self._argv[0]} has ended: {reason(error)}") from None
        self._free.append(child)
        return answer

    def close(self) -> None:
        """Kill the processes."""
        self._free.clear()
        for child in tuple(self._children):
            self._end(child)

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        self._children.discard(child)
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            with suppress(OSError):
                assert pipe is not None
                pipe.close()

    def _start(self) -> subprocess.Popen[bytes]:
        try:
            child = subprocess.Popen(
                self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={}
            )
        except OSError as error:
            raise ToolError(f"{self._argv[0]} could not be started: {reason(error)}") from None
        self._children.add(child)
        return child

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


def _killer(child: subprocess.Popen[bytes]) -> str | None:
    """Return the name of the signal that has killed a program which has closed its output; None for none."""
    try:
        returncode = child.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        return None
    names = {number.value: number.name for number in signal.Signals}
    return names.get(-returncode, f"signal {-returncode}") if returncode < 0 else None

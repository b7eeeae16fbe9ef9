"""Reads the logs of several containers as they are written, each with a kubectl and a thread."""

from __future__ import annotations

import queue
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from packager.base.errors import MlpackError
from packager.cluster.loglines import LogPosition, pieces
from packager.kubernetes.kubectl.messages import NO_POD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.process import Running
    from packager.kubernetes.kubectl.client import Kubectl

MOST_LOGS = 16
"""The largest number of logs that are read at the same time."""

_PIECES = 2_000
"""The lines that wait to be read; kubectl waits while there are more."""

_PAUSE = 1.0
_END_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class LivePart:
    """A line, or a part of a long one, and the pod that has written it."""

    pod: str
    text: bytes


class LiveLogs:
    """Reads logs until the block ends.

    Args:
        kubectl: The user's kubectl.
    """

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl = kubectl
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._parts: queue.Queue[LivePart] = queue.Queue(_PIECES)
        self._running: dict[str, Running] = {}
        self._threads: dict[str, threading.Thread] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._is_over.set()
        with self._lock:
            running = tuple(self._running.values())
        for program in running:
            program.stop()
        for thread in self._threads.values():
            thread.join(_END_SECONDS)

    def follow(self, pod: str, container: str, last: int | None = None) -> bool:
        """Begin to read the log of a pod, once; return whether it is read: at most MOST_LOGS are.

        Args:
            pod: The pod's name, which no other pod of the block has had.
            container: The name of the container.
            last: The number of earlier lines that are read; None for all.
        """
        if pod not in self._threads:
            if sum(thread.is_alive() for thread in self._threads.values()) >= MOST_LOGS:
                return False
            thread = threading.Thread(target=self._read, args=(pod, container, last), daemon=True)
            self._threads[pod] = thread
            thread.start()
        return True

    def parts(self, seconds: float) -> Iterator[LivePart]:
        """Yield the parts that were written, and wait for the first one at most this long."""
        with suppress(queue.Empty):
            yield self._parts.get(timeout=seconds)
            for _ in range(_PIECES):
                yield self._parts.get_nowait()

    def _read(self, pod: str, container: str, last: int | None) -> None:
        """Read a log until the container has ended; what breaks off is continued after the last line."""
        position = LogPosition()
        begin = position.resume() if last is None else [f"--tail={last}"]
        while not self._is_over.is_set():
            with suppress(MlpackError, OSError, ValueError):
                if self._read_once(pod, container, begin, position):
                    return
            self._is_over.wait(_PAUSE)
            begin = position.resume()

    def _read_once(self, pod: str, container: str, begin: list[str], position: LogPosition) -> bool:
        """Read on, and return whether there is nothing more to read: the pod is deleted."""
        arguments = ("logs", pod, f"--container={container}", "--timestamps", "--follow", *begin)
        with self._kubectl.start(*arguments) as program:
            with self._lock:
                self._running[pod] = program
            if self._is_over.is_set():
                program.stop()
            for piece in pieces(program.stdout):
                if text := position.take(piece):
                    self._put(LivePart(pod, text))
            done = program.wait()
        return done.returncode != 0 and NO_POD.search(done.stderr) is not None

    def _put(self, part: LivePart) -> None:
        while not self._is_over.is_set():
            with suppress(queue.Full):
                self._parts.put(part, timeout=_PAUSE)
                return

"""The log of a pod's container, whole: each line once, over lost connections and restarts of the container."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from packager.cluster.objects import container_statuses, main_container, name
from packager.cluster.pods import LAST_LINES, last_lines
from packager.errors import ToolError

if TYPE_CHECKING:
    from packager.cluster.client import Kubectl
    from packager.cluster.objects import Object
    from packager.cluster.verdict import Finding

_PATIENCE = 30.0

_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z ")

# Container runtimes cut a long line in pieces of 8 or 16 KiB, and the kubelet stamps each piece with its time.
_PIECE = 8 << 10


def last_words(kubectl: Kubectl, finding: Finding) -> Finding:
    """Return the finding with the end of the container's log, when the pod's status did not hold it."""
    if finding.log or not finding.container:
        return finding
    pod = finding.subject.removeprefix("pod/")
    done = kubectl.run("logs", pod, f"--container={finding.container}", f"--tail={LAST_LINES}", timeout=_PATIENCE)
    return finding if done.returncode else replace(finding, log=last_lines(done.stdout))


class LogReader:
    """Reads on in the log of one container, each time from where it was.

    It asks again and again instead of keeping a stream open: then there is nothing that a lost connection could break,
    and any number of logs are followed in turn.

    Args:
        kubectl: The user's.
        pod: Whose log.
        container: Of which container; the one that does the pod's work when None.
    """

    def __init__(self, kubectl: Kubectl, pod: Object, container: str | None = None) -> None:
        self._kubectl = kubectl
        self._pod = name(pod)
        self._container = container or main_container(pod)
        self._position = Position()
        self._restarts = 0

    def read(self, pod: Object) -> list[str]:
        """Return the lines that are new: none when there is no log yet, or the cluster does not answer.

        Args:
            pod: The same pod, as it is now.
        """
        status = next((each for each in container_statuses(pod) if each["name"] == self._container), None)
        if status is None or ("waiting" in status["state"] and not status.get("restartCount")):
            return []
        lines = []
        if status.get("restartCount", 0) > self._restarts:
            # What the container wrote between the last line read and its end; kubectl knows one container back.
            lines = self._read("--previous")
            self._restarts = status["restartCount"]
        return lines + self._read()

    def _read(self, *flags: str) -> list[str]:
        arguments = ["logs", self._pod, f"--container={self._container}", "--timestamps", *flags]
        try:
            done = self._kubectl.run(*arguments, *self._position.resume(), timeout=_PATIENCE)
        except ToolError:
            return []
        if done.returncode != 0:
            return []
        taken = (self._position.take(line) for line in done.stdout.removesuffix("\n").split("\n") if line)
        return [text for text in taken if text is not None]


class Position:
    """How far a log was read: so that reading on neither repeats nor leaves out a line."""

    def __init__(self) -> None:
        self._time = ""
        self._count = 0  # lines read that carry this very time
        self._skip = 0
        self._is_resuming = False

    def resume(self) -> list[str]:
        """Return kubectl's arguments to read on from here (with what it takes whole: seconds)."""
        self._skip, self._is_resuming = self._count, bool(self._time)
        return [f"--since-time={self._time}"] if self._time else ["--tail=-1"]

    def take(self, line: str) -> str | None:
        """Return the text of a line that `--timestamps` begins with its time; None when it was read before."""
        stamp = _STAMP.match(line)
        if not stamp:
            return line
        moment, text = stamp[0].rstrip(), _joined(line[stamp.end() :])
        if self._is_resuming:
            if _padded(moment) < _padded(self._time):
                return None
            if moment == self._time and self._skip:
                self._skip -= 1
                return None
            self._is_resuming = False
        # A container's two streams share one log, and may be out of order by some microseconds.
        if moment == self._time:
            self._count += 1
        elif _padded(moment) > _padded(self._time):
            self._time, self._count = moment, 1
        return text


def _joined(text: str) -> str:
    """Return a long line without the times that stand in it where the runtime cut it."""
    start = _PIECE
    while start < len(text):
        stamp = _STAMP.match(text, start)
        if stamp:
            text = text[:start] + text[stamp.end() :]
        start += _PIECE
    return text


def _padded(moment: str) -> str:
    """Return a time in UTC so that times are in order as text: RFC 3339 leaves out a fraction's trailing zeros."""
    whole, _, fraction = moment.rstrip("Z").partition(".")
    return f"{whole}.{fraction.ljust(9, '0')}"

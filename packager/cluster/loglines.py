"""Parses lines of `kubectl logs --timestamps`, and tracks how far a log was read. Tests: cluster/test_logs.py."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    class Stream(Protocol):
        """A stream whose bytes are read as they arrive."""

        def read1(self, size: int, /) -> bytes:
            """Return up to `size` bytes, as soon as there are any; empty at the end."""


# RFC 3339, as Go writes it: older kubelets leave out a fraction's trailing zeros.
_STAMP = re.compile(rb"(2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ")
_LONGEST_STAMP = 36

# Container runtimes cut a long line in pieces of 8 or 16 KiB, and kubelets before 1.27 stamp each piece with its time.
_CUT_BYTES = 8 << 10
_CHUNK = 64 << 10

_WHOLE_LINE = 1 << 62


@dataclass(frozen=True, slots=True)
class Piece:
    """A line, or a part of one that is long or has not ended.

    Attributes:
        moment: The line's time in UTC, with nine digits after the second; empty for a line without a time.
        text: The bytes that the container wrote, including the line feed at the end of the line.
        is_first: Whether the piece is the beginning of the line.
    """

    moment: bytes
    text: bytes
    is_first: bool = True


def pieces(stream: Stream) -> Iterator[Piece]:
    """Yield the lines of a stream; long or unfinished lines in parts of 8 KiB."""
    line, rest = _Line(), b""
    while chunk := stream.read1(_CHUNK):
        *complete, rest = (rest + chunk).split(b"\n")
        for text in complete:
            yield from line.take(text + b"\n")
        if len(rest) >= _CHUNK:
            yield from line.take(rest)
            rest = b""
    yield from line.take(rest, is_end=True)


class _Line:
    """The line that is being read."""

    def __init__(self) -> None:
        self._moment: bytes | None = None
        self._size = 0
        self._kept = b""

    def take(self, data: bytes, *, is_end: bool = False) -> Iterator[Piece]:
        """Yield the pieces that are complete with the next bytes of the line; `is_end` at the end of the stream."""
        data = self._kept + data
        self._kept = b""
        is_whole = is_end or data.endswith(b"\n")
        if self._moment is None and data:
            stamp = _STAMP.match(data)
            self._moment = _moment(stamp) if stamp else b""
            data = data[stamp.end() :] if stamp and self._moment else data
        while data and self._moment is not None:
            room = _CUT_BYTES - self._size % _CUT_BYTES
            if len(data) < room + _LONGEST_STAMP and not is_whole:
                self._kept = data
                return
            yield Piece(self._moment, data[:room], is_first=self._size == 0)
            self._size += room
            data = data[room:]
            stamp = _STAMP.match(data)
            if stamp and _moment(stamp) >= self._moment > b"":
                data = data[stamp.end() :]
        if is_whole:
            self._moment, self._size = None, 0


def _moment(stamp: re.Match[bytes]) -> bytes:
    """Return the time of a stamp in UTC as sortable text; empty for an invalid time."""
    whole, fraction, zone = stamp.groups()
    try:
        moment = datetime.fromisoformat((whole + zone).decode())
    except ValueError:
        return b""
    if zone != b"Z":
        whole = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S").encode()
    return bytes(whole + b"." + (fraction or b"").ljust(9, b"0"))


@dataclass(slots=True)
class _Second:
    """The lines of one second that were read: the time of the first, and their number."""

    first: bytes
    count: int = 0


class LogPosition:
    """The position up to which a container's log was read, so that no byte is repeated or left out.

    A kubelet returns the lines since a whole second, in the order of its file. Lines that were read are skipped by
    their number: times are not enough, since several lines may have the same time, and lines of a container's two
    streams may be slightly out of order. If the first returned line is not the expected one, the kubelet has begun a
    new file (containerLogMaxSize), and lines are skipped by their times.

    Attributes:
        first: The time of the first line that was read; empty before the first line.
        gaps: The number of places where lines may have been deleted before they were read.
    """

    def __init__(self) -> None:
        self.first = b""
        self.gaps = 0
        self._seconds: dict[bytes, _Second] = {}  # the newest second and the one before
        self._newest = b""
        self._of_newest = 0  # the number of lines with the newest time
        self._handed = 0  # the returned bytes of the last line, while it has no end
        self._is_counted = False  # whether the last line is counted in _seconds
        self._is_resuming = False
        self._is_finished = False
        self._ahead = 0  # the number of read lines that are returned again
        self._is_new_file = False
        self._repeats = 0  # the number of lines of a new file that may have been read in the old one
        self._skip = 0  # bytes of the current line to skip

    def resume(self) -> list[str]:
        """Return kubectl's arguments for reading on from this position."""
        self._is_resuming, self._ahead, self._skip = bool(self._newest), 0, 0
        return [f"--since-time={self.since.decode()}Z"] if self._newest else ["--tail=-1"]

    @property
    def since(self) -> bytes:
        """The whole second from which lines have to be read again; empty before the first line."""
        return _second_before(self._newest) if self._newest else b""

    def finish(self) -> None:
        """Treat the last answer as complete: if it contained none of the read lines, the file is a new one."""
        if self._is_resuming and not self._is_finished:
            self._is_finished = True
            self.gaps += 1

    def take(self, piece: Piece) -> bytes:
        """Return the unread bytes of a piece of kubectl's answer."""
        if not piece.moment and not piece.text.endswith(b"\n"):
            return b""  # the answer broke off within a timestamp
        if piece.is_first:
            self._skip = self._begin(piece.moment)
        skipped = min(self._skip, len(piece.text))
        self._skip -= skipped
        text = piece.text[skipped:]
        if text and piece.moment and self._is_counted:
            self._handed = 0 if text.endswith(b"\n") else self._handed + len(text)
        return text

    def _begin(self, moment: bytes) -> int:
        """Return the number of a line's bytes that were read before."""
        if not moment:  # the rest of a line that began before the requested second
            return _WHOLE_LINE if self._newest else 0
        if self._is_resuming:
            self._is_resuming = False
            expected = next(iter(self._seconds.values()))
            if moment == expected.first:
                self._ahead = sum(second.count for second in self._seconds.values())
            else:
                self._seconds, self._is_new_file, self._repeats = {}, True, self._of_newest
                self._handed = 0
        if self._ahead:
            self._ahead -= 1
            return _WHOLE_LINE if self._ahead or not self._handed else self._handed
        if self._is_new_file and self._is_known(moment):
            self._count(moment)
            return _WHOLE_LINE
        self.first = self.first or moment
        self._handed = 0
        self._is_counted = self._count(moment)
        self._of_newest = self._of_newest + 1 if moment == self._newest else self._of_newest
        if moment > self._newest:
            self._newest, self._of_newest = moment, 1
        return 0

    def _is_known(self, moment: bytes) -> bool:
        """Whether a line of a new file was read in the old one."""
        if moment < self._newest:
            return True
        if moment == self._newest and self._repeats:
            self._repeats -= 1
            return True
        self._is_new_file = False
        self.gaps += self._repeats == self._of_newest
        return False

    def _count(self, moment: bytes) -> bool:
        """Count a line that kubectl will return again, and return whether it will."""
        second, oldest = moment[:19], _second_before(max(moment, self._newest))
        if second not in self._seconds and second > self._newest[:19]:
            self._seconds = {known: lines for known, lines in self._seconds.items() if known >= oldest}
        if second < oldest:
            return False
        self._seconds.setdefault(second, _Second(moment)).count += 1
        return True


def _second_before(moment: bytes) -> bytes:
    """Return the whole second before that of `moment`."""
    return (datetime.fromisoformat(moment[:19].decode()) - timedelta(seconds=1)).isoformat().encode()

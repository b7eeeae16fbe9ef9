"""A terminal's screen, which interprets the escape sequences by which rich moves the cursor."""

from __future__ import annotations

import io
import re
import threading
from dataclasses import dataclass, field
from typing import BinaryIO, cast

_PARTS = re.compile(r"\x1b\[\??([0-9;]*)([A-Za-z])|[\s\S]")


@dataclass
class Screen:
    """A screen that is `width` characters wide and has as many lines as needed."""

    width: int = 100
    _lines: list[str] = field(default_factory=lambda: [""])
    _row: int = 0
    _column: int = 0
    # A picture is drawn by another thread.
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def write(self, text: str) -> None:
        """Show the output of a program."""
        with self._lock:
            for part in _PARTS.finditer(text):
                self._act(part[0], part[1], part[2])

    @property
    def text(self) -> str:
        """The visible text without blank lines."""
        with self._lock:
            return "\n".join(line.rstrip() for line in self._lines if line.strip())

    def _act(self, part: str, number: str, action: str) -> None:
        if action == "A":
            self._row = max(self._row - int(number or 1), 0)
        elif action == "K":
            assert number == "2", "only whole lines are deleted"
            self._lines[self._row] = ""
        elif action:
            assert action in "mhl", f"the screen does not support {part!r}"  # colours, and visibility of the cursor
        elif part == "\n":
            self._go_down()
        elif part == "\r":
            self._column = 0
        else:
            self._put(part)

    def _put(self, character: str) -> None:
        if self._column == self.width:
            self._go_down()
        line = self._lines[self._row].ljust(self._column)
        self._lines[self._row] = line[: self._column] + character + line[self._column + 1 :]
        self._column += 1

    def _go_down(self) -> None:
        self._row, self._column = self._row + 1, 0
        if self._row == len(self._lines):
            self._lines.append("")


@dataclass
class _Bytes(io.RawIOBase):
    screen: Screen

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.screen.write(data.decode())
        return len(data)


class Written(io.StringIO):
    """A standard output stream that writes to a screen."""

    def __init__(self, screen: Screen) -> None:
        super().__init__()
        self.screen = screen

    @property
    def buffer(self) -> BinaryIO:
        """The stream for bytes, which writes to the same screen."""
        return cast("BinaryIO", _Bytes(self.screen))

    def isatty(self) -> bool:
        """Return True, because the stream is a terminal."""
        return True

    def write(self, text: str) -> int:
        """Show the text on the screen."""
        self.screen.write(text)
        return len(text)


class Typed(io.StringIO):
    """A standard input with typed lines, which the screen shows."""

    def __init__(self, screen: Screen, text: str) -> None:
        super().__init__(text)
        self.screen = screen

    def isatty(self) -> bool:
        """Return True, because the stream is a terminal."""
        return True

    def readline(self, size: int | None = -1) -> str:  # type: ignore[override]
        """Return the next line, and show it."""
        line = super().readline(-1 if size is None else size)
        self.screen.write(line)
        return line

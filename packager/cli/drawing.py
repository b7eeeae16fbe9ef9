"""Draws progress bars and live pictures on a terminal with rich, which is slow to import. Tests: cli/test_status.py."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from packager.cli.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType


@contextmanager
def progress_bar(label: str, total: int, *, unit: str) -> Iterator[Callable[[int], None]]:
    """Give a function that adds completed steps, and draw them as a bar on stderr while the block runs."""
    count = DownloadColumn() if unit == "bytes" else MofNCompleteColumn()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), count, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(printable(label), total=total)
        yield lambda steps: bar.advance(task, steps)


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of a picture: its text, its style, and whether it is cut at the terminal's width."""

    text: str
    style: str
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Columns:
    """Rows of a picture, with a heading for each column."""

    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


class Picture:
    """A picture on stderr that is shown while its block runs."""

    def __init__(self) -> None:
        self._live = Live(console=Console(stderr=True, highlight=False), transient=True, refresh_per_second=4)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def draw(self, parts: Sequence[TextLine | Columns]) -> None:
        """Replace the picture by `parts`, one below the other."""
        self._live.update(Group(*map(_drawn, parts)), refresh=True)


def _drawn(part: TextLine | Columns) -> Text | Table:
    if isinstance(part, TextLine):
        text = Text(printable(part.text), style=part.style)
        if part.is_cut:
            text.no_wrap, text.overflow = True, "ellipsis"
        return text
    table = Table(box=None, padding=(0, 3, 0, 0))
    for heading in part.headings:
        table.add_column(heading, no_wrap=True)
    for row in part.rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table

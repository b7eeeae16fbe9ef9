"""Draws live pictures on a terminal with rich, which is slow to import. Tests: cli/test_status.py."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from packager.cli.console import printable


class Draw(Protocol):
    """Replaces a picture."""

    def __call__(self, head: str, rows: Sequence[Sequence[str]], notes: Sequence[str]) -> None:
        """Show a title, a table with a heading, and notes."""


@contextmanager
def picture() -> Iterator[Draw]:
    """Give a function that draws a picture on stderr, which is shown while the block runs."""
    with Live(console=Console(stderr=True, highlight=False), transient=True, refresh_per_second=4) as live:

        def draw(head: str, rows: Sequence[Sequence[str]], notes: Sequence[str]) -> None:
            parts: list[Text | Table] = [Text(printable(head), style="bold")]
            if len(rows) > 1:
                table = Table(box=None, padding=(0, 3, 0, 0))
                for heading in rows[0]:
                    table.add_column(heading, no_wrap=True)
                for row in rows[1:]:
                    table.add_row(*(Text(printable(cell)) for cell in row))
                parts.append(table)
            parts += [Text(printable(note), style="yellow") for note in notes]
            live.update(Group(*parts, Text("Ctrl-C leaves it running", style="dim")), refresh=True)

        yield draw

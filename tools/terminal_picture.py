"""Draws docs/pictures/terminal.svg: a terminal in which a package is built, verified and deployed.

`build` and `verify` run while the picture is drawn. The screens of `deploy` and `logs` are those of docs/session.md,
which a test makes.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

_SESSION = Path(__file__).parents[1] / "docs/session.md"
_COMMANDS = ("mlpack build hello-mpi", "mlpack verify -v hello-mpi.tar.gz")
_COLUMNS = 100
_LINE, _CHARACTER, _MARGIN = 18, 8.0, 16  # pixels


def main() -> None:
    """Print the picture."""
    sys.stdout.write(picture([*executed(), *recorded()]))


def executed() -> list[str]:
    """Return the lines of the commands that run now, each with its output."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for command in _COMMANDS:
            done = subprocess.run(command.split(), cwd=folder, capture_output=True, text=True, check=True)  # noqa: S603
            lines += [f"$ {command}", *(done.stdout + done.stderr).splitlines()]
    return [re.sub(r"(sha256:[0-9a-f]{12})[0-9a-f]+", r"\1…", line) for line in lines]


def recorded() -> list[str]:
    """Return the last screen of `mlpack deploy` and that of `mlpack logs` in docs/session.md."""
    screens = re.findall(r"^```text\n(.*?)^```$", _SESSION.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    last = next(screen for screen in screens if "has succeeded\n" in screen)
    logs = screens[screens.index(last) + 1]
    return [*last.splitlines(), *logs.splitlines()]


def picture(lines: list[str]) -> str:
    """Return lines of a terminal as SVG; those of a user begin with `$`."""
    width = 2 * _MARGIN + _COLUMNS * _CHARACTER
    height = 2 * _MARGIN + _LINE * len(lines)
    texts = []
    for number, line in enumerate(lines):
        color = "#7ee787" if line.startswith("$ ") else "#e6edf3"
        at = _MARGIN + _LINE * (number + 0.75)
        texts.append(f'<text x="{_MARGIN}" y="{at:g}" fill="{color}" xml:space="preserve">{escape(line)}</text>')
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">',
            "<title>A terminal: a package is built, verified and deployed</title>",
            f'<rect width="{width:g}" height="{height:g}" rx="8" fill="#0d1117"/>',
            '<g font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="13">',
            *texts,
            "</g>",
            "</svg>\n",
        )
    )


if __name__ == "__main__":
    main()

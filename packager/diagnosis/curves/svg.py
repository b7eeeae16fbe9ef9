"""Writes figures as one SVG document, which needs no program but a browser."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from packager.diagnosis.curves.figure import BOTTOM, HEIGHT, LEFT, RIGHT, WIDTH

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.diagnosis.curves.figure import Figure

_TITLE, _LEGEND = 26, 16
_COLOURS = ("#1f6feb", "#d1242f", "#1a7f37", "#8250df", "#bf8700", "#0a7ea4", "#bf3989", "#57606a")
_STYLE = (
    "text{font:11px sans-serif;fill:#57606a}.title{font-size:13px;font-weight:bold;fill:#1f2328}"
    ".grid{stroke:#d0d7de;fill:none}polyline{fill:none;stroke-width:1.5}"
)


def document(figures: Sequence[Figure]) -> str:
    """Return an SVG document with the figures below each other, each with its name and a legend of its pods.

    Names of values and pods are escaped: they come from the output of programs.
    """
    parts, top = [], 0
    for figure in figures:
        parts.append(f'<g transform="translate(0 {top})">{"".join(_figure(figure))}</g>\n')
        top += _TITLE + HEIGHT + _LEGEND * len(figure.lines)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {max(top, 1)}" width="{WIDTH}">'
    background = '<rect width="100%" height="100%" fill="#ffffff"/>'
    return f"{head}\n<style>{_STYLE}</style>{background}\n{''.join(parts)}</svg>\n"


def _figure(figure: Figure) -> Iterator[str]:
    yield f'<text class="title" x="8" y="17">{escape(figure.name)}</text><g transform="translate(0 {_TITLE})">'
    for tick in figure.up:
        yield f'<path class="grid" d="M{LEFT} {tick.at:g}H{WIDTH - RIGHT}"/>'
        yield f'<text x="{LEFT - 6}" y="{tick.at + 4:g}" text-anchor="end">{escape(tick.text)}</text>'
    for tick in figure.across:
        yield f'<text x="{tick.at:g}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{escape(tick.text)}</text>'
    for index, line in enumerate(figure.lines):
        colour = _COLOURS[index % len(_COLOURS)]
        for run in line.runs:
            yield f'<polyline stroke="{colour}" points="{run}"/>'
        for x, y in line.dots:
            yield f'<circle fill="{colour}" cx="{x:g}" cy="{y:g}" r="1.5"/>'
        height = HEIGHT + _LEGEND * index + 4
        yield f'<path stroke="{colour}" stroke-width="2" d="M{LEFT} {height}h18"/>'
        last = f"{line.pod}: {line.last[1]} at step {line.last[0]}"
        yield f'<text x="{LEFT + 24}" y="{height + 4}">{escape(last)}</text>'
    yield "</g>"

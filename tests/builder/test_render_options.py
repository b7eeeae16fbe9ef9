"""The options in the README of a package: each that it has, in at most two lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.builder.plan import Options, plan
from packager.builder.render import render
from packager.modelspec.catalog import bundled
from packager.modelspec.load import load
from packager.modelspec.settings import parse_setting
from packager.package.options import OPTIONS, offered
from tests import everything, kinds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packager.builder.plan import Plan

WIDTH = 120
"""The most characters of a line."""


def paragraphs(planned: Plan) -> dict[tuple[str, ...], list[str]]:
    """Return the lines of each paragraph about options in the README, by the names of the options."""
    [readme] = [entry.content for entry in render(planned).entries if entry.path == "README.md"]
    assert isinstance(readme, bytes)
    section = readme.decode().partition("## Options of your site\n")[2].partition("\n## ")[0]
    options = re.findall(r"^\*\*([a-z, -]+)\.\*\*(.*?)(?=\n\n|\Z)", section, re.MULTILINE | re.DOTALL)
    return {tuple(names.split(", ")): f"**{names}.**{text}".strip().splitlines() for names, text in options}


def plans(folder: Path) -> Iterator[Plan]:
    """Yield the plan of each bundled package, and of two whose spec has every key."""
    folders = [parse_setting(argument) for argument in (*kinds.SET, *kinds.FOLDERS)]
    specs = [load(spec) for spec in (everything.write(folder), *sorted(bundled().glob("*/spec.yaml")))]
    for loaded in (load(bundled() / "hello-mpi/spec.yaml", folders), *specs):
        for variant in loaded.spec.variants:
            yield plan(loaded, variant, Options())


def test_readme_describes_each_option_in_two_lines(tmp_path: Path) -> None:
    described = set()
    for planned in plans(tmp_path):
        lines = paragraphs(planned)
        names = [name for group in lines for name in group]
        assert names == [option.name for option in offered(planned.traits)], planned.name
        for group, text in lines.items():
            assert len(text) <= 2, f"{planned.name}: {group}"
            assert [line for line in text if len(line) > WIDTH] == [], planned.name
        described.update(names)
    assert described == {option.name for option in OPTIONS}

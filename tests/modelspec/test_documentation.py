"""Markdown files of a spec become sections of the README of each package."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.builder.plan import Options, plan
from packager.builder.render import render
from packager.modelspec.documentation import section
from packager.modelspec.load import load
from packager.package import tree
from tests import demo

if TYPE_CHECKING:
    from pathlib import Path

SPEC = demo.changed("documentation: [{title: Data, file: docs/data.md}, {title: More, file: more.md}]")
FILES: dict[str, str | bytes] = {
    "docs/data.md": "\ufeff# data\r\n\r\n[code](quickstart/scripts/train.sh)\r\n\r\n## Sets\r\n",
    "more.md": "<details>\n",
}


def test_documentation_becomes_sections_of_the_readme(tmp_path: Path) -> None:
    loaded = load(demo.write(tmp_path, SPEC, FILES))
    package = render(plan(loaded, loaded.spec.variants[0], Options()))
    entry = next(entry for entry in package.entries if entry.path == "README.md")
    text = b"".join(tree.chunks(entry)).decode()
    data = "## Data\n\n[code](quickstart/scripts/train.sh)\n\n### Sets\n"
    assert text.endswith(f"{data}\n## More\n\n<details>\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# A\n\n## B\n\n###### C\n", "### A\n\n#### B\n\n###### C"),
        ("#### Title #\n#### B", "### B"),
        ("```sh\n# code\n~~~\n```\n# B\n~~~\n# code", "```sh\n# code\n~~~\n```\n### B\n~~~\n# code"),
        ("#no heading\n", "#no heading"),
    ],
)
def test_headings_move_below_the_section(text: str, expected: str) -> None:
    assert section(text, "title") == expected


def problems(folder: Path, documentation: str, files: dict[str, str | bytes]) -> list[str]:
    return demo.problems(demo.write(folder, demo.changed(f"documentation: {documentation}"), files))


@pytest.mark.parametrize(
    ("documentation", "expected"),
    [
        ("[{title: A, file: no.md}]", "spec.yaml:11:34: expected a file, found none: no.md"),
        ("[{title: A, file: link.md}]", "spec.yaml:11:34: link.md is a link that leaves the folder"),
        (
            "[{title: A, file: a.md}, {title: A, file: b.md}]",
            "spec.yaml:11:49: duplicate title 'A' (remove one of them)",
        ),
        ("[{title: A, file: bytes.md}]", "bytes.md: expected UTF-8 text, found other bytes"),
    ],
)
def test_invalid_documentation_is_refused(tmp_path: Path, documentation: str, expected: str) -> None:
    files: dict[str, str | bytes] = {"a.md": "a", "b.md": "b", "bytes.md": b"\xff"}
    folder = tmp_path / "model"
    demo.write(folder, files=files)
    (tmp_path / "secret.md").write_text("secret", encoding="utf-8")
    (folder / "link.md").symlink_to("../secret.md")
    [problem] = problems(folder, documentation, files)
    assert problem.startswith(expected)

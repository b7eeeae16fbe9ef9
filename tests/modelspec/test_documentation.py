"""Markdown files of a spec become sections of the README of each package."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from packager.app.lint import lint
from packager.builder.plan import Options, plan
from packager.builder.render import render
from packager.modelspec.load import load
from packager.package import tree
from tests import demo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

SPEC = demo.changed(
    "files: [train.sh] => files: [train.sh, src]",
    "script: train.sh => script: train.sh, files: [only.py]",
    "  - {precision: bf16, mode: training, script: train.sh}",
    "assets: [data]",
    "downloads: [{url: 'https://example.com/w', path: weights/w.npz}]",
    "documentation:",
    "  - {title: 'The | <b>data*', file: docs/data.md}",
    "  - {title: More, file: docs/more.md}",
)
FILES = {
    "src/a/b.py": "",
    "only.py": "",
    "data/set.csv": "",
    "docs/data.md": """\
# Data

[code](../src/a/b.py) [folder](../src/) [set](../data/set.csv "the set") [weights](../weights/w.npz) [spec](/spec.yaml)
[more](more.md) [deep](more.md#deep-one) [top](more.md#lost) [own](../only.py) ![picture](p.png) [lost](#lost)
[site](HTTPS://example.com/a%20b) [mail](mailto:a@example.com) [up](../../x) [folder](..) [file](file:///etc/passwd)
""",
    "docs/more.md": "More\n====\n\nDeep *one*\n----------\n<details>\n",
}


def sections(path: Path, variant: int) -> str:
    loaded = load(path)
    package = render(plan(loaded, loaded.spec.variants[variant], Options()))
    entry = next(entry for entry in package.entries if entry.path == "README.md")
    text = b"".join(tree.chunks(entry)).decode()
    return text[text.index("## The \\|") :]


def test_documentation_becomes_sections_of_the_readme(tmp_path: Path) -> None:
    path = demo.write(tmp_path, SPEC, FILES)
    assert (
        sections(path, 0)
        == """\
## The \\| \\<b\\>data\\*

### Data

[code](quickstart/scripts/src/a/b.py) [folder](quickstart/scripts/src) [set](assets/data/set.csv "the set") \
[weights](assets/weights/w.npz) spec (`/spec.yaml`)
[more](#more) [deep](#deep-one) [top](#more) [own](quickstart/scripts/only.py) picture (`p.png`) lost
[site](HTTPS://example.com/a%20b) [mail](mailto:a@example.com) up (`../../x`) folder (`..`) file (`file:///etc/passwd`)

## More

### Deep *one*

\\<details>
"""
    )
    assert "own (`../only.py`)" in sections(path, 1)


def test_lint_warns_about_lost_links_and_html(tmp_path: Path, mlpack: Callable[..., Outcome]) -> None:
    path = demo.write(tmp_path / "demo", SPEC.replace("downloads:", "environment: {}\n#"), FILES)
    data = path.parent / "docs/data.md"
    lost = ("[weights](", "[spec](", "[own](", "[picture](", "[lost](", "[up](", "[folder](..)", "[file](")
    remarks = []
    for number, line in enumerate(FILES["docs/data.md"].splitlines(), start=1):
        for column, target in sorted((line.index(start), line[line.index(start) :]) for start in lost if start in line):
            name = target[target.index("(") + 1 : target.index(")")]
            place = f"{data}:{number}:{column + 1}"
            remarks.append(f"{place}: the link to {name!r} leads nowhere in the package, and becomes text")
    remarks.append(f"{path.parent}/docs/more.md:6:1: HTML is shown as text")
    assert [str(warning) for warning in lint([str(path)], [], tell=pytest.fail).warnings] == remarks
    done = mlpack("build", path)
    assert [line for line in done.stderr.splitlines() if "docs/" in line] == [f"note: {remark}" for remark in remarks]


def problems(folder: Path, documentation: str, files: dict[str, str | bytes]) -> list[str]:
    return demo.problems(demo.write(folder, demo.changed(f"documentation: {documentation}"), files))


@pytest.mark.parametrize(
    ("documentation", "expected"),
    [
        ("[{title: A, file: no.md}]", "spec.yaml:11:34: expected a file, found none: no.md"),
        ("[{title: A, file: link.md}]", "spec.yaml:11:34: link.md is a link that leaves the spec's folder"),
        (
            "[{title: A, file: a.md}, {title: A, file: b.md}]",
            "spec.yaml:11:49: duplicate title 'A' (remove one of them)",
        ),
        ("[{title: A, file: open.md}]", "open.md:2:1: the block of code that begins here is not closed"),
        (
            f"[{', '.join(f'{{title: {n}a, file: c{n}.md}}' for n in range(5))}]",
            "c4.md: the files of `documentation` are more than 256 KiB",
        ),
    ],
)
def test_invalid_documentation_is_refused(tmp_path: Path, documentation: str, expected: str) -> None:
    files: dict[str, str | bytes] = {
        "a.md": "a",
        "b.md": "b",
        "open.md": "a\n```\n",
        "bidi.md": "a\u202eb",
        "sub/x": "",
    }
    files |= {f"c{number}.md": "x\n" * 30_000 for number in range(5)}
    folder = tmp_path / "model"
    demo.write(folder, files=files)
    (tmp_path / "secret.md").write_text("secret", encoding="utf-8")
    (folder / "link.md").symlink_to("../secret.md")
    os.mkfifo(folder / "pipe.md")
    [problem] = problems(folder, documentation, files)
    assert problem.startswith(expected)

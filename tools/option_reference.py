"""Writes the reference of the site options, in Markdown: `make docs`.

It is made from packager/package/options.py and the options' files.

The description of an option is the comment at the beginning of its kustomization.yaml, which is also in each package.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from packager.package.options import KEYS, OPTIONS, TRAITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.package.options import Key, Option

_INTRODUCTION = """\
# The site options

<!-- Made by `make docs` from packager/package/options.py and the options' kustomization.yaml: edit those. -->

A package contains the options that somebody has asked for, and as built `output-pvc` and `dataset-pvc`, switched off.
`mlpack build --with NAME --site KEY=VALUE` builds a package in which one is on. `mlpack configure PACKAGE --with NAME
--set KEY=VALUE` adds one to a package that exists, and switches it on. `mlpack options PACKAGE` lists those that fit.
`mlpack build --with all` puts all of them into a package, switched off, for receivers without mlpack: they uncomment a
line in an overlay's `kustomization.yaml`, and set keys in `site.env`. A key without a default has to be set.
"""
_COMPONENTS = (
    Path(__file__).resolve().parents[1] / "packager/builder/templates/package/quickstart/common/FRAMEWORK/k8s/mlops"
)
_COMMENT = re.compile(r"(?:^#.*\n)+(?=apiVersion:)", re.MULTILINE)
_CONDITIONAL = re.compile(r"^\{% if .*?^\{% endif %\}\n", re.MULTILINE | re.DOTALL)
_NAME = re.compile(rf"(?<![`\w])(?:{'|'.join(KEYS)}|[A-Z]+_DIR)(?!\w)")
_WIDTH = 120


def reference() -> str:
    """Return the whole document."""
    return "\n".join([_INTRODUCTION, *map(_section, OPTIONS)])


def _section(option: Option) -> str:
    paragraphs = [f"## {option.name}", *_description(option), _filled(" ".join(_conditions(option)))]
    if option.keys:
        paragraphs.append("\n".join(["| key | what it is | default |", "|---|---|---|", *map(_row, option.keys)]))
    return "\n\n".join(paragraphs) + "\n"


def _description(option: Option) -> Iterator[str]:
    """Yield the paragraphs of the comment, without its last, which lists the keys."""
    file = _COMPONENTS / option.name / "kustomization.yaml"
    comment = _COMMENT.search(_CONDITIONAL.sub("", file.read_text(encoding="utf-8")))
    assert comment, f"{file}: no comment before apiVersion"
    text = re.sub("^# ?", "", comment[0], flags=re.MULTILINE).removeprefix(f"{option.name}: ")
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("  "):
            yield f"```sh\n{paragraph.strip()}\n```"
        elif not paragraph.startswith("Reads "):
            sentences = _NAME.sub(lambda name: f"`{name[0]}`", " ".join(paragraph.split()))
            yield _filled(sentences[0].upper() + sentences[1:])


def _conditions(option: Option) -> Iterator[str]:
    if option.only:
        reason = TRAITS[option.only].partition(", and {}")[0]
        yield f"{reason[0].upper()}{reason[1:]}."
    if option.needs:
        yield f"It is used together with `{'` or `'.join(option.needs)}`."
    yield from (f"It cannot be combined with `{name}`: {reason}." for name, reason in option.excludes)
    yield f"Pod Security: {option.level}."
    if option.since:
        yield f"Kubernetes: {option.since} or later."


def _filled(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def _row(key: Key) -> str:
    cells = (f"`{key.name}`", key.description.replace("|", "\\|"), f"`{key.example}`" if key.usual else "")
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.stdout.write(reference())

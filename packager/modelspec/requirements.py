"""Checks the requirements files of variants: Python packages, each of one version, with the digests of its files.

pip would also read options in such a file, which name other indexes, files and repositories of source code, and accepts
packages without a digest: none of these is allowed here (pip's documentation, "Requirements File Format").
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from packager.base.faults import Fault
from packager.base.problems import Problem, show, similar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packager.modelspec.files import SpecFiles
    from packager.modelspec.model import Spec

_MAX_FINDINGS = 100
_MAX_BYTES = 4 << 20

_COMMENT = re.compile(r"(?:^|[ \t]+)#.*")
_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[A-Za-z0-9._, -]*\])?[ \t]*==[ \t]*[A-Za-z0-9][A-Za-z0-9.!+_-]*")
_CONDITION = re.compile(r"[A-Za-z0-9_.'\"<>=!(),~ \t-]+")
_HASH = " --hash="
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

_EXPECTED = "expected NAME==VERSION and its files' --hash=sha256:…"
_HINT = "`pip-compile --generate-hashes` and `uv pip compile --generate-hashes` write such files"


def check(spec: Spec, sources: SpecFiles) -> Iterator[Fault]:
    """Yield a fault for each variant whose requirements file is not one of its files."""
    for index, variant in enumerate(spec.variants):
        names = [file.name for file in sources.code(spec.code_places(index))]
        if variant.requirements is not None and variant.requirements not in names:
            place = ("variants", index, "requirements")
            message = f"{variant.requirements!r} is not one of the variant's `files`"
            yield Fault(place, message, similar(variant.requirements, names) or "add it there")


def problems(folder: Path, spec: Spec, sources: SpecFiles) -> Iterator[Problem]:
    """Yield a problem for each line of a requirements file that pip must not get, at most 100 for each file."""
    named = {variant.requirements for variant in spec.variants}
    for file in {file.name: file for file in sources.files if file.name in named}.values():
        shown_as = str(folder / file.name)
        if file.size > _MAX_BYTES:
            yield Problem(shown_as, 0, 0, f"expected at most {_MAX_BYTES:,} bytes, found {file.size:,}")
            continue
        content = file.path.read_bytes() if file.content is None else file.content
        for line, column, message in islice(_faults(content), _MAX_FINDINGS):
            yield Problem(shown_as, line, column, message, _HINT)


def _faults(content: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield the line, the column and the message of each fault."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        yield content.count(b"\n", 0, error.start) + 1, 1, "the line is not UTF-8"
        return
    for number, requirement in _requirements(text):
        package, *hashes = requirement.split(_HASH)
        name, semicolon, condition = package.partition(";")
        if not _PACKAGE.fullmatch(name.strip()) or (semicolon and not _CONDITION.fullmatch(condition)):
            yield number, 1, f"{_EXPECTED}, found {show(requirement.strip())}"
        elif not hashes:
            yield number, 1, f"{_EXPECTED}, found no digest of {show(name.strip())}"
        else:
            wrong = (digest for digest in hashes if not _DIGEST.fullmatch(digest.strip()))
            yield from ((number, 1, f"{_EXPECTED}, found the digest {show(digest.strip())}") for digest in wrong)


def _requirements(text: str) -> Iterator[tuple[int, str]]:
    """Yield each requirement, without comments and the backslashes of continued lines, with its first line's number."""
    parts: list[str] = []
    first = 1
    for number, line in enumerate(text.split("\n"), 1):
        if not parts:
            first = number
        is_continued = line.rstrip("\r").endswith("\\")
        parts.append(_COMMENT.sub("", line.rstrip("\r").removesuffix("\\")).strip())
        if not is_continued:
            if requirement := " ".join(filter(None, parts)):
                yield first, requirement
            parts = []
    if requirement := " ".join(filter(None, parts)):
        yield first, requirement

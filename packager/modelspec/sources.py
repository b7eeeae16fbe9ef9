"""Checks what pods fetch before their program starts: the sources of a spec, and the requirements of its variants.

Requirements are Python packages, each of one version, with the digests of its files. pip would also read options in
such a file, which name other indexes, files and repositories of source code, and accepts packages without a digest:
none of these is allowed here (pip's documentation, "Requirements File Format").
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base.problems import Fault, Problem, show, similar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packager.base.fields import FetchedFile
    from packager.base.yamlio import Location
    from packager.modelspec.files import SpecFiles
    from packager.modelspec.model import Spec

_FOLDERS = ("OUTPUT_DIR", "DATASET_DIR", "CHECKPOINT_DIR")
"""The variables of the folders that pods can write to before their program starts, if there are such folders."""

_SECRETS_OF_S3 = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")

_LISTED = re.compile("hf://(datasets/)?[^/]+/[^/]+@[0-9a-f]{40}(/.*)?|oci://.*")
"""Sources whose address says which content they have: their files are listed under a commit or a digest."""

_SEVERAL = re.compile("hf://(datasets/)?[^/]+/[^/]+|oci://.*")
"""Sources that have several files."""

_COMMENT = re.compile(r"(?:^|[ \t]+)#.*")
_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[A-Za-z0-9._, -]*\])?[ \t]*==[ \t]*[A-Za-z0-9][A-Za-z0-9.!+_-]*")
_CONDITION = re.compile(r"[A-Za-z0-9_.'\"<>=!(),~ \t-]+")
_HASH = " --hash="
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

_EXPECTED = "expected NAME==VERSION and its files' --hash=sha256:…"
_HINT = "`pip-compile --generate-hashes` and `uv pip compile --generate-hashes` write such files"


def check(spec: Spec, files: SpecFiles) -> Iterator[Fault]:
    """Yield a fault for each requirements file that is no file of its variant, and for each source that cannot work."""
    for index, variant in enumerate(spec.variants):
        names = [file.name for file in files.code(spec.code_places(index))]
        if variant.requirements is not None and variant.requirements not in names:
            message = f"{variant.requirements!r} is not one of the variant's `files`"
            hint = similar(variant.requirements, names) or "add it there"
            yield Fault(("variants", index, "requirements"), message, hint)
    taken: set[str] = set()
    for index, source in enumerate(spec.sources):
        place = ("sources", index)
        if source.folder not in _folders(spec):
            message = f"{source.folder} is not a folder that the pods of this model can write to"
            hint = f"they can write to {' and '.join(_folders(spec))}"
            yield Fault((*place, "to"), message, hint, needs=((*place, "to"), ("environment",), ("dataset",)))
        if source.to == source.folder and not _SEVERAL.fullmatch(source.address):
            name = source.address.partition("?")[0].rpartition("/")[2] or "NAME"
            yield Fault((*place, "to"), "`from` is one file, and `to` does not name it", f"write {source.to}/{name}")
        if source.secret is not None and source.secret not in spec.secrets:
            yield Fault((*place, "secret"), f"{source.secret!r} is not one of `secrets`", "add it there")
        yield from _address(source, place)
        if source.to in taken:
            yield Fault((*place, "to"), f"another source has the place {source.to!r}", "use another path")
        taken.add(source.to)


def _folders(spec: Spec) -> list[str]:
    """Return those of `_FOLDERS` that the model has."""
    missing = {"DATASET_DIR": not spec.dataset, "CHECKPOINT_DIR": "CHECKPOINT_DIR" not in spec.environment}
    return [folder for folder in _FOLDERS if not missing.get(folder)]


def _address(source: FetchedFile, place: Location) -> Iterator[Fault]:
    """Yield a fault where the digest is missing or cannot be used, or the secret would be."""
    if source.secret is not None and source.address.startswith("http://"):
        yield Fault((*place, "from"), "a secret is only sent by https", "use https://…")
    if source.secret is not None and source.address.startswith("s3://"):
        keys = " and ".join(_SECRETS_OF_S3)
        yield Fault(
            (*place, "secret"), f"the secrets for S3 are {keys}", "leave `secret` out, and add these to `secrets`"
        )
    if source.sha256 is None and not _LISTED.fullmatch(source.address):
        kind = "a commit of 40 digits in `from`, or sha256" if source.address.startswith("hf://") else "sha256"
        yield Fault(place, f"the content of {source.address} may change", f"add {kind}")
    if source.sha256 is not None and _SEVERAL.fullmatch(source.address):
        yield Fault((*place, "sha256"), "a sha256 is that of one file, and `from` has several", "leave it out")


def problems(folder: Path, spec: Spec, sources: SpecFiles) -> Iterator[Problem]:
    """Yield a problem for each line of a requirements file that pip must not get."""
    named = {variant.requirements for variant in spec.variants}
    for file in {file.name: file for file in sources.files if file.name in named}.values():
        shown_as = str(folder / file.name)
        content = file.path.read_bytes() if file.content is None else file.content
        for line, column, message in _faults(content):
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

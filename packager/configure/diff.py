"""Package -> Edits: compares a package with its own inventory, which has the delivered text of the editable files."""

from __future__ import annotations

import hashlib
from difflib import diff_bytes, unified_diff
from typing import TYPE_CHECKING, Any

from packager.base.errors import VerificationError
from packager.base.masking import masked_line, masked_urls
from packager.base.values import Value, field
from packager.configure import edits, merge
from packager.configure.additions import completed
from packager.package import integrity, layout, path_checks, tree
from packager.package.layout import INVENTORY
from packager.package.opened import opened
from packager.package.path_checks import ContentError

if TYPE_CHECKING:
    from pathlib import Path

    from packager.configure.edits import Edit
    from packager.package.opened import Package

MOST_BYTES = 1 << 20
"""The largest file that becomes part of a patch: as large as an editable file may be."""


class PackageEdits(Value, frozen=True):
    """The edits of one package."""

    package: str
    digest: str  # the digest of the package as it was built
    edits: list[Edit] = field(default_factory=list)  # the known ones, by file
    # the patch of all other changes, for a package with the known edits; secrets are masked
    others: bytes = b""
    patch: bytes = b""  # the patch of all changes, for the package as delivered
    not_in_patch: dict[str, str] = field(default_factory=dict)  # why a changed file is in no patch, by path

    @property
    def is_empty(self) -> bool:
        """Whether nothing was edited."""
        return not (self.edits or self.patch or self.not_in_patch)

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints; values that may be secret are masked."""
        return {
            "package": self.package,
            "digest": self.digest,
            "edits": [
                {
                    "file": edit.path,
                    "kind": edit.kind,
                    "key": edit.key,
                    "before": edit.shown(edit.before),
                    "after": edit.shown(edit.after),
                }
                for edit in self.edits
            ],
            "other_changes": self.others.decode(errors="replace"),
            "not_in_patch": self.not_in_patch,
        }


def diff(path: Path) -> PackageEdits:
    """Return the edits of the package at `path`, a folder or an archive."""
    with opened(path) as package:
        return read(package)


def read(package: Package) -> PackageEdits:
    """Return the edits of a package. An option that was added to it is an edit of the lists that have it on."""
    entries = {entry.path: entry for entry in tree.walk(package.folder) if entry.path != INVENTORY}
    with_options, contents = completed(package, entries)
    known: list[Edit] = []
    others: list[bytes] = []
    patches: list[bytes] = []
    not_in_patch: dict[str, str] = {}
    for path in sorted({*package.inventory["files"], *integrity.unlisted(package, entries)}):
        try:
            before, now = _versions(package, path, entries.get(path))
        except ContentError as error:
            not_in_patch[path] = str(error)
            continue
        patches.append(patch(path, before, now))
        if before is None and path in with_options.inventory["files"]:  # a part of an option
            before = with_options.sealed(path)
            before = now if before is None else before
        if before is not None and now is not None and before != now:
            base = contents.get(path, before)
            found = edits.read(path, base, now)
            known += found
            before = edits.replayed(base, found)
        others.append(_masked(path, patch(path, before, now)))
    return PackageEdits(package.name, package.digest, known, b"".join(others), b"".join(patches), not_in_patch)


def _versions(package: Package, path: str, entry: tree.Entry | None) -> tuple[bytes | None, bytes | None]:
    """Return a file as it was delivered and as it is. Raises ContentError if it is in no patch, and says why."""
    seal = package.inventory["files"].get(path)
    if entry and entry.size > MOST_BYTES and (not seal or package.sealed(path)):
        raise ContentError("too large for a patch")
    if seal and entry and package.reader.digest(path) == seal["sha256"]:
        if f"{entry.mode:04o}" != seal["mode"]:
            raise ContentError(f"its mode is {entry.mode:04o}, and was {seal['mode']}")
        return b"", b""
    before = delivered(package, path) if seal else b""
    if before is None:
        raise ContentError("the package does not contain its delivered text" if entry else "deleted")
    now = package.reader.read(path, MOST_BYTES) if entry else b""
    if b"\0" in before + now:
        raise ContentError("not a text")
    if not merge.are_comparable(before, now):
        raise ContentError("too large for a patch")
    if not seal and not now:
        raise ContentError("empty")
    return (before if seal else None), (now if entry else None)


def delivered(package: Package, path: str) -> bytes | None:
    """Return the content that a file was delivered with; None if the inventory has only its digest."""
    text = package.sealed(path)
    if text is not None and hashlib.sha256(text).hexdigest() != package.inventory["files"][path]["sha256"]:
        message = f"{package.shown(INVENTORY)}: the lines of {path_checks.shown(path)} do not match its digest"
        raise VerificationError(message)
    return text


def patch(path: str, before: bytes | None, now: bytes | None) -> bytes:
    """Return the patch of one file, which `git apply` and `patch -p1` take; empty if nothing differs."""
    end = "\t" if " " in path else ""  # or GNU's patch reads the name up to the blank
    names = ("/dev/null" if text is None else f"{side}/{path}{end}" for side, text in (("a", before), ("b", now)))
    rows = diff_bytes(
        unified_diff,
        merge.split(before or b""),
        merge.split(now or b""),
        *(name.encode(errors="surrogateescape") for name in names),
    )
    return b"".join(row if row.endswith(b"\n") else row + b"\n\\ No newline at end of file\n" for row in rows)


def _masked(path: str, text: bytes) -> bytes:
    """Return the patch of a file with possible secrets masked."""
    decoded = text.decode(errors="surrogateescape")
    if not path.endswith(".env"):
        return masked_urls(decoded).encode(errors="surrogateescape")
    head, hunk, body = decoded.partition("\n@@")
    is_site = path.endswith(layout.site_env(""))
    lines = (line[:1] + masked_line(line[1:], is_site=is_site) for line in body.split("\n"))
    return (head + hunk + "\n".join(lines)).encode(errors="surrogateescape")

"""Package -> Edits: compares a package with its own inventory, which has the delivered text of the editable files."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from difflib import diff_bytes, unified_diff
from typing import TYPE_CHECKING, Any

from packager.base.errors import VerificationError
from packager.base.masking import masked_line, masked_urls
from packager.base.values import Value, field
from packager.configure.upgrade import edits, merge
from packager.package import integrity, layout, path_checks, tree
from packager.package.layout import INVENTORY
from packager.package.opened import opened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packager.configure.upgrade.edits import Edit
    from packager.package.opened import Package

MOST_BYTES = 1 << 20
"""The largest file that becomes part of a patch: as large as an editable file may be."""

_MOST_PATCHES = 64 << 20
"""The most bytes of files that become parts of patches: about the memory that a comparison takes."""


class PackageDiff(Value, frozen=True):
    """The edits of a package."""

    edits: tuple[Edit, ...] = ()  # the known ones, by file
    others: bytes = b""  # the patch of all other changes, for a package with the known edits; secrets are masked
    patch: bytes = b""  # the patch of all changes, for the package as delivered
    not_in_patch: dict[str, str] = field(default_factory=dict)  # why a changed file is in no patch, by path

    @property
    def is_empty(self) -> bool:
        """Whether nothing was edited."""
        return not (self.edits or self.patch or self.not_in_patch)


def read(package: Package) -> PackageDiff:
    """Return the edits of a package."""
    comparison = _Comparison(package)
    sealed = package.inventory["files"]
    entries = {entry.path: entry for entry in tree.walk(package.folder) if entry.path != INVENTORY}
    unlisted = integrity.unlisted(package, entries)
    for path in sorted({*sealed, *unlisted}):
        comparison.add(path, entries.get(path))
    return PackageDiff(
        tuple(comparison.edits), b"".join(comparison.others), b"".join(comparison.patches), comparison.not_in_patch
    )


@dataclass(frozen=True, slots=True)
class PackageEdits:
    """The edits of one package."""

    package: str
    digest: str  # the digest of the package as it was built
    content: PackageDiff  # the edits

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
                for edit in self.content.edits
            ],
            "other_changes": self.content.others.decode(errors="replace"),
            "not_in_patch": self.content.not_in_patch,
        }


def diff(path: Path) -> PackageEdits:
    """Return the edits of the package at `path`, a folder or an archive."""
    with opened(path) as package:
        return PackageEdits(package.name, package.digest, read(package))


def delivered(package: Package, path: str) -> bytes | None:
    """Return the content that a file was delivered with; None if the inventory has only its digest."""
    text = package.sealed(path)
    if text is not None and hashlib.sha256(text).hexdigest() != package.inventory["files"][path]["sha256"]:
        message = f"{package.shown(INVENTORY)}: the lines of {path_checks.shown(path)} do not match its digest"
        raise VerificationError(message)
    return text


class Version(Value, frozen=True):
    """One version of a file; its mode is 0644 or 0755, in octal."""

    content: bytes
    mode: str = "0644"


def patch(path: str, before: Version | None, now: Version | None) -> bytes:
    """Return the patch of one file as git writes it: `git apply` and `patch -p1` take it; empty if nothing differs."""
    texts = [merge.split(version.content) if version else [] for version in (before, now)]
    old, new = (_quoted(f"{end}/{path}") for end in "ab")
    names = (
        (f"{name}\t" if " " in name and name[0] != '"' else name)
        if version
        else "/dev/null"  # GNU's patch needs the tab
        for name, version in ((old, before), (new, now))
    )
    ends = [name.encode(errors="surrogateescape") for name in names]
    body = [
        line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n"
        for line in diff_bytes(unified_diff, texts[0], texts[1], ends[0], ends[1])
    ]
    header = "".join(f"{line}\n" for line in _modes(before, now))
    if not body and not header:
        return b""
    return f"diff --git {old} {new}\n{header}".encode(errors="surrogateescape") + b"".join(body)


def _modes(before: Version | None, now: Version | None) -> Iterator[str]:
    if before is None and now:
        yield f"new file mode 10{now.mode}"
    elif now is None and before:
        yield f"deleted file mode 10{before.mode}"
    elif before and now and before.mode != now.mode:
        yield from (f"old mode 10{before.mode}", f"new mode 10{now.mode}")


def _quoted(name: str) -> str:
    """Return a path as git quotes it (git-config(1), core.quotePath, which is off here)."""
    if not set(name) & set('"\\'):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class _Comparison:
    """The edits that were found so far."""

    def __init__(self, package: Package) -> None:
        self._package = package
        self._bytes = 0
        self.edits: list[Edit] = []
        self.others: list[bytes] = []
        self.patches: list[bytes] = []
        self.not_in_patch: dict[str, str] = {}

    def add(self, path: str, entry: tree.Entry | None) -> None:
        """Compare one file with its delivered version."""
        seal = self._package.inventory["files"].get(path)
        if entry and entry.size > MOST_BYTES and (not seal or self._package.sealed(path)):
            self.not_in_patch[path] = "too large for a patch"
            return
        if seal and entry and self._package.reader.digest(path) == seal["sha256"]:
            self._add_patches(path, Version(b"", seal["mode"]), Version(b"", f"{entry.mode:04o}"))
            return
        before = delivered(self._package, path) if seal else b""
        if before is None:
            self.not_in_patch[path] = "the package does not contain its delivered text" if entry else "deleted"
            return
        old = Version(before, seal["mode"]) if seal else None
        if entry is None:
            self._add_patches(path, old, None)
            return
        self._bytes += entry.size
        now = self._package.reader.read(path, MOST_BYTES)
        if b"\0" in before + now:  # git takes it for binary
            self.not_in_patch[path] = "not a text"
            return
        if (
            max(entry.size, len(now)) > MOST_BYTES
            or self._bytes > _MOST_PATCHES
            or not merge.are_comparable(before, now)
        ):
            self.not_in_patch[path] = "too large for a patch"
            return
        known = edits.read(path, before, now) if old else ()
        self.edits += known
        self._add_patches(path, old, Version(now, f"{entry.mode:04o}"), known)

    def _add_patches(
        self, path: str, before: Version | None, now: Version | None, known: tuple[Edit, ...] = ()
    ) -> None:
        self.patches.append(patch(path, before, now))
        if before is not None and known:
            before = Version(edits.replayed(before.content, known), before.mode)
        self.others.append(_masked(path, patch(path, before, now)))


def _masked(path: str, text: bytes) -> bytes:
    """Return the patch of a file with possible secrets masked."""
    decoded = text.decode(errors="surrogateescape")
    if not path.endswith(".env"):
        return masked_urls(decoded).encode(errors="surrogateescape")
    head, hunk, body = decoded.partition("\n@@")
    is_site = path.endswith(layout.site_env(""))
    lines = (line[:1] + masked_line(line[1:], is_site=is_site) for line in body.split("\n"))
    return (head + hunk + "\n".join(lines)).encode(errors="surrogateescape")

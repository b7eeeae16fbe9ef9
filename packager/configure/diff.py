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

if TYPE_CHECKING:
    from collections.abc import Iterator
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
        changes = _compared(package, path, entries.get(path))
        if isinstance(changes, str):
            not_in_patch[path] = changes
            continue
        before, now = changes
        patches.append(patch(path, before, now))
        if before is None and path in with_options.inventory["files"]:  # a part of an option
            if (built := with_options.sealed(path)) is None:
                continue
            before = Version(built)
        if before and now and before.content != now.content:
            base = contents.get(path, before.content)
            found = edits.read(path, base, now.content)
            known += found
            before = Version(edits.replayed(base, found), before.mode)
        others.append(_masked(path, patch(path, before, now)))
    return PackageEdits(package.name, package.digest, known, b"".join(others), b"".join(patches), not_in_patch)


def _compared(package: Package, path: str, entry: tree.Entry | None) -> tuple[Version | None, Version | None] | str:
    """Return a file as it was delivered and as it is, or why it is in no patch."""
    seal = package.inventory["files"].get(path)
    if entry and entry.size > MOST_BYTES and (not seal or package.sealed(path)):
        return "too large for a patch"
    if seal and entry and package.reader.digest(path) == seal["sha256"]:
        return Version(b"", seal["mode"]), Version(b"", f"{entry.mode:04o}")
    before = delivered(package, path) if seal else b""
    if before is None:
        return "the package does not contain its delivered text" if entry else "deleted"
    old = Version(before, seal["mode"]) if seal else None
    if entry is None:
        return old, None
    now = package.reader.read(path, MOST_BYTES)
    if not merge.are_comparable(before, now):
        return "too large for a patch"
    is_binary = b"\0" in before + now  # to git
    return "not a text" if is_binary else (old, Version(now, f"{entry.mode:04o}"))


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


def _masked(path: str, text: bytes) -> bytes:
    """Return the patch of a file with possible secrets masked."""
    decoded = text.decode(errors="surrogateescape")
    if not path.endswith(".env"):
        return masked_urls(decoded).encode(errors="surrogateescape")
    head, hunk, body = decoded.partition("\n@@")
    is_site = path.endswith(layout.site_env(""))
    lines = (line[:1] + masked_line(line[1:], is_site=is_site) for line in body.split("\n"))
    return (head + hunk + "\n".join(lines)).encode(errors="surrogateescape")

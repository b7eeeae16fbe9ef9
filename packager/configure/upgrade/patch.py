"""Writes the patch between two versions of a file, as git writes it: `git apply` and `patch -p1` take it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.values import Value
from packager.configure.upgrade import lines

if TYPE_CHECKING:
    from collections.abc import Iterator


class Version(Value, frozen=True):
    """One version of a file.

    Attributes:
        content: The bytes.
        mode: 0644 or 0755, in octal.
    """

    content: bytes
    mode: str = "0644"


def patch(path: str, before: Version | None, now: Version | None) -> bytes:
    """Return the patch of one file; empty if nothing differs.

    Args:
        path: The path below the package's root.
        before: The version before; None for a new file.
        now: The version afterwards; None for a deleted file.
    """
    old, new = (lines.split(version.content) if version else [] for version in (before, now))
    body = list(lines.unified(old, new))
    header = list(_modes(before, now))
    if not body and not header:
        return b""
    ends = _quoted(f"a/{path}"), _quoted(f"b/{path}")
    head = f"diff --git {ends[0]} {ends[1]}\n" + "".join(f"{line}\n" for line in header)
    if body:
        names = [_name(end, version) for end, version in zip(ends, (before, now), strict=True)]
        head += f"--- {names[0]}\n+++ {names[1]}\n"
    return head.encode(errors="surrogateescape") + b"".join(body)


def _modes(before: Version | None, now: Version | None) -> Iterator[str]:
    if before is None and now:
        yield f"new file mode 10{now.mode}"
    elif now is None and before:
        yield f"deleted file mode 10{before.mode}"
    elif before and now and before.mode != now.mode:
        yield from (f"old mode 10{before.mode}", f"new mode 10{now.mode}")


def _name(end: str, version: Version | None) -> str:
    """Return a file's name in the head of a hunk; a tab ends one with blanks, as GNU's patch expects."""
    name = end if version else "/dev/null"
    return f"{name}\t" if " " in name and not name.startswith('"') else name


def _quoted(name: str) -> str:
    """Return a path as git quotes it (git-config(1), core.quotePath, which is off here)."""
    if not set(name) & set('"\\'):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def is_text(*versions: bytes) -> bool:
    """Return whether a patch can be made of the content; git takes content with a NUL byte for binary."""
    return not any(b"\0" in content for content in versions)

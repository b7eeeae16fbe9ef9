"""Finds the lines that were edited in a package, and those that change more than ids, values and switches.

The inventory contains the original lines of the files that people may edit. Users are expected to change the ids in a
patch, the lines of an env file and which options are on. Every other edit is reported, and must not need a weaker Pod
Security level.
"""

from __future__ import annotations

import difflib
import itertools
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packager.base import workfolder, yamlio
from packager.base.errors import MlpackError, ToolError, reason
from packager.base.masking import masked_line
from packager.package import ids, kustomization, layout
from packager.package.reader import Reader
from packager.rendering import render

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from packager.base.runner import Runner
    from packager.package.opened import Package
    from packager.rendering.overlay import RenderedOverlay

# Finding what two texts have in common takes the square of their length.
_LINES = 1_000
# kustomize makes a ConfigMap of no larger file, and reads no larger YAML.
_BYTES = 2 << 20


@dataclass(frozen=True, slots=True)
class EditedLine:
    """An edited line.

    Attributes:
        file: The file as the user named it.
        line: Its number, from 1; where the line was, for one that is gone.
        before: What it was sealed with; None when it is new.
        after: What it is; None when it is gone.
        expected: Whether it is an id, a value or a switch, which a package leaves to its user.
    """

    file: str
    line: int
    before: str | None
    after: str | None
    expected: bool

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}"
        if self.after is None:
            return f"{place}: removed {_short(self.before)}"
        return f"{place}: {_short(self.after)} " + ("is new" if self.before is None else f"was {_short(self.before)}")


@dataclass(frozen=True, slots=True)
class Edits:
    """The edits of a package.

    Attributes:
        package: The package.
        paths: The files, below its root.
        lines: Their lines that changed, as far as the inventory holds what they were.
    """

    package: Package
    paths: tuple[str, ...]
    lines: tuple[EditedLine, ...]

    @property
    def all_known(self) -> bool:
        """Whether the inventory contains the original of each of the files, except those with values only."""
        return all(path.endswith(".env") or sealed(self.package, path) is not None for path in self.paths)


def _short(line: str | None) -> str:
    plain = (line or "").strip()
    return repr(plain if len(plain) <= 200 else f"{plain[:197]}...")


def read(package: Package, edited: Sequence[str]) -> Edits:
    """Return the edits of the files `edited`, which are paths below the package's root.

    Raises:
        ToolError: A file cannot be read.
    """
    lines: list[EditedLine] = []
    for path in edited:
        before = sealed(package, path)
        if before is not None:
            now = package.reader.read(path, yamlio.MAX_BYTES)
            file_changes = _changes(package.shown(path), before, permitted(path, before, now), now)
            is_site = path.endswith(layout.site_env(""))
            lines += (_masked(change, is_site=is_site) if path.endswith(".env") else change for change in file_changes)
    return Edits(package, tuple(edited), tuple(lines))


def _masked(change: EditedLine, *, is_site: bool) -> EditedLine:
    """Return a change of an env file as it may be shown; in scripts, what is called like a secret may be anything."""
    before, after = (line and masked_line(line, is_site=is_site) for line in (change.before, change.after))
    return replace(change, before=before, after=after)


def sealed(package: Package, path: str) -> bytes | None:
    """Return the content that the file `path` was sealed with; None when the inventory does not hold it."""
    lines = package.inventory.get("editable", {}).get(path)
    return None if lines is None else "\n".join(lines).encode(errors="surrogatepass")


def permitted(path: str, before: bytes, now: bytes) -> bytes:
    """Return what a file was sealed with, with no more of what it is now than ids, values and switches.

    Args:
        path: Its path below the package's root.
        before: What it was sealed with.
        now: What it is.
    """
    if path.endswith(".env"):
        return now
    try:
        if layout.overlay_of(path):
            return _switched(before, now)
        if layout.is_patch(path):
            return ids.with_ids_of(before, now)
    except (MlpackError, UnicodeDecodeError):
        pass  # what cannot be read permits nothing
    return before


def _switched(before: bytes, now: bytes) -> bytes:
    """Return the kustomization `before` with the components on that are on in `now`, and no others."""
    is_on = {component.path: component.on for component in kustomization.components(now)}
    for component in kustomization.components(before):
        if component.path in is_on:
            before = kustomization.switch(before, component.name, on=is_on[component.path])
    return before


def before(edits: Edits, name: str, kubectl: str, runner: Runner) -> RenderedOverlay | None:
    """Return an overlay without what edits change beyond ids, values and switches; None when it does not render.

    Raises:
        ToolError: There is no room for a copy, or a file cannot be read.
    """
    with restored(edits) as package:
        return render.render(package, name, (kubectl,), runner).overlay


@contextmanager
def restored(edited: Edits) -> Iterator[Package]:
    """Give the package without what its edits change beyond ids, values and switches, as far as it renders.

    Raises:
        ToolError: There is no room for a copy, or a file cannot be read.
    """
    package, contents = edited.package, {}
    for path in edited.paths:
        before = sealed(package, path)
        if before is not None:
            contents[path] = permitted(path, before, package.reader.read(path, yamlio.MAX_BYTES))
    with workfolder.temporary() as work:
        for path in package.inventory["files"]:
            if path.startswith(f"{layout.QUICKSTART}/"):
                _copy(package, path, work / path, contents)
        yield replace(package, folder=work, reader=Reader(work, package.shown))


def _copy(package: Package, path: str, target: Path, contents: Mapping[str, bytes]) -> None:
    source = package.folder / path
    if not source.is_file() or source.is_symlink():
        return
    content = contents[path] if path in contents else package.reader.read(path, _BYTES)
    if len(content) > _BYTES:
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    except OSError as error:
        raise ToolError(f"{package.shown(path)} cannot be copied: {reason(error)}") from None


def _changes(file: str, before: bytes, allowed: bytes, now: bytes) -> Iterator[EditedLine]:
    beyond = list(_difference(file, _lines(allowed), _lines(now), expected=False))
    known = {(change.line, change.after) for change in beyond}
    within = [
        c for c in _difference(file, _lines(before), _lines(now), expected=True) if (c.line, c.after) not in known
    ]
    yield from sorted((*beyond, *within), key=lambda change: change.line)


def _lines(text: bytes) -> list[str]:
    return text.decode(errors="backslashreplace").split("\n")


def _difference(file: str, before: list[str], after: list[str], *, expected: bool) -> Iterator[EditedLine]:
    """Yield each line that differs, by its number in `after`."""
    start = len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))))
    if max(len(before), len(after)) - start > _LINES:
        codes = [("replace", start, len(before), start, len(after))]
    else:
        matcher = difflib.SequenceMatcher(None, before[start:], after[start:], autojunk=False)
        codes = [(tag, a + start, b + start, c + start, d + start) for tag, a, b, c, d in matcher.get_opcodes()]
    for tag, first, last, begin, end in codes:
        if tag == "equal":
            continue
        pairs = itertools.zip_longest(before[first:last], after[begin:end])
        for offset, (old, new) in enumerate(pairs):
            yield EditedLine(file, begin + (offset if new is not None else max(end - begin, 0)) + 1, old, new, expected)

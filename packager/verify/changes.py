"""Finds the lines that were edited in a package, and renders an overlay without its edits.

The inventory contains the original lines of the files that people may edit. Users are expected to change the ids in a
patch, the values in an env file and which options are on. Every edited line is reported with its original.
"""

from __future__ import annotations

import itertools
import posixpath
from functools import cached_property
from typing import TYPE_CHECKING

from packager.base import envfile, yamlio
from packager.base.errors import MlpackError, ToolError
from packager.base.masking import masked_line, masked_urls, shortened
from packager.base.values import Value, replace
from packager.package import ids, kustomization, layout
from packager.package.options import KNOWN
from packager.rendering import render

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from packager.base.process import Runner
    from packager.package.opened import Package
    from packager.rendering.overlay import RenderedOverlay
    from packager.rendering.sources import Sources

MOST_LINES = 500
"""The most edited lines that are reported. No person makes more edits, or reads them."""

# The time to compare two texts grows with the square of their length.
_LINES = 1_000

LONGEST_LINE = 1_000
"""The most characters of a line that are printed."""


class EditedLine(Value, frozen=True):
    """An edited line."""

    file: str  # the file as the user named it
    line: int  # the number of the line, from 1; for a deleted line, the number of the line at its place
    before: str | None  # the sealed line; None for a new line
    after: str | None  # the present line; None for a deleted line
    expected: bool  # whether the edit changes only an id, a value or a switch, which are left to the user

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}"
        if self.after is None:
            return f"{place}: removed {_short(self.before)}"
        if self.before is None:
            return f"{place}: {_short(self.after)} is new"
        is_indented_alone = self.before.strip() == self.after.strip()
        return (
            f"{place}: {_short(self.after, whole=is_indented_alone)} was {_short(self.before, whole=is_indented_alone)}"
        )


class Edits(Value, frozen=True):
    """The edits of a package."""

    package: Package
    paths: tuple[str, ...]  # the edited files, below the package's root
    lines: tuple[EditedLine, ...]  # the edited lines; at most `MOST_LINES`
    is_complete: bool = True  # whether `lines` contains all edited lines
    options: tuple[str, ...] = ()  # the options that were added to the package

    @property
    def are_expected(self) -> bool:
        """Whether all edits change only ids, values of keys that the package has, and switches."""
        return self.is_complete and all(change.expected for change in self.lines)


def _short(line: str | None, *, whole: bool = False) -> str:
    """Return a line for a message: escaped, without indentation; of a long line the start and the end."""
    plain = (line or "") if whole else (line or "").strip()
    return repr(shortened(plain, LONGEST_LINE))


def read(package: Package, edited: Sequence[str], options: Sequence[str] = ()) -> Edits:
    """Return the edits of the files `edited`: paths below the package's root, with lines in the inventory.

    Args:
        package: The package, as if it had been sealed with the options that were added.
        edited: The paths.
        options: The names of these options.
    """
    lines = list(itertools.islice(_all_lines(package, edited, options), MOST_LINES + 1))
    return Edits(package, tuple(edited), tuple(lines[:MOST_LINES]), len(lines) <= MOST_LINES, tuple(options))


def _all_lines(package: Package, edited: Sequence[str], options: Collection[str]) -> Iterator[EditedLine]:
    for path in edited:
        before = package.sealed(path) or b""
        now = package.reader.read(path, yamlio.MAX_BYTES)
        for change in _changes(package.shown(path), before, permitted(path, before, now, options), now):
            yield _masked(change, path)


def _masked(change: EditedLine, path: str) -> EditedLine:
    """Return a change with secrets masked; in a manifest only those in URLs, as any key may sound like a secret."""
    is_site = path.endswith(layout.site_env(""))

    def shown(line: str | None) -> str | None:
        if line is None:
            return None
        return masked_line(line, is_site=is_site) if path.endswith(".env") else masked_urls(line)

    return replace(change, before=shown(change.before), after=shown(change.after))


def permitted(path: str, before: bytes, now: bytes, options: Collection[str] = ()) -> bytes:
    """Return the sealed content of a file with only the ids, values, switches and options of its present content."""
    if path.endswith(".env"):
        is_site = path.endswith(layout.site_env(""))
        return _without_new_keys(before, now, {key.name for name in options for key in KNOWN[name].keys if is_site})
    try:
        if layout.overlay_of(path):
            return _switched(_with_lines(before, now, options), now)
        if layout.is_patch(path):
            return ids.with_ids_of(before, now)
    except (MlpackError, UnicodeDecodeError):
        pass  # without ids that can be read, no edit is permitted
    return before


def _without_new_keys(before: bytes, now: bytes, expected: Collection[str]) -> bytes:
    """Return the env file `now` without new keys that are not expected: `before` does not even have them commented."""
    new = {line.number - 1 for line in envfile.added(before, now) if line.key not in expected}
    return b"\n".join(row for number, row in enumerate(now.split(b"\n")) if number not in new)


def _with_lines(before: bytes, now: bytes, options: Collection[str]) -> bytes:
    """Return the kustomization `before` with the lines of added options that `now` has, all of them off."""
    listed = {component.path for component in kustomization.components(before)}
    earlier: list[str] = []
    for component in kustomization.components(now):
        if component.name in options and component.path not in listed:
            start = now.decode("utf-8-sig").rfind("\n", 0, component.offset) + 1
            line = now.decode("utf-8-sig")[start:].partition("\n")[0].lstrip(" \t#")
            before = kustomization.offer(before, line, earlier)
        earlier.append(component.name)
    return before


def _switched(before: bytes, now: bytes) -> bytes:
    """Return the kustomization `before` with only those components switched on that are on in `now`."""
    is_on = {component.path: component.on for component in kustomization.components(now)}
    for component in kustomization.components(before):
        if component.path in is_on:
            before = kustomization.switch(before, component.name, on=is_on[component.path])
    return before


def _changes(file: str, before: bytes, allowed: bytes, now: bytes) -> Iterator[EditedLine]:
    """Yield the lines of `now` that differ from the sealed text `before`; those beyond `allowed` are not expected."""
    if all(text.endswith(b"\n") for text in (before, allowed, now)):  # else the end of the last line is an edit
        before, allowed, now = before[:-1], allowed[:-1], now[:-1]
    beyond = list(_difference(file, _lines(allowed), _lines(now), expected=False))
    unexpected = {(change.line, change.after) for change in beyond}
    edited = [
        replace(change, expected=(change.line, change.after) not in unexpected)
        for change in _difference(file, _lines(before), _lines(now), expected=True)
    ]
    listed = {(change.line, change.after) for change in edited}
    more = [change for change in beyond if (change.line, change.after) not in listed]
    yield from sorted((*edited, *more), key=lambda change: change.line)


def _lines(text: bytes) -> list[str]:
    return text.decode(errors="backslashreplace").split("\n")


def _difference(file: str, before: list[str], after: list[str], *, expected: bool) -> Iterator[EditedLine]:
    """Yield each line that differs, with its number in `after`."""
    start = len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))))
    if max(len(before), len(after)) - start > _LINES:
        codes = [("replace", start, len(before), start, len(after))]
    else:
        import difflib  # noqa: PLC0415 - most packages are verified without edits

        matcher = difflib.SequenceMatcher(None, before[start:], after[start:], autojunk=False)
        codes = [(tag, a + start, b + start, c + start, d + start) for tag, a, b, c, d in matcher.get_opcodes()]
    for tag, first, last, begin, end in codes:
        if tag == "equal":
            continue
        pairs = itertools.zip_longest(before[first:last], after[begin:end])
        for offset, (old, new) in enumerate(pairs):
            if old != new:
                number = begin + (offset if new is not None else max(end - begin, 0)) + 1
                yield EditedLine(file, number, old, new, expected)


class Original:
    """One overlay of a package without its edits, rendered when it is first needed, if edits change a file of it."""

    def __init__(self, edits: Edits, overlay: RenderedOverlay, kubectl: str, runner: Runner) -> None:
        self.edits = edits  # the edits of the package
        self._overlay = overlay
        self._kubectl = kubectl
        self._runner = runner
        self._renders: dict[tuple[bytes, ...], RenderedOverlay | None] = {}

    @cached_property
    def sealed(self) -> RenderedOverlay | None:
        """The overlay as it was sealed; None if it does not render.

        It has the present ids if it was sealed with the option `root`: the user is then expected to set them to 0. It
        has the present values of options if it does not render without: an option may be sealed on although its values
        are only set at the site.

        Raises:
            ToolError: There is no room for a copy, a file cannot be read, or kubectl timed out or printed too much.
        """
        return self._rendered(self._sealed_content) or self._rendered(self._sealed_content_with_site)

    @cached_property
    def permitted(self) -> RenderedOverlay | None:
        """The overlay with only those edits that change ids, values and switches; otherwise as `sealed`."""
        return self._rendered(self._permitted_content)

    def _rendered(self, content: Callable[[str], bytes]) -> RenderedOverlay | None:
        """Return the overlay with this content of the edited files; None if it does not render."""
        contents = {path: content(path) for path in self.edits.paths}
        sources = self._overlay.sources
        if self._reads_only_sealed_files(sources) and all(
            sources.files.get(path, new) == new for path, new in contents.items()
        ):
            return self._overlay
        key = tuple(contents.values())
        if key not in self._renders:
            self._renders[key] = self._render(contents)
        return self._renders[key]

    def _render(self, contents: Mapping[str, bytes]) -> RenderedOverlay | None:
        package = replace(self.edits.package, reader=self.edits.package.reader.edited(contents))
        outcome = render.render(package, self._overlay.name, (self._kubectl,), self._runner)
        if outcome.unchecked:
            raise ToolError(outcome.unchecked[0])
        return outcome.overlay if self._reads_only_sealed_files(outcome.sources) else None

    def _reads_only_sealed_files(self, sources: Sources) -> bool:
        """Whether no file that an overlay reads was added to the package."""
        return all(path in self.edits.package.inventory["files"] for path in sources.files)

    def _sealed_content(self, path: str) -> bytes:
        before = self.edits.package.sealed(path) or b""
        if layout.is_patch(path) and self._allows_root(posixpath.basename(posixpath.dirname(path))):
            return ids.with_ids_of(before, self._content(path))
        return before

    def _sealed_content_with_site(self, path: str) -> bytes:
        is_site = path.endswith(".env") and posixpath.basename(path) != layout.ENV
        return self._permitted_content(path) if is_site else self._sealed_content(path)

    def _permitted_content(self, path: str) -> bytes:
        before = self.edits.package.sealed(path) or b""
        return permitted(path, before, self._content(path), self.edits.options)

    def _content(self, path: str) -> bytes:
        return self.edits.package.reader.read(path, yamlio.MAX_BYTES)

    def _allows_root(self, overlay: str) -> bool:
        """Whether an overlay was sealed with the option `root` on."""
        path = layout.kustomization(overlay)
        try:
            components = kustomization.components(self.edits.package.sealed(path) or b"")
        except (MlpackError, UnicodeDecodeError):
            return False
        return any(component.on and component.name == "root" for component in components)

"""Merges the user's version of a file with the one in a newer package.

The known edits are made in the delivered version and in the new one too, so the three have the same lines there: a
comment that is reworded beside a value does not conflict with it. All other edits are merged line by line (diff3).

The lines are compared by difflib: merge3 does no more with it, and is under the GPL.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from packager.base import envfile
from packager.base.errors import UnansweredError, UsageError
from packager.base.masking import masked_line, shortened
from packager.base.values import Value
from packager.configure import edits
from packager.configure.edits import Edit, EditKind
from packager.package import layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from packager.base.problems import Problem

_SHOWN = 200
"""The most characters of a text in a message."""

_MOST_PAIRS = 4_000_000
"""The most lines of one text times those of another that are compared, which takes about a second."""


class Choice(StrEnum):
    """The version that a user takes."""

    yours = "yours"
    theirs = "theirs"


class Conflict(Value, frozen=True):
    """A place of a file that both the user and the new package changed."""

    path: str  # of the file, below the package's root
    line: int  # in the user's version, from 1; 0 for the whole file
    base: str | None  # the delivered text; None if there was none, or it is not known
    yours: str | None  # None if the user deleted it
    theirs: str | None  # None if the new package has none
    subject: str = ""  # the key, for a value of an env file

    @property
    def message(self) -> str:
        """The three texts, for people, with possible secrets masked."""
        had, have, has = (self.shown(text) for text in (self.base, self.yours, self.theirs))
        return f"the package had {had}, you have {have}, the new package has {has}"

    def shown(self, text: str | None) -> str:
        """Return a text of the file in one line, with possible secrets masked."""
        if text is None:
            return f"no {self.subject}" if self.subject else "nothing"
        is_site = self.path.endswith(layout.site_env(""))
        rows = text.removesuffix("\n").split("\n")
        shown = [masked_line(row, is_site=is_site) if self.path.endswith(".env") else row for row in rows]
        return shortened(" | ".join(row.strip() for row in shown), _SHOWN)


class Versions(NamedTuple):
    """The delivered content of a file, the user's content, and the one in the new package."""

    base: bytes
    yours: bytes
    theirs: bytes

    @property
    def are_mergeable(self) -> bool:
        """Whether all are texts, and short enough to be compared line by line."""
        lines, *others = (text.count(b"\n") + 1 for text in self)
        return not any(b"\0" in text for text in self) and lines * max(others) <= _MOST_PAIRS


class Merged(Value, frozen=True):
    """The merged file, and its conflicts; without a choice, it has the user's version of each."""

    content: bytes
    conflicts: tuple[Conflict, ...] = ()


def unanswered(problems: Sequence[Problem], place: Path) -> UnansweredError:
    """Return the error about conflicts without a choice, for which a folder was left as it is."""
    count = f"{len(problems)} conflict{'s' if len(problems) > 1 else ''}"
    hint = "--yours FILE keeps your version where it conflicts, --theirs FILE takes the new one"
    return UnansweredError(f"{count}: {place} was left as it is", hint=hint, problems=problems)


def split(text: bytes) -> list[bytes]:
    """Return the lines of a text with their ends; only the last line may have none."""
    lines = [line + b"\n" for line in text.split(b"\n")]
    last = lines.pop().removesuffix(b"\n")
    return [*lines, last] if last else lines


def merged(path: str, versions: Versions, choice: Choice | None = None) -> Merged:
    """Merge the versions of the file `path`, which are mergeable; `choice` is taken where they conflict."""
    base, yours, theirs = versions
    own_lines = b""
    if path.endswith(".env"):
        yours, own_lines = _without_own_lines(base, yours, theirs)
    known, clashes = _known_edits(path, base, yours, theirs)
    values = [edit for edit in clashes if edit.kind is EditKind.value]
    conflicts = [_value_conflict(edit, yours, theirs) for edit in values]
    if choice is not Choice.theirs:
        known += values
    content: list[bytes] = []
    texts = map(split, (edits.replayed(base, known), yours, edits.replayed(theirs, known)))
    for line, old, own, new in _sections(*texts):
        if own in (old, new):
            content += new
        elif new == old:
            content += own
        else:
            content += new if choice is Choice.theirs else own
            if not any(conflict.line - 1 in range(line, line + len(own)) for conflict in conflicts):
                had, have, has = (b"".join(rows).decode(errors="replace") or None for rows in (old, own, new))
                conflicts.append(Conflict(path, line + 1, had, have, has))
    return Merged(b"".join(content) + own_lines, tuple(conflicts))


def _known_edits(path: str, base: bytes, yours: bytes, theirs: bytes) -> tuple[list[Edit], list[Edit]]:
    """Return the edits to make in the other versions, and those at places that the new package changed as well."""
    known: list[Edit] = []
    clashes: list[Edit] = []
    for edit in edits.read(path, base, yours):
        try:
            in_theirs = edits.state(edit, theirs)
            has_lost_place = edits.has_place(edit, base) and not edits.has_place(edit, theirs)
            for text in (base, theirs):
                edits.replayed(text, [edit])
        except UsageError:
            continue  # its lines are merged
        is_offered = edit.kind is EditKind.component and in_theirs is not None  # an option that the user has added
        is_clash = has_lost_place or (in_theirs not in (edit.before, edit.after) and not is_offered)
        (clashes if is_clash else known).append(edit)
    return known, clashes


def _value_conflict(edit: Edit, yours: bytes, theirs: bytes) -> Conflict:
    number = next(line.number for line in envfile.lines(yours) if line.key == edit.key)
    had, has = (None if value is None else f"{edit.key}={value}" for value in (edit.before, edits.state(edit, theirs)))
    return Conflict(edit.path, number, had, f"{edit.key}={edit.after}", has, subject=edit.key)


def _without_own_lines(base: bytes, yours: bytes, theirs: bytes) -> tuple[bytes, bytes]:
    """Return the user's version of an env file without the lines that the user has added at its end, and these lines.

    They stay as they are, with their comments. Lines that set a key of the new package are not taken apart.
    """
    delivered = {row for row in split(base) if row.strip()}
    rows = split(yours)
    end = max((number for number, row in enumerate(rows, start=1) if row in delivered), default=0)
    added = b"".join(rows[end:])
    taken = {*envfile.keys(base), *envfile.keys(theirs)}
    return (b"".join(rows[:end]), added) if taken.isdisjoint(envfile.keys(added)) else (yours, b"")


def _sections(
    base: list[bytes], yours: list[bytes], theirs: list[bytes]
) -> Iterator[tuple[int, list[bytes], list[bytes], list[bytes]]]:
    """Yield the parts of three texts in order: each line that all three have, and what is between these.

    Each is the index of its first line in the user's text, the lines of the base, the user's and the new ones.
    """
    in_yours, in_theirs = _matches(base, yours), _matches(base, theirs)
    shared = [(line, in_yours[line], in_theirs[line]) for line in sorted(in_yours.keys() & in_theirs.keys())]
    at = yours_at = theirs_at = 0
    for line, yours_line, theirs_line in [*shared, (len(base), len(yours), len(theirs))]:
        yield yours_at, base[at:line], yours[yours_at:yours_line], theirs[theirs_at:theirs_line]
        same = base[line : line + 1]
        yield yours_line, same, same, same
        at, yours_at, theirs_at = line + 1, yours_line + 1, theirs_line + 1


def _matches(old: list[bytes], new: list[bytes]) -> dict[int, int]:
    """Return the places of equal lines of two texts, by the line in the old one."""
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    return {start + at: new_start + at for start, new_start, size in blocks for at in range(size)}

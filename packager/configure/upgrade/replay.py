"""Merges the user's version of a file with the one in a newer package.

The known edits are made in the delivered version and in the new one too, so the three have the same lines there: a
comment that is reworded beside a value does not conflict with it. All other edits are merged line by line. Ends of
lines and a byte order mark are not part of the lines: an editor that has changed them all has made one edit.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from packager.base import envfile
from packager.base.errors import UsageError
from packager.base.masking import masked_line
from packager.base.shortening import shortened
from packager.base.values import Value
from packager.configure.upgrade import edits, lines, merge
from packager.configure.upgrade.edits import Edit, EditKind
from packager.package import conflictmarks, layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    from packager.configure.upgrade.merge import TextPart

    Answer: TypeAlias = "Choice | OwnText"
    Decide: TypeAlias = Callable[["Conflict"], "Answer | None"]

_SHOWN = 200
"""The most characters of a text in a comment: kustomize stops reading at a long line."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Choice(StrEnum):
    """The version that a user takes."""

    yours = "yours"
    theirs = "theirs"


class OwnText(Value, frozen=True):
    """The text that a user writes in place of both versions; only for a conflict about lines of a file."""

    text: str


class Conflict(Value, frozen=True):
    """A place of a file that both the user and the new package changed.

    Attributes:
        path: The path of the file below the package's root.
        line: The line in the user's version, from 1; 0 for the whole file.
        base: The delivered text; None if there was none, or it is not known.
        yours: The user's text; None if the user deleted it.
        theirs: The text in the new package; None if it has none.
        subject: The key, for a value of an env file; else empty.
    """

    path: str
    line: int
    base: str | None
    yours: str | None
    theirs: str | None
    subject: str = ""

    @property
    def is_unmerged(self) -> bool:
        """Whether it is about a whole file that both sides changed: with the delivered file, it could be merged."""
        return self.line == 0 and None not in (self.base, self.yours, self.theirs)

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


class VersionNames(NamedTuple):
    """The names of the delivered and the new version in marks."""

    base: str
    theirs: str


class Merged(Value, frozen=True):
    """The merged file.

    Attributes:
        content: The content; with marks where a conflict is undecided.
        conflicts: The undecided conflicts.
        decided: The conflicts that were decided.
    """

    content: bytes
    conflicts: tuple[Conflict, ...]
    decided: tuple[Conflict, ...] = ()


def merged(path: str, versions: Versions, *, decide: Decide, labels: VersionNames) -> Merged:
    """Merge the three versions of a file.

    Args:
        path: The path of the file below the package's root.
        versions: The versions.
        decide: Returns the user's answer to a conflict; None leaves it undecided.
        labels: The names of versions in marks.
    """
    forms = list(map(_Form.of, versions))
    work = _Merge(path, decide, labels)
    content = work.run(*map(_plain, versions, forms))
    return Merged(_formed(content, _Form.merged(*forms)), tuple(work.undecided), tuple(work.decided))


class _Merge:
    """The merge of one file, whose versions have plain ends of lines."""

    def __init__(self, path: str, decide: Decide, labels: VersionNames) -> None:
        self._path = path
        self._decide = decide
        self._labels = labels
        self.undecided: list[Conflict] = []
        self.decided: list[Conflict] = []

    def run(self, base: bytes, yours: bytes, theirs: bytes) -> bytes:
        """Return the merged content."""
        yours, added = _apart(base, yours, theirs) if self._path.endswith(".env") else (yours, b"")
        known, clashes = self._sorted_edits(base, yours, theirs)
        base_lines, yours_lines, theirs_lines = (
            lines.split(text) for text in (edits.replayed(base, known), yours, edits.replayed(theirs, known))
        )
        content: list[bytes] = []
        for section in merge.sections(base_lines, yours_lines, theirs_lines):
            content += section.merged if section.merged is not None else self._resolved(section)
        text = b"".join(content)
        for edit in clashes:
            text = self._decided_value(edit, yours, theirs, text)
        return text + added

    def _sorted_edits(self, base: bytes, yours: bytes, theirs: bytes) -> tuple[list[Edit], list[Edit]]:
        """Return the edits to make in the other versions, and those of values that the new package changed as well."""
        known: list[Edit] = []
        clashes: list[Edit] = []
        for edit in edits.read(self._path, base, yours):
            try:
                in_theirs = edits.state(edit, theirs)
                has_lost_place = edits.has_place(edit, base) and not edits.has_place(edit, theirs)
                for text in (base, theirs):
                    edits.replayed(text, [edit])
            except UsageError:
                continue  # its lines are merged
            clashes_here = has_lost_place or in_theirs not in (edit.before, edit.after)
            if clashes_here and edit.kind is not EditKind.value:
                continue  # the lines of a manifest conflict by themselves
            known.append(edit)
            if clashes_here:
                clashes.append(edit)
        return known, clashes

    def _resolved(self, section: TextPart) -> list[bytes]:
        """Return the lines of a section that both changed."""
        base, yours, theirs = (b"".join(part).decode(errors="replace") or None for part in section[1:])
        conflict = Conflict(self._path, section.at + 1, base, yours, theirs)
        choice = self._choice(conflict)
        if isinstance(choice, OwnText):
            return lines.split(_ended(choice.text).encode())
        if choice is not None:
            return section.yours if choice is Choice.yours else section.theirs
        if self._path.endswith(".env"):
            return [_comment(conflict, gone="nothing there"), *section.yours]
        marks = conflictmarks
        return [
            f"{marks.YOURS} yours\n".encode(),
            *section.yours,
            f"{marks.BASE} {self._labels.base}\n".encode(),
            *section.base,
            f"{marks.MIDDLE}\n".encode(),
            *section.theirs,
            f"{marks.THEIRS} {self._labels.theirs}\n".encode(),
        ]

    def _decided_value(self, edit: Edit, yours: bytes, theirs: bytes, text: bytes) -> bytes:
        """Return the merged env file with the decision about a value, or with a comment above its line."""
        new = edits.state(edit, theirs)
        number = next(line.number for line in envfile.lines(yours) if line.key == edit.key)
        had, has = (None if value is None else f"{edit.key}={value}" for value in (edit.before, new))
        conflict = Conflict(self._path, number, had, f"{edit.key}={edit.after}", has, subject=edit.key)
        choice = self._choice(conflict)
        if choice is Choice.yours:
            return text
        rows = text.split(b"\n")
        at = next(line.number for line in envfile.lines(text) if line.key == edit.key) - 1
        if isinstance(choice, OwnText):
            rows[at : at + 1] = _ended(choice.text).encode().split(b"\n")[:-1]
        elif choice is None:
            rows[at:at] = [_comment(conflict, gone=f"no {edit.key}").removesuffix(b"\n")]
        elif new is not None:
            rows[at] = f"{edit.key}={new}".encode()
        else:
            offer = envfile.commented_out(theirs, edit.key)
            rows[at : at + 1] = [] if offer is None else [theirs.split(b"\n")[offer]]
        return b"\n".join(rows)

    def _choice(self, conflict: Conflict) -> Answer | None:
        choice = self._decide(conflict)
        (self.undecided if choice is None else self.decided).append(conflict)
        return choice


def _apart(base: bytes, yours: bytes, theirs: bytes) -> tuple[bytes, bytes]:
    """Return the user's version of an env file without the lines that the user has added at its end, and these lines.

    They stay as they are, with their comments. Lines that set a key of the new package are not taken apart.
    """
    delivered = {row for row in lines.split(base) if row.strip()}
    rows = lines.split(yours)
    end = max((number for number, row in enumerate(rows, start=1) if row in delivered), default=0)
    added = b"".join(rows[end:])
    taken = {*envfile.keys(base), *envfile.keys(theirs)}
    return (b"".join(rows[:end]), added) if taken.isdisjoint(envfile.keys(added)) else (yours, b"")


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


def _comment(conflict: Conflict, *, gone: str) -> bytes:
    """Return the comment about a conflict in an env file."""
    had, has = (gone if text is None else conflict.shown(text) for text in (conflict.base, conflict.theirs))
    text = f"{conflictmarks.COMMENT} the package had {had}, and has {has} now; keep one and delete this line"
    return "".join(character if character.isprintable() else " " for character in text).encode() + b"\n"


class _Form(NamedTuple):
    """The form of a text beside its lines: a byte order mark, ends of lines by CRLF, and an end of the last line."""

    has_mark: bool
    has_crlf: bool
    is_ended: bool

    @classmethod
    def of(cls, text: bytes) -> _Form:
        ends = text.count(b"\n")
        has_crlf = ends > 0 and text.count(b"\r\n") == ends
        return cls(text.startswith(_BYTE_ORDER_MARK), has_crlf, not text or text.endswith(b"\n"))

    @classmethod
    def merged(cls, base: _Form, yours: _Form, theirs: _Form) -> _Form:
        """Return the form of the merged text: each property as the user changed it, else as in the new package."""
        return cls(*_chosen(base, yours, theirs))


def _chosen(base: Sequence[bool], yours: Sequence[bool], theirs: Sequence[bool]) -> Iterator[bool]:
    for before, user, new in zip(base, yours, theirs, strict=True):
        yield user if user != before else new


def _plain(text: bytes, form: _Form) -> bytes:
    """Return a text without a byte order mark, with LF at the end of each line, the last one included."""
    text = text.removeprefix(_BYTE_ORDER_MARK)
    if form.has_crlf:
        text = text.replace(b"\r\n", b"\n")
    return text if form.is_ended else text + b"\n"


def _formed(text: bytes, form: _Form) -> bytes:
    """Return a plain text in another form."""
    if not form.is_ended:
        text = text.removesuffix(b"\n")
    if form.has_crlf:
        text = text.replace(b"\n", b"\r\n")
    return (_BYTE_ORDER_MARK if form.has_mark else b"") + text

"""Reads a foreign file, and records for each key whether it was carried over, reported, or not read yet.

A key that an importer never reads is reported at the end, so nothing is dropped silently.

Tests: modelspec/importers/mlcube/test_read.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from packager.base import plainfiles, yamlio
from packager.base.errors import SpecError, reason
from packager.base.plainfiles import NotPlainError
from packager.base.problems import Problem, ordered, show
from packager.base.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from packager.base.yamlio import Document, Location

_UNPRINTABLE = re.compile(r"[^ -~]+")
_LONGEST_COMMENT = 160

_MOST_ENTRIES = 1_000
_MOST_VALUES = 10_000
_MOST_BYTES = 16 << 20
"""The limits for a list or mapping, a file, and all files of an import: ten times the size of any workload."""


class ValueOrigin(Value, frozen=True):
    """The origin of a value of the spec.

    Attributes:
        comment: The text of the comment in the spec.
        file: The file, as the user named it; empty for a value that is not from a file.
        line: 1-based.
        column: 1-based.
    """

    comment: str
    file: str = ""
    line: int = 0
    column: int = 0

    def problem(self, message: str, hint: str | None = None) -> Problem:
        """Return a problem at this place."""
        return Problem(self.file, self.line, self.column, message, hint)


def decided(comment: str) -> ValueOrigin:
    """Return the origin of a value that is not from a foreign file: the comment is the reason for the value."""
    return ValueOrigin(comment)


class Ledger:
    """The problems and findings of one import.

    Attributes:
        problems: The reasons why the file cannot be imported.
        findings: The parts of the file that are not carried over.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.findings: list[Problem] = []
        self._bytes = 0

    def count(self, text: bytes, name: str) -> bytes:
        """Return the content of the file `name`. Raises SpecError if it makes the files of an import too large."""
        self._bytes += len(text)
        if self._bytes > _MOST_BYTES:
            raise SpecError(f"{name}: the files of one import are larger than {_MOST_BYTES >> 20} MiB together")
        return text

    def check(self, name: str, kind: str) -> None:
        """Raise SpecError with all problems, if there are any: the file `name` is not a valid `kind`."""
        if self.problems:
            raise invalid(name, kind, self.problems)


def invalid(name: str, kind: str, problems: list[Problem]) -> SpecError:
    """Return the error that the file `name` cannot be imported as `kind`."""
    every = ordered(problems)
    count = f"{len(every)} problems" if len(every) > 1 else "1 problem"
    return SpecError(f"{name} cannot be imported as {kind}: {count}", problems=every)


def oversized(documents: Iterable[Document]) -> Iterator[Problem]:
    """Yield a problem for each list or mapping, and for the first document, that has too many entries."""
    values = 0
    for document in documents:
        for location, size in document.sizes():
            if size > _MOST_ENTRIES:
                yield document.problem(location, f"expected at most {_MOST_ENTRIES:,} entries, found {size:,}")
            values += size
        if values > _MOST_VALUES:
            yield document.problem((), f"the file has more than {_MOST_VALUES:,} keys and values")
            return


class Source:
    """One document of a foreign file, with a record of the keys that have been read."""

    def __init__(self, document: Document, ledger: Ledger, shown: str) -> None:
        self.document = document
        self.ledger = ledger
        self.shown = shown
        self._read: set[Location] = set()
        self._settled: set[Location] = set()

    @property
    def root(self) -> ForeignValue:
        """The value of the whole document."""
        return ForeignValue(self, (), self.document.data)

    def mark(self, location: Location, *, whole: bool) -> None:
        """Note that the key at `location` has been read; with `whole`, everything below it too."""
        (self._settled if whole else self._read).add(location)

    def report_unread(self) -> None:
        """Add a finding for each key that nothing has read."""
        self._report((), self.document.data)

    def _report(self, location: Location, value: Any) -> None:
        children: Iterator[tuple[str | int, Any]] = iter(())
        if isinstance(value, dict):
            children = iter(value.items())
        elif isinstance(value, list):
            children = iter(enumerate(value))
        for step, child in children:
            place = (*location, step)
            if place in self._settled:
                continue
            if place in self._read:
                self._report(place, child)
            else:
                entry = ForeignValue(self, place, child)
                self.ledger.findings.append(entry.problem(f"{entry.path} is not carried over", at_key=True))


class ForeignValue:
    """A value of a foreign file, and its location."""

    def __init__(self, source: Source, location: Location, value: Any) -> None:
        self.source = source
        self.location = location
        self.value = value

    @property
    def path(self) -> str:
        """The path of the value, such as `spec.replicaSpecs[0].replicas`."""
        steps = "".join(f"[{step}]" if isinstance(step, int) else f".{printable(step)}" for step in self.location)
        return steps.removeprefix(".")

    @property
    def key(self) -> str:
        """The last step of the path."""
        return str(self.location[-1]) if self.location else ""

    @property
    def origin(self) -> ValueOrigin:
        """The origin of the value, for the spec."""
        place = self.problem("")
        comment = f"{self.source.shown}:{place.line}: {self.path}"
        return ValueOrigin(comment[:_LONGEST_COMMENT], place.file, place.line, place.column)

    def problem(self, message: str, hint: str | None = None, *, at_key: bool = False) -> Problem:
        """Return a problem with the value."""
        return self.source.document.problem(self.location, message, hint=hint, at_key=at_key)

    def refuse(self, message: str, hint: str | None = None, *, at_key: bool = False) -> None:
        """Add a problem: the file cannot be imported with this value."""
        self.done()
        self.source.ledger.problems.append(self.problem(message, hint, at_key=at_key))

    def leave(self, message: str = "", hint: str | None = None) -> None:
        """Add a finding: this key, with all below it, is not carried over, or not unchanged."""
        self.done()
        text = message or "is not carried over"
        self.source.ledger.findings.append(self.problem(f"{self.path} {text}", hint, at_key=True))

    def done(self) -> None:
        """Mark the value, with all below it, as read."""
        self.source.mark(self.location, whole=True)

    def child(self, key: str) -> ForeignValue | None:
        """Return the value of `key`, and mark it as read; None if it is missing or null, or this is not a mapping."""
        if not isinstance(self.value, dict) or key not in self.value:
            return None
        location = (*self.location, key)
        self.source.mark(location, whole=False)
        value = self.value[key]
        return None if value is None else ForeignValue(self.source, location, value)

    def at(self, *keys: str) -> ForeignValue | None:
        """Return the value below several keys; see `child`. Add a problem if a value on the way is not a mapping."""
        entry: ForeignValue | None = self
        for key in keys:
            if entry is None or not entry.is_mapping():
                return None
            entry = entry.child(key)
        return entry

    def is_mapping(self) -> bool:
        """Whether the value is a mapping; adds a problem if it is not."""
        if isinstance(self.value, dict):
            return True
        self.refuse(f"expected a mapping, found {show(self.value)}")
        return False

    def children(self) -> list[ForeignValue]:
        """Return the values of a mapping, including null, and mark them as read; add a problem for any other value."""
        if not self.is_mapping():
            return []
        entries = [ForeignValue(self.source, (*self.location, key), value) for key, value in self.value.items()]
        for entry in entries:
            self.source.mark(entry.location, whole=False)
        return entries

    def items(self) -> list[ForeignValue]:
        """Return the items of a list, and mark them as read; add a problem if it is not a list."""
        if not isinstance(self.value, list):
            self.refuse(f"expected a list, found {show(self.value)}")
            return []
        entries = [ForeignValue(self.source, (*self.location, index), value) for index, value in enumerate(self.value)]
        for entry in entries:
            self.source.mark(entry.location, whole=False)
        return entries

    def text(self) -> str | None:
        """Return the text of a scalar as its author wrote it; add a problem if it is not a scalar."""
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        if isinstance(self.value, str | int | float):
            return str(self.value)
        self.refuse(f"expected text, found {show(self.value)}")
        return None

    def whole(self, low: int, high: int) -> int | None:
        """Return a whole number from `low` to `high`; add a problem if it is not one."""
        number = self.value
        if isinstance(number, str) and re.fullmatch(r"-?[0-9]{1,18}", number):
            number = int(number)
        if isinstance(number, int) and not isinstance(number, bool) and low <= number <= high:
            return number
        self.refuse(f"expected a whole number from {low} to {high}, found {show(self.value)}")
        return None

    def words(self) -> list[str] | None:
        """Return a list of scalars as text; add a problem for each item that is not a scalar."""
        items = self.items()
        texts = [item.text() for item in items]
        return [text for text in texts if text is not None] if isinstance(self.value, list) else None


def template(text: bytes, name: str, kind: str, hint: str) -> list[Problem]:
    """Return the problem that the file `name` is a template of `kind`, at its first `{{`; empty without one."""
    before, braces, _ = text.partition(b"{{")
    line, column = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
    return [Problem(name, line, column, f"this is a template of {kind}", hint)] if braces else []


def printable(text: str) -> str:
    """Return foreign text for a comment: one line of ASCII."""
    return _UNPRINTABLE.sub("?", text)


def read_bytes(path: Path, name: str, max_bytes: int = yamlio.MAX_BYTES, folder: Path | None = None) -> bytes:
    """Return the content of a file that the user names; a file found in `folder` may not be a link out of it.

    Returns:
        The content; at most one byte more than `max_bytes`, which `yamlio` then refuses.

    Raises:
        SpecError: The file cannot be read, or is not a plain file.
    """
    try:
        real = path.resolve(strict=True)
        if folder is not None and not real.is_relative_to(folder.resolve()):
            raise SpecError(f"{name} is a link that leads out of its folder")
        with plainfiles.open_below(real.parent, real.name) as stream:
            return stream.read(max_bytes + 1)
    except NotPlainError:
        raise SpecError(f"{name} is not a plain file") from None
    except RuntimeError:  # links in a circle
        raise SpecError(f"{name}: too many levels of symbolic links") from None
    except ValueError:  # a path with a null byte
        raise SpecError(f"{name!r} is not a path") from None
    except OSError as error:
        raise SpecError(f"{name}: {reason(error)}") from None

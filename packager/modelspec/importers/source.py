"""Reads a foreign file, and records for each key whether it was carried over, reported, or not read yet.

A key that an importer never reads is reported at the end, so nothing is dropped silently.

Tests: modelspec/importers/test_mlcube.py.
"""

from __future__ import annotations

import re
from functools import reduce
from operator import getitem
from typing import TYPE_CHECKING, Any, TypeAlias

from packager.base import paths, yamlio
from packager.base.errors import SpecError, reason
from packager.base.problems import Problem, ordered, show
from packager.base.values import Value
from packager.package.options import KEYS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from packager.base.yamlio import Document, Location

_LONGEST_COMMENT = 160
LOST = "is not carried over"


class ValueOrigin(Value, frozen=True):
    """The origin of a value of the spec."""

    comment: str
    file: str = ""  # as the user named it; empty for a value that is not from a file
    line: int = 0
    column: int = 0

    def problem(self, message: str, hint: str | None = None) -> Problem:
        """Return a problem at this place."""
        return Problem(self.file, self.line, self.column, message, hint)


decided = ValueOrigin
"""The origin of a value that is not from a foreign file: the comment is the reason for the value."""


def by_option(name: str) -> ValueOrigin:
    """Return the origin of a value that an option of the command line sets."""
    return ValueOrigin(name, name)


class Given(Value, frozen=True):
    """A value, and its origin."""

    value: Any
    origin: ValueOrigin


class Ledger:
    """The problems, findings and options of an import."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []  # that prevent the import
        self.findings: list[Problem] = []  # what is not carried over
        self.options: list[str] = []  # that a build needs
        self.site: dict[str, str] = {}  # the values of the options, for `site.env`

    def option(self, option: str, **site: str) -> str:
        """Note that a build needs an option, unless a value is invalid; return the arguments that switch it on."""
        for key, value in site.items():
            if complaint := KEYS[key].complaint(value):
                return f"--with {option}, and another {key}: {complaint}"
        self.options = list(dict.fromkeys((*self.options, option)))
        self.site |= site
        return " ".join((f"--with {option}", *(f"--site {key}={value}" for key, value in site.items())))


class Rule(Value, frozen=True):
    """The report about a key that nothing has read."""

    message: str = LOST  # empty if it needs no report
    hint: str | None = None  # with `{}` in place of the value
    option: str = ""  # the option of a site that stands for it
    key: str = ""  # that has its value in `site.env`

    def report(self, entry: ForeignValue) -> None:
        """Add the finding about a key, unless its value is null, false or empty."""
        value = entry.value
        if not self.message or not (value or (value == 0 and value is not False)):
            return
        while self.key and isinstance(value, dict | list):  # such as the name of the first of several
            value = next(iter(value.values() if isinstance(value, dict) else value), "")
        site = {self.key: str(value)} if self.key else {}
        hint = entry.source.ledger.option(self.option, **site) if self.option else self.hint
        entry.note(self.message, hint and hint.replace("{}", str(value)))


Rules: TypeAlias = "Mapping[str, Rule]"


def invalid(name: str, kind: str, problems: list[Problem]) -> SpecError:
    """Return the error that the file `name` cannot be imported as `kind`."""
    every = ordered(problems)
    count = f"{len(every)} problems" if len(every) > 1 else "1 problem"
    return SpecError(f"{name} cannot be imported as {kind}: {count}", problems=every)


class Source:
    """A foreign file, or an object in it; and the locations of the keys that have been read."""

    def __init__(self, document: Document, ledger: Ledger, shown: str, base: Location = ()) -> None:
        self.document = document
        self.ledger = ledger
        self.shown = shown
        self.base = base  # the location of the object in the document
        self.read: set[Location] = set()
        self.settled: set[Location] = set()  # with all below them

    @property
    def root(self) -> ForeignValue:
        """The whole object."""
        return ForeignValue(self, self.base, reduce(getitem, self.base, self.document.data))

    def report_unread(self, rules: Rules, hint: str | None = None) -> None:
        """Add a finding for each key that nothing has read: by its rule, or that it is not carried over."""
        unread = [self.root]
        for holder in unread:
            for entry in holder.below() if isinstance(holder.value, dict | list) else ():
                if entry.location in self.settled:
                    continue
                if entry.location in self.read:
                    unread.append(entry)
                elif rule := rules.get(next(step for step in reversed(entry.location) if isinstance(step, str))):
                    rule.report(entry)
                else:
                    entry.note(LOST, hint)


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

    def given(self, value: Any) -> Given:
        """Return a value that was made of this one."""
        return Given(value, self.origin)

    def problem(self, message: str, hint: str | None = None, *, at_key: bool = False) -> Problem:
        """Return a problem with the value."""
        return self.source.document.problem(self.location, message, hint=hint, at_key=at_key)

    def refuse(self, message: str, hint: str | None = None, *, at_key: bool = False) -> None:
        """Add a problem: the file cannot be imported with this value."""
        self.done()
        self.source.ledger.problems.append(self.problem(message, hint, at_key=at_key))

    def note(self, message: str, hint: str | None = None, *, at_key: bool = True) -> None:
        """Add a finding about the value; what is below it is still to be read."""
        text = f"{self.path} {message}" if self.location else message
        self.source.ledger.findings.append(self.problem(text, hint, at_key=at_key and bool(self.location)))

    def leave(self, message: str = LOST, hint: str | None = None) -> None:
        """Add a finding: this key, with all below it, is not carried over, or not unchanged."""
        self.done()
        self.note(message, hint)

    def done(self) -> None:
        """Mark the value, with all below it, as read."""
        self.source.settled.add(self.location)

    def below(self) -> list[ForeignValue]:
        """Return the values of a mapping or a list, without marking them as read."""
        steps = self.value if isinstance(self.value, dict) else range(len(self.value))
        return [ForeignValue(self.source, (*self.location, step), self.value[step]) for step in steps]

    def at(self, *keys: str) -> ForeignValue | None:
        """Return the value below several keys, all marked as read; None if one is missing or null.

        Adds a problem if a value on the way is not a mapping.
        """
        entry = self
        for key in keys:
            if not entry.is_mapping() or key not in entry.value:
                return None
            entry = ForeignValue(entry.source, (*entry.location, key), entry.value[key])
            self.source.read.add(entry.location)
            if entry.value is None:
                return None
        return entry

    def child(self, key: str) -> ForeignValue | None:
        """Return the value of `key`, marked as read; None if it is missing or null, or this is not a mapping."""
        return self.at(key) if isinstance(self.value, dict) else None

    def required(self, key: str) -> ForeignValue | None:
        """Return the value of `key`, marked as read; None, with a problem, if it is missing or null."""
        value = self.at(key)
        if value is None and isinstance(self.value, dict):
            self.refuse(f"the key {key!r} is missing", at_key=bool(self.location))
        return value

    def string(self, *keys: str) -> str:
        """Return the text below several keys; empty if there is none."""
        entry = self.at(*keys)
        return (entry.text() if entry else None) or ""

    def is_mapping(self) -> bool:
        """Whether the value is a mapping; adds a problem if it is not."""
        if isinstance(self.value, dict):
            return True
        self.refuse(f"expected a mapping, found {show(self.value)}")
        return False

    def children(self, *keys: str) -> list[ForeignValue]:
        """Return the values of the mapping below several keys, marked as read; add a problem for any other value."""
        entry = self.at(*keys)
        return entry.marked() if entry and entry.is_mapping() else []

    def items(self, *keys: str) -> list[ForeignValue]:
        """Return the items of the list below several keys, marked as read; add a problem for any other value."""
        entry = self.at(*keys)
        if entry is None or isinstance(entry.value, list):
            return entry.marked() if entry else []
        entry.refuse(f"expected a list, found {show(entry.value)}")
        return []

    def marked(self) -> list[ForeignValue]:
        """Return the values of a mapping or a list, marked as read."""
        entries = self.below()
        self.source.read.update(entry.location for entry in entries)
        return entries

    def text(self) -> str | None:
        """Return the text of a scalar as its author wrote it; add a problem if it is not a scalar."""
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        if isinstance(self.value, str | int | float):
            return str(self.value)
        self.refuse(f"expected text, found {show(self.value)}")
        return None

    def whole(self) -> int | None:
        """Return a whole number; add a problem if it is not one. Loading the spec checks its limits."""
        number = self.value
        if isinstance(number, str) and re.fullmatch(r"-?[0-9]{1,18}", number):
            number = int(number)
        if isinstance(number, int) and not isinstance(number, bool):
            return number
        hint = "fill the template in first: envsubst" if "$" in str(number) else None
        self.refuse(f"expected a whole number, found {show(self.value)}", hint)
        return None

    def words(self) -> list[str] | None:
        """Return a list of scalars as text; add a problem for each item that is not a scalar."""
        texts = [item.text() for item in self.items()]
        return [text for text in texts if text is not None] if isinstance(self.value, list) else None


def printable(text: str) -> str:
    """Return foreign text for a comment: one line of ASCII."""
    return re.sub("[^ -~]+", "?", text)


def plain_path(root: Path, path: str) -> Path | None:
    """Return the path of the file or folder at `path` below `root`; None if there is none, or a link is on the way."""
    current = root
    try:
        for step in path.split("/"):
            current = current if step == "." else current / step
            if current != root and current.is_symlink():
                return None
        current.lstat()
    except (OSError, ValueError):
        return None
    return current


def read_bytes(path: Path, name: str, max_bytes: int = yamlio.MAX_BYTES, folder: Path | None = None) -> bytes:
    """Return the content of a file that the user names; a file found in `folder` may not be a link out of it.

    At most one byte more than `max_bytes` is returned, which `yamlio` then refuses.
    """
    try:
        real = path.resolve(strict=True)
        if folder is not None and not real.is_relative_to(folder.resolve()):
            raise SpecError(f"{name} is a link that leads out of its folder")
        with paths.open_below(real.parent, real.name) as stream:
            return stream.read(max_bytes + 1)
    except paths.NotPlainError:
        raise SpecError(f"{name} is not a plain file") from None
    except OSError as error:
        raise SpecError(f"{name}: {reason(error)}") from None
    except (RuntimeError, ValueError):  # links in a circle, or a null byte
        raise SpecError(f"{name!r} is not a path") from None

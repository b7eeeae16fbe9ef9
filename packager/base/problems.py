"""Problem: a finding as data, with its place, and Fault: one with a value of a document, before its line is known."""

from __future__ import annotations

import operator
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from packager.base.masking import shortened
from packager.base.values import Value, as_dict, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


MAX_PROBLEMS = 100
"""The most problems of one file that are listed."""

_MAX_ALL_PROBLEMS = 1_000
_MAX_WORDS = 500
_MAX_WORD_CHARACTERS = 100


class Problem(Value, frozen=True, order=True):
    """One finding."""

    file: str  # the file as the user named it
    line: int  # 1-based; 0 when the finding concerns the file as a whole
    column: int  # 1-based; 0 when the finding concerns the file as a whole
    message: str  # the problem, usually with the expected and the found value
    hint: str | None = None  # the fix; None if there is no certain one
    kind: str = ""
    """The subject, for code that filters findings: a Secret, a field, Pod Security; empty for other subjects."""
    allow: str = ""  # the word of `--allow` that permits the finding; empty if none does

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{shortened(place)}: {shortened(self.message)}" + (f" ({shortened(self.hint)})" if self.hint else "")

    def about(self, kind: str, allow: str = "") -> Problem:
        """Return a copy of the finding with `kind` and `allow`."""
        return replace(self, kind=kind, allow=allow)

    def with_texts(self, changed: Callable[[str], str]) -> Problem:
        """Return the problem with its file, message and hint as `changed` returns them."""
        hint = self.hint and changed(self.hint)
        return replace(self, file=changed(self.file), message=changed(self.message), hint=hint)

    def as_json(self) -> dict[str, Any]:
        """Return the finding for `-o json`, without `kind` and `allow` if they are empty."""
        shown = self.with_texts(shortened)
        return {key: value for key, value in as_dict(shown).items() if value or key not in ("kind", "allow")}


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Return each of `problems` once, in order of file and line."""
    return sorted(set(problems), key=lambda problem: (problem.file, problem.line, problem.column, problem.message))


def ordered(problems: Iterable[Problem]) -> list[Problem]:
    """Return each of `problems` once, in order of file and line; see `listed`."""
    return listed(in_order(problems))


def listed(problems: Sequence[Problem]) -> list[Problem]:
    """Return the first problems of each file, in the same order, each file's followed by the number of its others."""
    found: list[Problem] = []
    for _, group in groupby(problems, key=lambda problem: problem.file):
        of_file = list(group)
        found += of_file[:MAX_PROBLEMS]
        if others := of_file[MAX_PROBLEMS:]:
            message = f"{len(others):,} more problems are not listed"
            found.append(Problem(others[0].file, others[0].line, others[0].column, message))
    if others := found[_MAX_ALL_PROBLEMS:]:
        message = f"{len(others):,} more problems, from this file on, are not listed"
        return [*found[:_MAX_ALL_PROBLEMS], Problem(others[0].file, 0, 0, message)]
    return found


def similar(word: str, words: Iterable[str]) -> str | None:
    """Return `did you mean 'x'?` for the closest of `words`; None if none is close, or there are too many to compare.

    The time for two words grows with the product of their lengths.
    """
    comparable = [other for other in islice(words, _MAX_WORDS + 1) if len(other) <= _MAX_WORD_CHARACTERS]
    if len(word) > _MAX_WORD_CHARACTERS or len(comparable) > _MAX_WORDS:
        return None
    import difflib  # noqa: PLC0415 - only a user's mistake needs it

    near = difflib.get_close_matches(word, comparable, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else None


def show(value: Any) -> str:
    """Return `value` for a message, short and on one line; a list or a mapping only as its type."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if isinstance(value, str):
        return repr(shortened(value, 60))
    return f"the number {value}"


_Location = tuple[str | int, ...]  # as in `packager.base.yamlio`


class Fault(Value, frozen=True):
    """A problem, and its location in the document."""

    location: _Location  # the value's location; for a missing key, its own location or that of its mapping
    message: str  # the expected value and the one that was found
    hint: str | None = None  # the fix, where it can be known
    at_key: bool = False  # whether the problem is about the key, not its value
    needs: tuple[_Location, ...] = ()
    """The locations of other values that the conclusion depends on. A single key means its value, and the names or
    items in it, but nothing in these."""

    def below(self, location: _Location) -> Fault:
        """Return the fault of a value that is itself part of a larger one, at `location` there."""
        needs = tuple((*location, *need) for need in self.needs)
        return replace(self, location=(*location, *self.location), needs=needs)

    def rests_on(self, wrong: Iterable[_Location]) -> bool:
        """Return whether the conclusion depends on a value at one of the locations `wrong`, or in or around it."""
        return any(
            all(map(operator.eq, need, place)) and (len(need) > 1 or len(place) <= 2)
            for place in wrong
            for need in (self.location, *self.needs)
        )


def without_repetitions(faults: Iterable[Fault]) -> list[Fault]:
    """Return faults in their order, the first one for each location and message."""
    unique: dict[tuple[_Location, str], Fault] = {}
    for fault in faults:
        unique.setdefault((fault.location, fault.message), fault)
    return list(unique.values())

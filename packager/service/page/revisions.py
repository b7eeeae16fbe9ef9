"""Compares the revisions of a definition or a template for their views."""

from __future__ import annotations

import asyncio
import difflib
import re
from itertools import islice
from typing import TYPE_CHECKING

from packager.base import yamlio
from packager.base.problems import show
from packager.base.values import UNSET, Value, as_plain
from packager.service.failures import Failure
from packager.service.registry.packages.content import PackageBody, PackageOrigin

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import TypeVar

    from packager.service.use.answers import RegisteredDefinition, RegisteredTemplate

    Registered = TypeVar("Registered", RegisteredDefinition, RegisteredTemplate)

_MOST_LINES = 2_000
"""The most lines of two texts that are compared."""


class DiffLine(Value, frozen=True):
    """A line of a comparison.

    Attributes:
        mark: `+` for a new line, `-` for a removed line, a space for an unchanged line, `@` for omitted lines.
        text: The line.
    """

    mark: str
    text: str


class Changed(Value, frozen=True):
    """The changes in a field.

    Attributes:
        key: The name of the field.
        lines: The changed lines, and some lines around them.
    """

    key: str
    lines: tuple[DiffLine, ...]


def compared(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[Changed, ...]:
    """Return the changed fields between two revisions, from the texts of their fields."""
    return tuple(Changed(key, tuple(_lines(text, new[key]))) for key, text in old.items() if text != new[key])


def texts(item: Registered, keys: Sequence[str]) -> dict[str, str]:
    """Return the texts of some fields of a revision."""
    return {key: _text(getattr(item, key)) for key in keys}


def _text(value: object) -> str:
    if value is None or value is UNSET:
        return ""
    if isinstance(value, PackageBody | PackageOrigin):
        return yamlio.dump([as_plain(value)])
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _lines(old: str, new: str) -> Iterator[DiffLine]:
    before, after = old.splitlines(), new.splitlines()
    if len(before) + len(after) > _MOST_LINES:
        yield DiffLine("@", f"too long to compare: {len(before):,} and {len(after):,} lines")
        return
    for text in islice(difflib.unified_diff(before, after, lineterm="", n=3), 2, None):  # the first two are headers
        yield DiffLine(text[0], text[1:] if text[0] != "@" else text)


def chosen(what: str, items: Sequence[Registered], revision: str) -> Registered:
    """Return a revision from all revisions of `what`, the newest first, by its number in an address. Raises Failure.

    Args:
        what: The kind and the name of the object, for messages.
        items: All revisions, the newest first.
        revision: The number; empty for the newest.
    """
    if revision and not re.fullmatch("[0-9]{1,9}", revision):
        raise Failure("invalid-query", f"revision: expected a whole number, such as 1, found {show(revision)}")
    number = int(revision) if revision else items[0].revision
    for item in items:
        if item.revision == number:
            return item
    raise Failure("not-found", f"revision {number} of {what} not found")


async def changes_of(
    items: Sequence[Registered], shown: Registered, current: Registered | None, keys: Sequence[str]
) -> dict[str, object]:
    """Return the values for the view of a revision, with the changes since the previous revision.

    Args:
        items: All revisions, the newest first.
        shown: The revision to show.
        current: The current revision; None if the object was removed.
        keys: The names of the compared fields.
    """
    older = next((item for item in items if item.revision < shown.revision), None)
    changes = await asyncio.to_thread(compared, texts(older, keys), texts(shown, keys)) if older else ()
    is_current = current is not None and current.revision == shown.revision
    return {"item": shown, "items": items, "older": older, "changes": changes, "is_current": is_current}

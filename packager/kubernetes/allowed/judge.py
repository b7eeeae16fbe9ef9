"""Finds fields, labels, annotations and values that the table does not list. Tests: verify/test_allowed_fields.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.base.problems import show
from packager.base.values import Value
from packager.kubernetes.allowed import table, words
from packager.kubernetes.manifest import mapping

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from packager.base.yamlio import Location
    from packager.kubernetes.allowed.table import Facts, Node, Row
    from packager.kubernetes.manifest import Manifest


class Unlisted(Value, frozen=True):
    """A part of an object that is not in the table."""

    location: Location  # the location in the object; empty for the object as a whole
    message: str  # the problem, with the expected and the found value
    word: str | None  # the word of `--allow` that permits the part; None if none does
    options: tuple[str, ...] = ()  # the options that make the part, all of which are off
    at_key: bool = True  # whether the problem is the key, not its value
    # the kind of the object that the value refers to and the package lacks; empty without a reference
    missing: str = ""


class Judge:
    """Judges one object of a package or template."""

    def __init__(self, facts: Facts, manifest: Manifest, allowed: Collection[str] = ()) -> None:
        self._facts = facts
        self._manifest = manifest
        self._allowed = allowed

    def fields(self) -> Iterator[Unlisted]:
        """Yield each unlisted field of the object, whose kind the table has, except its metadata."""
        kind = self._manifest.kind.lower()
        root = table.fields()[kind]
        if not usable(root.subtree, self._facts):
            yield self._unmade((), "such an object", root.subtree, None)
            return
        for key, value in self._manifest.data.items():
            if key not in ("apiVersion", "kind", "metadata", "status"):
                yield from self._step(root, key, value, (key,), f"{kind}.{key}")

    def template(self, value: Any, location: Location) -> Iterator[Unlisted]:
        """Yield each unlisted field of the pod template at `location` of the object."""
        yield from self._value(table.fields()[table.POD], value, location, table.POD)

    def metadata(self) -> Iterator[Unlisted]:
        """Yield each unlisted field, label and annotation of the object's own metadata."""
        places = (table.POD, table.OBJECT) if self._manifest.kind.lower() == table.POD else (table.OBJECT,)
        yield from self._metadata(self._manifest.data.get("metadata"), ("metadata",), places)

    def _metadata(self, value: Any, location: Location, places: Sequence[str] = (table.POD,)) -> Iterator[Unlisted]:
        """Yield each unlisted field, label and annotation of metadata at `location`, by default of a pod template."""
        of_template = table.fields()[table.POD].steps["metadata"].steps
        steps = table.fields()[table.OBJECT].steps if table.OBJECT in places else of_template
        usable_fields = {field for field, node in steps.items() if usable(node.subtree, self._facts)}
        for field, content in mapping(value).items():
            here = (*location, field)
            if field in ("labels", "annotations"):
                prefix = table.LABEL if field == "labels" else table.ANNOTATION
                for key, text in mapping(content).items():
                    yield from self._key(f"{prefix}{key}", text, (*here, key), places)
            elif field not in usable_fields and content is not None:
                owner = "template" if self._facts.is_template else "package"
                yield Unlisted(here, f"a {owner} must not set this field: the cluster does", None)

    def _key(self, key: str, value: Any, location: Location, places: Sequence[str]) -> Iterator[Unlisted]:
        if words.permits(self._allowed, key):
            return
        kind = "label" if key.startswith(table.LABEL) else "annotation"
        lists = (
            table.keys().get((place, name))
            for place in places
            for name in ((key,) if "/" in key or place != places[0] else (key, f"{kind}:*"))
        )
        rows = next((permitted for rows in lists if rows and (permitted := usable(rows, self._facts))), None)
        word = key if words.is_word(key) else None
        if rows is None:
            yield self._unmade(
                location, f"this {kind}", [row for at in places for row in table.keys().get((at, key), ())], word
            )
        elif not self._fits(rows, value):
            yield Unlisted(location, _wrong(rows, value), word, at_key=False)

    def _unmade(self, location: Location, what: str, rows: Sequence[Row], word: str | None) -> Unlisted:
        """Return a part `what` that the table does not have, or only in rows of options that are off."""
        options = tuple(dict.fromkeys(option for row in rows for option in row.options))
        if len(options) == 1:
            message = f"only the option {options[0]} makes this, and it is off"
        elif options:
            message = f"only the options {', '.join(options[:-1])} and {options[-1]} make this, and they are off"
        else:
            message = f"a template must not have {what}" if self._facts.is_template else f"no build makes {what}"
        return Unlisted(location, message, word, options)

    def _fits(self, rows: Sequence[Row], value: Any) -> bool:
        return any(table.fits(row.value, value, self._manifest.name, self._facts) for row in rows)

    def _step(self, node: Node, step: str, value: Any, location: Location, word: str) -> Iterator[Unlisted]:
        """Yield each unlisted part of the field, key or item `step` below `node`."""
        below = node.steps.get(step) or node.steps.get("*")
        if words.permits(self._allowed, word):
            return
        if below is None:
            yield self._unmade(location, "this field", (), word if words.is_word(word) else None)
        elif not usable(below.subtree, self._facts):
            yield self._unmade(location, "this field", below.subtree, word)
        elif value is not None:
            yield from self._value(below, value, location, word)

    def _value(self, node: Node, value: Any, location: Location, word: str) -> Iterator[Unlisted]:
        """Yield each unlisted part of the value at `node`."""
        rows = usable(node.rows, self._facts)
        part = next((row.value for row in rows if row.value in table.NESTED), None)
        if part == table.POD:
            yield from self.template(value, location)
            return
        if part is not None:
            node = table.fields()[part]
        if any(row.value == table.ALL for row in rows):
            return
        if isinstance(value, dict) and node.steps and "[]" not in node.steps:
            for key, item in value.items():
                if key == "metadata" and node is table.fields()[table.POD]:
                    yield from self._metadata(item, (*location, key))
                else:
                    name = key if key in node.steps or "*" not in node.steps else "*"
                    yield from self._step(node, key, item, (*location, key), f"{word}.{name}")
            yield from self._missing(node, value, location, word)
        elif isinstance(value, list) and "[]" in node.steps:
            for index, item in enumerate(value):
                yield from self._step(node, "[]", item, (*location, index), f"{word}[]")
        elif not self._fits(rows, value):
            missing = next((table.REFERENCES[row.value] for row in rows if row.value in table.REFERENCES), "")
            known = word if words.is_word(word) else None
            yield Unlisted(location, _wrong(rows, value), known, at_key=False, missing=missing)

    def _missing(self, node: Node, value: dict[str, Any], location: Location, word: str) -> Iterator[Unlisted]:
        """Yield each required field that a mapping lacks, or sets to null, which the API server reads as lacking."""
        for step, below in node.steps.items():
            rules = [row.value for row in usable(below.rows, self._facts) if row.value in table.REQUIRED]
            if rules and value.get(step) is None and not words.permits(self._allowed, word):
                yield Unlisted((*location, step), f"is missing: expected {table.expected(rules[0])}", word)


def is_below(domain: str, domains: Collection[str]) -> bool:
    """Whether a domain is one of `domains`, or below one."""
    return any(f".{domain}".endswith(f".{own}") for own in domains)


def lists(manifest: Manifest) -> bool:
    """Whether the table has rows for an object's kind."""
    return manifest.kind.lower() in table.fields() and manifest.kind.lower() not in table.PARTS


def usable(rows: Sequence[Row], facts: Facts) -> list[Row]:
    """Return the rows whose fields an object may have."""
    return [row for row in rows if row.who[0] in (table.BUILD, *table.ELSEWHERE) or _is_on(row, facts)]


def _is_on(row: Row, facts: Facts) -> bool:
    return (facts.is_template and table.TEMPLATE in row.who) or not facts.options.isdisjoint(row.who)


def _wrong(rows: Sequence[Row], value: Any) -> str:
    rules = [table.expected(row.value) for row in rows if row.value not in table.NESTED]
    return f"expected {' or '.join(dict.fromkeys(rules)) or 'fields'}, found {show(value)}"

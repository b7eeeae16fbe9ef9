"""Finds fields, labels, annotations and values that the table does not list. Tests: verify/test_allowed_fields.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.base.problems import show
from packager.base.values import Value
from packager.kubernetes.allowed import table, values, words
from packager.kubernetes.manifest import mapping

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from packager.base.yamlio import Location
    from packager.kubernetes.allowed.table import Node, Row
    from packager.kubernetes.allowed.values import Facts
    from packager.kubernetes.manifest import Manifest


_OWN = f"{table.ANNOTATION}mlpack/"


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
    """Judges the objects of one package or template."""

    def __init__(self, facts: Facts, allowed: Collection[str] = ()) -> None:
        self._facts = facts
        self._allowed = frozenset(allowed)

    def unmade(self, what: str) -> str:
        """Return the message about a part `what` that the table does not have."""
        return f"a template must not have {what}" if self._facts.is_template else f"no build makes {what}"

    def fields(self, manifest: Manifest) -> Iterator[Unlisted]:
        """Yield each unlisted field of an object whose kind the table has, except its metadata."""
        root = _root(manifest)
        if not usable(root.subtree, self._facts):
            options = options_of(root.subtree)
            yield Unlisted((), _made_by(options) if options else self.unmade("such an object"), None, options)
            return
        walk = _Walk(self._facts, self._allowed, manifest, self)
        for key, value in manifest.data.items():
            if key not in ("apiVersion", "kind", "metadata", "status"):
                yield from walk.step(root, key, value, (key,), f"{manifest.kind.lower()}.{key}")

    def template(self, manifest: Manifest, value: Any, location: Location) -> Iterator[Unlisted]:
        """Yield each unlisted field of the pod template at `location` of an object."""
        walk = _Walk(self._facts, self._allowed, manifest, self)
        yield from walk.value(table.fields()[table.POD], value, location, table.POD)

    def metadata(self, manifest: Manifest) -> Iterator[Unlisted]:
        """Yield each unlisted field, label and annotation of an object's own metadata."""
        places = (table.POD, table.OBJECT) if manifest.kind.lower() == table.POD else (table.OBJECT,)
        yield from self.metadata_below(manifest, manifest.data.get("metadata"), ("metadata",), places)

    def metadata_below(
        self, manifest: Manifest, value: Any, location: Location, places: Sequence[str] = (table.POD,)
    ) -> Iterator[Unlisted]:
        """Yield each unlisted field, label and annotation of metadata at `location`, by default of a pod template."""
        metadata = mapping(value)
        of_template = table.fields()[table.POD].steps["metadata"].steps
        steps = table.fields()[table.OBJECT].steps if table.OBJECT in places else of_template
        usable_fields = {field for field, node in steps.items() if usable(node.subtree, self._facts)}
        for field, content in metadata.items():
            here = (*location, field)
            if field in ("labels", "annotations"):
                prefix = table.LABEL if field == "labels" else table.ANNOTATION
                for key, text in mapping(content).items():
                    yield from self._key(manifest, f"{prefix}{key}", text, (*here, key), places)
            elif field not in usable_fields and content is not None:
                owner = "template" if self._facts.is_template else "package"
                yield Unlisted(here, f"a {owner} must not set this field: the cluster does", None)

    def _key(
        self, manifest: Manifest, key: str, value: Any, location: Location, places: Sequence[str]
    ) -> Iterator[Unlisted]:
        if words.permits(self._allowed, key):
            return
        kind = "label" if key.startswith(table.LABEL) else "annotation"
        any_key = f"{kind}:*"
        lists = (
            table.keys().get((place, name))
            for place in places
            for name in ((key,) if "/" in key or place != places[0] else (key, any_key))
        )
        rows = next((rows for rows in lists if rows and usable(rows, self._facts)), None)
        word = key if words.is_word(key) else None
        if rows is None:
            of_options = [row for place in places for row in table.keys().get((place, key), ())]
            options = options_of(of_options)
            yield Unlisted(location, _made_by(options) if options else self.unmade(f"this {kind}"), word, options)
        elif not any(values.fits(row.value, value, manifest.name, self._facts) for row in usable(rows, self._facts)):
            yield Unlisted(location, _wrong(usable(rows, self._facts), value), word, at_key=False)


class _Walk:
    """Compares one object with the table."""

    def __init__(self, facts: Facts, allowed: frozenset[str], manifest: Manifest, judge: Judge) -> None:
        self._facts = facts
        self._allowed = allowed
        self._manifest = manifest
        self._judge = judge

    def step(self, node: Node, step: str, value: Any, location: Location, word: str) -> Iterator[Unlisted]:
        """Yield each unlisted part of the field, key or item `step` below `node`."""
        below = node.steps.get(step) or node.steps.get("*")
        if words.permits(self._allowed, word):
            return
        if below is None:
            yield Unlisted(location, self._judge.unmade("this field"), word if words.is_word(word) else None)
        elif not usable(below.subtree, self._facts):
            options = options_of(below.subtree)
            yield Unlisted(location, _made_by(options) if options else self._judge.unmade("this field"), word, options)
        elif value is not None:
            yield from self.value(below, value, location, word)

    def value(self, node: Node, value: Any, location: Location, word: str) -> Iterator[Unlisted]:
        """Yield each unlisted part of the value at `node`."""
        rows = usable(node.rows, self._facts)
        part = next((row.value for row in rows if row.value in table.NESTED), None)
        if part == table.POD:
            yield from self._judge.template(self._manifest, value, location)
            return
        if part is not None:
            node = table.fields()[part]
        if any(row.value == values.ALL for row in rows):
            return
        if isinstance(value, dict) and node.steps and "[]" not in node.steps:
            for key, item in value.items():
                if key == "metadata" and node is table.fields()[table.POD]:
                    yield from self._judge.metadata_below(self._manifest, item, (*location, key))
                else:
                    name = key if key in node.steps or "*" not in node.steps else "*"
                    yield from self.step(node, key, item, (*location, key), f"{word}.{name}")
            yield from self._missing(node, value, location, word)
        elif isinstance(value, list) and "[]" in node.steps:
            for index, item in enumerate(value):
                yield from self.step(node, "[]", item, (*location, index), f"{word}[]")
        elif not any(values.fits(row.value, value, self._manifest.name, self._facts) for row in rows):
            missing = next((values.REFERENCES[row.value] for row in rows if row.value in values.REFERENCES), "")
            known = word if words.is_word(word) else None
            yield Unlisted(location, _wrong(rows, value), known, at_key=False, missing=missing)

    def _missing(self, node: Node, value: dict[str, Any], location: Location, word: str) -> Iterator[Unlisted]:
        """Yield each required field that a mapping lacks, or sets to null, which the API server reads as lacking."""
        for step, below in node.steps.items():
            rules = [row.value for row in usable(below.rows, self._facts) if row.value in values.REQUIRED]
            if rules and value.get(step) is None and not words.permits(self._allowed, word):
                yield Unlisted((*location, step), f"is missing: expected {values.expected(rules[0])}", word)


def annotation_fault(key: str, value: str, option: str, domains: Collection[str] = ()) -> str | None:
    """Return why a site's pods must not have an annotation; None if they may.

    They may have those of an option, those that some builds set to one value, and those of the site's own domains.
    """
    every = _site_rows(option)
    if key in every:
        facts = values.Facts(frozenset((option,)))
        fits = any(values.fits(row.value, value, "", facts) for row in every[key])
        return None if fits else _wrong(every[key], value)
    domain = key.rpartition("/")[0]
    if is_below(domain, domains):
        return None
    return f"no package may have this annotation: expected one of {', '.join(sorted(every))}"


def is_below(domain: str, domains: Collection[str]) -> bool:
    """Whether a domain is one of `domains`, or below one."""
    return any(f".{domain}".endswith(f".{own}") for own in domains)


def is_free_domain(domain: str) -> bool:
    """Whether Kubernetes and the table have no annotation of a domain, or above or below it."""
    names = [row.what.removeprefix(table.ANNOTATION) for row in table.rows() if row.what.startswith(table.ANNOTATION)]
    taken = {name.rpartition("/")[0] for name in names} - {""} | {"kubernetes.io", "k8s.io"}
    return not any(is_below(domain, [other]) or is_below(other, [domain]) for other in taken)


def _site_rows(option: str) -> dict[str, list[Row]]:
    """Return the rows of the annotations that a site may set, by key."""
    return {
        name.removeprefix(table.ANNOTATION): own
        for (place, name), rows in table.keys().items()
        if place == table.POD and name.startswith(table.ANNOTATION) and not name.startswith(_OWN)
        if (own := [row for row in rows if option in row.who or (table.BUILD in row.who and row.value != "any")])
    }


def lists(manifest: Manifest) -> bool:
    """Whether the table has rows for an object's kind."""
    return manifest.kind.lower() in table.fields() and manifest.kind.lower() not in table.PARTS


def _root(manifest: Manifest) -> Node:
    return table.fields()[manifest.kind.lower()]


def permitted(row: Row, facts: Facts) -> bool:
    """Whether an object may have the field of a row."""
    if row.who[0] in (table.BUILD, *table.ELSEWHERE):
        return True
    return (facts.is_template and table.TEMPLATE in row.who) or not facts.options.isdisjoint(row.who)


def usable(rows: Sequence[Row], facts: Facts) -> list[Row]:
    """Return the rows whose fields an object may have."""
    return [row for row in rows if permitted(row, facts)]


def options_of(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the options that make the fields of rows, each once."""
    return tuple(dict.fromkeys(option for row in rows for option in row.options))


def _made_by(options: Sequence[str]) -> str:
    if len(options) == 1:
        return f"only the option {options[0]} makes this, and it is off"
    return f"only the options {', '.join(options[:-1])} and {options[-1]} make this, and they are off"


def _wrong(rows: Sequence[Row], value: Any) -> str:
    rules = [values.expected(row.value) for row in rows if row.value not in table.NESTED]
    return f"expected {' or '.join(dict.fromkeys(rules)) or 'fields'}, found {show(value)}"

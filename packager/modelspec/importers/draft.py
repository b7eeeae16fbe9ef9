"""Draft: a model folder before it is written. Tests: modelspec/importers/test_mxjob.py."""

from __future__ import annotations

import re
from functools import reduce
from itertools import pairwise
from operator import getitem
from typing import TYPE_CHECKING, Any

from packager.base.names import IMAGE, IMAGE_PATH, REGISTRY, TAG, split_registry
from packager.base.problems import show
from packager.base.values import FieldsError, Value, convert
from packager.modelspec.importers.source import Ledger, ValueOrigin, by_option, decided, invalid, printable
from packager.modelspec.model import Spec
from packager.workloads.program import references

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from packager.base.yamlio import Location
    from packager.modelspec.importers.source import ForeignValue, Given

LONGEST_NAME = 40
"""The most characters of the name of a model or an overlay (`packager.base.fields.Label`)."""

_LONGEST_IMAGE = 200


class DraftFile(Value, frozen=True):
    """A file of the model folder; its content, or the file to copy."""

    path: str
    content: bytes | Path
    executable: bool = False


class Draft(Ledger):
    """A model folder in the making: the spec as plain values, files, and what the command that builds it needs."""

    def __init__(self, source: str, kind: str, verb: str) -> None:
        super().__init__()
        self.source = source  # the imported file, as the user named it
        self.kind = kind  # of the file, such as "an MxJob"
        name = printable(source.replace("\\", "/").rpartition("/")[2])
        self.header = f"Imported from {name} by `mlpack import {verb}`."  # the first line of the spec, without `#`
        self.data: dict[str, Any] = {}
        self.origins: dict[Location, ValueOrigin] = {}
        self.files: list[DraftFile] = []
        self.namespace: str | None = None  # that the file names

    def check(self) -> None:
        """Raise SpecError with all problems, if there are any."""
        if self.problems:
            raise invalid(self.source, self.kind, self.problems)

    def at(self, location: Location) -> Any:
        """Return the value at `location` in the spec."""
        data: Any = self.data
        return reduce(getitem, location, data)

    def put(self, location: Location, value: Any, origin: ValueOrigin | str) -> None:
        """Set the value at `location` in the spec; create missing mappings and lists on the way."""
        node: Any = self.data
        for step, following in pairwise((*location, None)):
            if isinstance(node, dict):
                node.setdefault(step, None)
            elif step == len(node):
                node.append(None)
            if following is None:
                node[step] = value
            elif node[step] is None:
                node[step] = [] if isinstance(following, int) else {}
            node = node[step]
        self.origins[location] = decided(origin) if isinstance(origin, str) else origin

    def put_given(self, location: Location, given: Given | None) -> None:
        """Set the value at `location` in the spec, if there is one."""
        if given is not None:
            self.put(location, given.value, given.origin)

    def put_whole(self, location: Location, entry: ForeignValue | None) -> None:
        """Set the whole number of an entry at `location` in the spec, if there is one."""
        if entry and (number := entry.whole()) is not None:
            self.put(location, number, entry.origin)

    def note(self, origin: ValueOrigin, message: str, hint: str | None = None) -> None:
        """Add a finding at the origin of a value."""
        self.findings.append(origin.problem(message, hint))

    def lose(self, given: Given, reason: str, hint: str | None = None) -> None:
        """Add a finding: a value that was read is not carried over."""
        self.note(given.origin, f"{given.origin.comment.partition(': ')[2]} is not carried over: {reason}", hint)

    def put_name(  # noqa: PLR0913, PLR0917 - what the systems differ in
        self, entry: ForeignValue | None, text: str, prefix: str, reason: str, hint: str, longest: int = LONGEST_NAME
    ) -> None:
        """Put the name and the title; `reason` is the one for a name that is from no entry."""
        name = named(text, prefix=prefix, longest=longest)
        origin = entry.origin if entry else decided(reason)
        self.put(("name",), name, origin)
        if entry and name != text:
            entry.leave(f"becomes {name!r}, found {show(text)}", hint)
        self.put(("title",), one_line(text) or name, origin)

    def put_image_of_option(self, image: str | None, replaced: Iterable[ForeignValue | None]) -> bool:
        """Put the image that the user names in place of others, if there is one; return whether there is."""
        if image is not None:
            self.put_image(image, by_option("--image"))
            for entry in filter(None, replaced):
                entry.leave("is replaced by --image")
        return image is not None

    def put_first_image(
        self,
        image: str | None,
        entries: Iterable[ForeignValue | None],
        read: Callable[[ForeignValue], str | None] = lambda entry: entry.text(),
    ) -> bool:
        """Put the image that the user names, or that of the first entry that has one; return whether there is one."""
        given = (
            []
            if self.put_image_of_option(image, entries)
            else [(one, text) for one in entries if one and (text := read(one))]
        )
        for entry, text in given[1:]:
            if given[0][1].removeprefix("docker.io/") != text:
                entry.leave(f"is replaced by {given[0][0].path}, {show(printable(given[0][1]))}")
        if given:
            self.put_image(given[0][1], given[0][0].origin)
        return image is not None or bool(given)

    def put_image(self, reference: str, origin: ValueOrigin | str, place: Location = ("image",)) -> None:
        """Put an image, `[registry/]repository[:tag][@digest]`, into the spec, or add a problem at its origin."""
        origin = decided(origin) if isinstance(origin, str) else origin
        form = re.fullmatch(IMAGE, reference)
        digest, tag = ((form["digest"] or "")[1:], (form["tag"] or "")[1:]) if form else ("", "")
        registry, name = split_registry(reference.removesuffix(f"@{digest}").removesuffix(f":{tag}"))
        parts = ((REGISTRY, registry or "docker.io"), (IMAGE_PATH, name), (TAG, tag or "latest"))
        if not form or len(reference) > _LONGEST_IMAGE or not all(re.fullmatch(*part) for part in parts):
            message = f"expected an image as REGISTRY/NAME:TAG, found {show(reference)}"
            self.problems.append(origin.problem(message, "--image REPOSITORY:TAG imports it with another image"))
            return
        self.put((*place, "registry"), registry or "docker.io", origin if registry else "the usual one")
        self.put((*place, "name"), name, origin)
        if tag or not digest:
            self.put((*place, "tag"), tag or "latest", origin if tag else "the usual one")
        if digest:
            self.put((*place, "digest"), digest, origin)
        elif not tag:
            message = f"the image {reference} has no tag: 'latest' may be another image tomorrow"
            self.note(origin, message, "--image REPOSITORY:TAG names one")

    def rename_taken(self) -> None:
        """Give another name to each variable whose name the package uses itself, or leave it out if it has the value.

        A spec of another system does not know these names, which become more with each release.
        """
        try:
            spec = convert(self.data, Spec)
        except FieldsError:
            return  # loading the spec reports it
        for index, name, overlay, run in spec.runs():
            amounts = {amount.key: amount.value for amount in overlay.amounts(run)}
            places: tuple[Location, ...] = ((), ("variants", index), ("overlays", name))
            for place in places:
                for key in [*self.at(place).get("environment", ())]:
                    if reason := overlay.refused(key, run):
                        self._rename(place, key, reason, amounts.get(key))

    def _rename(self, place: Location, key: str, reason: str, amount: str | None) -> None:
        value = self.at(place)["environment"].pop(key)
        origin = self.origins.pop((*place, "environment", key))
        if value == amount:
            self.note(origin, f"{key} is set by the package, to the same value")
            return
        other = f"MODEL_{key}"
        self.put((*place, "environment", other), value, origin)
        self.note(origin, f"{key} becomes {other}: {reason}", f"a program that reads {key} finds the package's value")
        _replace_references(self.at(place), key, other)


def _replace_references(node: Any, key: str, other: str) -> None:
    """Replace `$(key)` in the words of commands at or below `node`."""
    for step, child in node.items() if isinstance(node, dict) else enumerate(node):
        if isinstance(child, str) and key in references(child):
            node[step] = child.replace(f"$({key})", f"$({other})")
        elif isinstance(child, dict | list):
            _replace_references(child, key, other)


def named(original: str, *, prefix: str, longest: int = LONGEST_NAME) -> str:
    """Return `original` as a name of a model or an overlay: lower case, and each run of other characters one '-'.

    A name that does not begin with a letter gets the prefix.
    """
    lower = re.sub(r"[^a-z0-9]+", "-", original.lower()).strip("-")
    if not re.match("[a-z]", lower):
        lower = f"{prefix}-{lower}".strip("-")
    return lower[:longest].rstrip("-")


def one_line(text: str) -> str:
    """Return foreign text for a title: what can be printed, at most 200 characters."""
    return "".join(character for character in text if character.isprintable())[:200].strip()

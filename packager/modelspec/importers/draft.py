"""Draft: a model folder before it is written. Tests: modelspec/importers/test_mxjob.py."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from packager.base.names import IMAGE, IMAGE_PATH, REGISTRY, TAG, split_registry
from packager.base.problems import show
from packager.base.values import FieldsError, Value, convert
from packager.modelspec.importers.source import ValueOrigin, decided
from packager.modelspec.model import Spec
from packager.package.options import KEYS
from packager.workloads.program import references

if TYPE_CHECKING:
    from pathlib import Path

    from packager.base.yamlio import Location
    from packager.modelspec.importers.source import Ledger

LONGEST_NAME = 40
"""The most characters of the name of a model or an overlay (`packager.base.fields.Label`)."""

_LONGEST_IMAGE = 200


class DraftFile(Value, frozen=True):
    """A file of the model folder; its content, or the file to copy."""

    path: str
    content: bytes | Path
    executable: bool = False


class Draft:
    """A model folder in the making: the spec as plain values, files, and what the command that builds it needs."""

    def __init__(self, source: str, kind: str, header: str, ledger: Ledger) -> None:
        self.source = source  # the imported file, as the user named it
        self.kind = kind  # of the file, such as "an MxJob"
        self.header = header  # the first line of the spec, without `#`
        self.ledger = ledger
        self.data: dict[str, Any] = {}
        self.origins: dict[Location, ValueOrigin] = {}
        self.files: list[DraftFile] = []
        self.options: list[str] = []
        self.site: dict[str, str] = {}  # the values of the options, for `site.env`
        self.namespace: str | None = None  # that the file names

    def put(self, location: Location, value: Any, origin: ValueOrigin | str) -> None:
        """Set the value at `location` in the spec; create missing mappings and lists on the way."""
        node: Any = self.data
        for step, following in pairwise(location):
            empty: Any = [] if isinstance(following, int) else {}
            if isinstance(step, int) and step == len(node):
                node.append(empty)
            elif isinstance(step, str) and step not in node:
                node[step] = empty
            node = node[step]
        last = location[-1]
        if isinstance(last, int) and last == len(node):
            node.append(value)
        else:
            node[last] = value
        self.origins[location] = decided(origin) if isinstance(origin, str) else origin

    def note(self, origin: ValueOrigin, message: str, hint: str | None = None) -> None:
        """Add a finding at the origin of a value."""
        self.ledger.findings.append(origin.problem(message, hint))

    def option(self, option: str, **site: str) -> str:
        """Note that a build needs an option, unless a value is invalid; return the arguments that switch it on."""
        for key, value in site.items():
            if complaint := KEYS[key].complaint(value):
                return f"--with {option}, and another {key}: {complaint}"
        if option not in self.options:
            self.options.append(option)
        self.site |= site
        return " ".join((f"--with {option}", *(f"--site {key}={value}" for key, value in site.items())))

    def put_image(self, reference: str, origin: ValueOrigin | str, place: Location = ("image",)) -> None:
        """Put an image, `[registry/]repository[:tag][@digest]`, into the spec, or add a problem at its origin."""
        origin = decided(origin) if isinstance(origin, str) else origin
        form = re.fullmatch(IMAGE, reference)
        digest, tag = ((form["digest"] or "")[1:], (form["tag"] or "")[1:]) if form else ("", "")
        repository = reference.removesuffix(f"@{digest}") if digest else reference
        registry, name = split_registry(repository.removesuffix(f":{tag}") if tag else repository)
        parts = ((REGISTRY, registry or "docker.io"), (IMAGE_PATH, name), (TAG, tag or "latest"))
        is_valid = form and len(reference) <= _LONGEST_IMAGE and all(re.fullmatch(*part) for part in parts)
        if not is_valid:
            message = f"expected an image as REGISTRY/NAME:TAG, found {show(reference)}"
            hint = "--image REPOSITORY:TAG imports it with another image"
            self.ledger.problems.append(origin.problem(message, hint))
            return
        self.put((*place, "registry"), registry or "docker.io", origin if registry else "the usual one")
        self.put((*place, "name"), name, origin)
        if tag:
            self.put((*place, "tag"), tag, origin)
        if digest:
            self.put((*place, "digest"), digest, origin)
        elif not tag:
            self.put((*place, "tag"), "latest", "the usual one")
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
        taken: dict[Location, tuple[str, str | None]] = {}
        for index, name in spec.pairs():
            variant = spec.variants[index]
            overlay = spec.planned_overlay(variant, name)
            run = overlay.run(variant.run)
            amounts = {amount.key: amount.value for amount in overlay.amounts(run)}
            holders: tuple[Location, ...] = ((), ("variants", index), ("overlays", name))
            for holder in holders:
                for key in self._at(holder).get("environment", ()):
                    if reason := overlay.refused(key, run):
                        taken.setdefault((*holder, "environment", key), (reason, amounts.get(key)))
        for location, (reason, amount) in taken.items():
            holder, key = location[:-1], str(location[-1])
            value = self._at(holder).pop(key)
            origin = self.origins.pop(location)
            if value == amount:
                self.note(origin, f"{key} is set by the package, to the same value")
                continue
            other = f"MODEL_{key}"
            self.put((*holder, other), value, origin)
            hint = f"a program that reads {key} finds the package's value"
            self.note(origin, f"{key} becomes {other}: {reason}", hint)
            _replace_references(self._at(holder[:-1]), key, other)

    def _at(self, location: Location) -> Any:
        node: Any = self.data
        for step in location:
            node = node[step]
        return node


def _replace_references(node: Any, key: str, other: str) -> None:
    """Replace `$(key)` in the words of commands at or below `node`."""
    for step, child in node.items() if isinstance(node, dict) else enumerate(node):
        if isinstance(child, str) and key in references(child):
            node[step] = child.replace(f"$({key})", f"$({other})")
        elif isinstance(child, dict | list):
            _replace_references(child, key, other)


def named(original: str, *, prefix: str, longest: int = LONGEST_NAME) -> str:
    """Return `original` as a name of a model or an overlay: lower case, and each run of other characters one '-'.

    Args:
        original: The name in the imported file.
        prefix: The prefix for a name that does not begin with a letter.
        longest: The most characters of the result.
    """
    lower = re.sub(r"[^a-z0-9]+", "-", original.lower()).strip("-")
    if not re.match("[a-z]", lower):
        lower = f"{prefix}-{lower}".strip("-")
    return lower[:longest].rstrip("-")


def one_line(text: str) -> str:
    """Return foreign text for a title: what can be printed, at most 200 characters."""
    return "".join(character for character in text if character.isprintable())[:200].strip()

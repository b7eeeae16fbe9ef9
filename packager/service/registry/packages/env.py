"""The keys of a package's mlops.env that a definition and its users set: their description, checks and values."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from packager.base import envfile
from packager.base.faults import Fault
from packager.base.problems import show, similar
from packager.kubernetes import mountpath
from packager.kubernetes.manifest import mapping
from packager.kubernetes.mountpath import ROOT
from packager.package import image
from packager.package.options import BY_NAME
from packager.service.complaints import Complaint
from packager.service.registry.description import SECRET, Group, Items, Leaf
from packager.service.registry.packages.content import ENV
from packager.service.registry.template_values import MASK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from packager.base.values import Json
    from packager.service.registry.packages.content import PackageKey, PackageOrigin, ValueType

_VALUE_BYTES = 32 << 10
_ALL_BYTES = 64 << 10

_NUMBER = r"-?[0-9]{1,15}(\.[0-9]{1,15})?([eE][-+]?[0-9]{1,2})?"
_WHOLE = r"-?(0|[1-9][0-9]{0,14})"

_OF_PACKAGE = "is a number or quantity of the manifests, which only the package sets"

_IMAGE_COMPLAINTS: Mapping[str, Callable[[str], str | None]] = {
    image.REGISTRY: image.registry_complaint,
    image.IMAGE: image.complaint,
}
"""The checks of the parts of an image."""

_EVENT = Group(
    (
        ("type", Leaf(required=False, type=None, text="event")),
        ("endpoint", Leaf(required=False, type="uri", text="Where changes of the job's status are sent")),
    ),
    required=False,
)


def value_type(default: str) -> ValueType:
    """Return the type of a key from its value in the package: boolean, number, or else string."""
    if default in ("true", "false"):
        return "boolean"
    is_number = re.fullmatch(_WHOLE, default) or ("." in default and re.fullmatch(_NUMBER, default))
    return "number" if is_number else "string"


def as_text(value: Json) -> str:
    """Return a filled value in the form of mlops.env."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def typed(key: PackageKey) -> Json:
    """Return the value of a key in the package, converted to its type; None if it is empty."""
    if key.type == "boolean":
        return key.default == "true"
    if key.type == "number":
        return int(key.default) if re.fullmatch(_WHOLE, key.default) else float(key.default)
    return key.default or None


def described(origin: PackageOrigin, system: Mapping[str, Json], given: Group | None) -> tuple[Group, list[Complaint]]:
    """Return the description of the values of users, and the complaints about the definition's own description.

    Args:
        origin: The package.
        system: The `system_values` of the definition.
        given: The definition's own description; None for all keys that users may set.
    """
    fixed = mapping(system.get(ENV))
    offered = {key.name: key for key in origin.keys if not key.fixed and key.name not in fixed}
    complaints: list[Complaint] = []
    entries = dict(given.entries) if given else {}
    leaves = {name: _leaf(key, None) for name, key in offered.items()}
    endpoints = entries.get("endpoints", Items((_EVENT,), required=False, are_endpoints=True))
    if given:
        complaints += [
            _described(f"users of a package fill in {ENV} and endpoints: unknown key {show(key)}")
            for key in entries.keys() - {ENV, "endpoints"}
        ]
        group = entries.get(ENV, Group((), required=False))
        own = dict(group.entries) if isinstance(group, Group) else {}
        if not isinstance(group, Group) or not all(isinstance(entry, Leaf) for entry in own.values()):
            complaints.append(_described(f"{ENV}: expected a mapping of the keys of mlops.env"))
        complaints += [
            _described(f"{ENV}.{name}: {_unknown(name, origin, fixed)}", similar(name, offered))
            for name in own
            if name not in offered
        ]
        leaves = {
            name: _leaf(offered[name], entry)
            for name, entry in own.items()
            if isinstance(entry, Leaf) and name in offered
        }
        complaints += [
            _described(f"{ENV}.{name} is missing: the pods cannot start without this secret")
            for name, key in offered.items()
            if key.required and name not in own
        ]
    if not isinstance(endpoints, Items):
        complaints.append(_described("endpoints: expected a list of the kinds of endpoints"))
    group = Group(tuple(leaves.items()), any(leaf.required for leaf in leaves.values()))
    return Group(((ENV, group), ("endpoints", endpoints)), group.required or endpoints.required), complaints


def _described(message: str, hint: str | None = None) -> Complaint:
    return Complaint("/user_values_description", message, hint)


def _leaf(key: PackageKey, given: Leaf | None) -> Leaf:
    if key.type == SECRET:
        text = (given and given.text) or key.description or "A secret"
        return Leaf(key.required or (given is not None and given.required), SECRET, text)
    return given or Leaf(key.required, None if key.type == "string" else key.type, key.description or "A variable")


def _unknown(name: str, origin: PackageOrigin, fixed: Mapping[str, Json]) -> str:
    if name in fixed:
        return "is set by the definition, in system_values"
    if any(key.name == name and key.of_package for key in origin.keys):
        return _OF_PACKAGE
    if any(key.name == name and key.fixed for key in origin.keys):
        return "only the definition sets it, in system_values, because it decides more than a variable"
    if any(key.name == name for key in origin.keys):
        return "the definition does not let users set it"
    return f"the package {origin.name} has no such key in mlops.env"


def unknown_key(fault: Fault, origin: PackageOrigin, system: Mapping[str, Json]) -> Fault:
    """Return a fault of filled values; for an unknown key that is in the package, explain why users cannot set it."""
    name = fault.location[1] if len(fault.location) == 2 and fault.location[0] == ENV else None
    if not fault.at_key or all(key.name != name for key in origin.keys):
        return fault
    return Fault(fault.location, _unknown(str(name), origin, mapping(system.get(ENV))), at_key=True)


def example(name: str, origin: PackageOrigin, group: Group) -> dict[str, Json]:
    """Return filled values that satisfy a description, with the default values of the package."""
    offered = dict(mapping_of(group).entries)
    values = {key.name: MASK if key.type == SECRET else typed(key) for key in origin.keys if key.name in offered}
    return {"taskDef": name, ENV: {key: value for key, value in values.items() if value is not None}}


def mapping_of(group: Group) -> Group:
    """Return the part of a description about mlops.env."""
    entry = dict(group.entries)[ENV]
    assert isinstance(entry, Group)
    return entry


def system_complaints(system: Mapping[str, Json], origin: PackageOrigin) -> Iterator[Complaint]:
    """Yield the complaints about the `system_values` of a definition, which set keys of mlops.env."""
    for key in system.keys() - {ENV}:
        yield Complaint("/system_values", f"unknown key {show(key)}: a package has {ENV}, the keys of mlops.env")
    env = system.get(ENV, {})
    if not isinstance(env, dict):
        yield Complaint("/system_values", f"{ENV}: expected a mapping, found {show(env)}")
        return
    known = {key.name: key for key in origin.keys}
    for name, value in env.items():
        if name not in known:
            message = f"{ENV}.{name}: the package {origin.name} has no such key in mlops.env"
            yield Complaint("/system_values", message, similar(name, known))
        elif known[name].is_secret:
            message = f"{ENV}.{name} is a secret, and everyone who sees the definition would read it"
            yield Complaint("/system_values", message, "let users fill it in")
        elif known[name].of_package:
            hint = "set it in the package: mlpack configure PACKAGE --set"
            yield Complaint("/system_values", f"{ENV}.{name} {_OF_PACKAGE}", hint)
        elif value is None or isinstance(value, dict | list):
            yield Complaint("/system_values", f"{ENV}.{name}: expected a single value, found {show(value)}")
    for fault in faults(system, origin):
        yield Complaint("/system_values", f"{'.'.join(map(str, fault.location))}: {fault.message}", fault.hint)


def faults(filled: Mapping[str, Json], origin: PackageOrigin) -> Iterator[Fault]:
    """Yield the faults of values of mlops.env that are independent of their types."""
    secret = {key.name for key in origin.keys if key.is_secret}
    of_image = {key.name for key in origin.keys if key.fixed} & _IMAGE_COMPLAINTS.keys()
    env = {key: value for key, value in mapping(filled.get(ENV)).items() if not isinstance(value, dict | list)}
    for key, value in env.items():
        text = "" if value is None else as_text(value)
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            yield Fault((ENV, key), "expected text, found an unpaired surrogate")
            continue
        if key not in secret and not re.fullmatch(envfile.VALUE, text):
            yield Fault((ENV, key), "expected one line without control characters")
        elif size > _VALUE_BYTES:
            yield Fault((ENV, key), f"expected at most {_VALUE_BYTES >> 10} KiB")
        elif key in mountpath.MOUNTED and text and (complaint := mountpath.complaint(text)):
            yield Fault((ENV, key), complaint)
        elif key in of_image and (complaint := _IMAGE_COMPLAINTS[key](text)):
            yield Fault((ENV, key), f"{complaint}, found {show(text)}")
    if len(json.dumps(env)) > _ALL_BYTES:
        yield Fault((ENV,), f"expected at most {_ALL_BYTES >> 10} KiB")


def split(
    origin: PackageOrigin, system: Mapping[str, Json], filled: Mapping[str, Json]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the values of mlops.env for a job, and its secrets.

    Args:
        origin: The package.
        system: The `system_values` of the definition, which have precedence.
        filled: The filled values, without faults.
    """
    given = {**mapping(filled.get(ENV)), **mapping(system.get(ENV))}
    texts = {key: as_text(value) for key, value in given.items() if value is not None}
    secret = {key.name for key in origin.keys if key.is_secret}
    values = {key.name: texts.get(key.name, key.default) for key in origin.keys if key.name not in secret}
    return values, {key: text for key, text in texts.items() if key in secret}


def remarks(origin: PackageOrigin, system: Mapping[str, Json]) -> Iterator[str]:
    """Yield warnings for the author of a definition, about values that may be unintended."""
    values, _ = split(origin, system, {})
    if values.get("REGISTRY") == "localhost":
        yield "REGISTRY is localhost: only nodes that have the image can run it; set env.REGISTRY in system_values"
    has_storage = any("output" in BY_NAME[name].places for name in origin.options if name in BY_NAME)
    if values.get("OUTPUT_DIR", "").startswith(f"{ROOT}/") and not has_storage:
        yield (
            f"OUTPUT_DIR is {values['OUTPUT_DIR']}, a folder in the pod: results are lost with it; "
            "switch on an option for them, such as output-pvc"
        )

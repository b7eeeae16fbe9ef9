"""Writes placement/placement.yaml, the values of the option `placement`, and reads it."""

from __future__ import annotations

import textwrap
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from packager.base import names, yamlio
from packager.base.errors import UsageError
from packager.kubernetes.manifest import at, mapping

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.base.yamlio import Location

_POD: Location = ("template", "spec")

FIELDS = {"NODE_SELECTOR": "nodeSelector", "TOLERATIONS": "tolerations"}
"""The keys by which the command line sets fields of the pod, and the fields."""

_EXAMPLES = {"NODE_SELECTOR": "pool=train,disk=ssd", "TOLERATIONS": "dedicated=train:NoSchedule,nvidia.com/gpu"}

_MOST = 100
"""The entries of one value; a site's file has the same limit."""


_BUILT = """\
# Values of the option `placement`, for every pod of a workload. Both fields are those of a pod. As built, they only
# repeat the defaults. Neither may be empty, or the option does not render.
apiVersion: v1
kind: PodTemplate
metadata:
  name: {package}-site
template:
  spec:
    # Labels that a node must have.
    nodeSelector:
{nodeSelector}    # Taints that the pods tolerate.
    tolerations:
{tolerations}"""

_DEFAULTS = {
    "nodeSelector": "      kubernetes.io/os: linux\n",
    "tolerations": """\
      - key: node.kubernetes.io/not-ready
        operator: Exists
        effect: NoExecute
        tolerationSeconds: 300
""",
}


def built(package: str, fields: Mapping[str, Any] = MappingProxyType({})) -> bytes:
    """Return the file as a build of `package` writes it with these fields of the pod, and the defaults of others."""
    texts = {key: textwrap.indent(yamlio.dump([value]), " " * 6) for key, value in fields.items()}
    return _BUILT.format(package=package, **{**_DEFAULTS, **texts}).encode()


def parse(label: str, key: str, value: str) -> dict[str, Any]:
    """Return a field of the pod by its value on the command line.

    Labels are written as in `kubectl label`, and taints as in `kubectl taint`, with ',' between them. A taint without a
    value is tolerated with any, and one without an effect with each.

    Raises:
        UsageError: The value has another form.
    """
    entries = value.split(",")
    read = [(_label if key == "NODE_SELECTOR" else _toleration)(entry) for entry in entries[: _MOST + 1]]
    fields = [entry for entry in read if entry is not None]
    if len(fields) != len(entries) or len(fields) > _MOST:
        noun = "labels" if key == "NODE_SELECTOR" else "taints"
        raise UsageError(f"{label}: expected {noun} such as {_EXAMPLES[key]} (at most {_MOST}), found {value[:200]!r}")
    if key == "TOLERATIONS":
        return {FIELDS[key]: fields}
    return {FIELDS[key]: {name: content for entry in fields for name, content in entry.items()}}


def _label(text: str) -> dict[str, str] | None:
    key, equals, value = text.partition("=")
    return {key: value} if equals and names.is_key(key) and names.is_label_value(value) else None


def _toleration(text: str) -> dict[str, str] | None:
    taint, colon, effect = text.partition(":")
    key, equals, value = taint.partition("=")
    is_effect = not colon or effect in ("NoSchedule", "PreferNoSchedule", "NoExecute")
    if not (names.is_key(key) and names.is_label_value(value) and is_effect):
        return None
    matching = {"operator": "Equal", "value": value} if equals else {"operator": "Exists"}
    return {"key": key, **matching, **({"effect": effect} if colon else {})}


def values(text: bytes, name: str) -> dict[str, Any]:
    """Return the fields of the pod in the file, by their names; none if it is not YAML. `name` is the file's."""
    pod = mapping(at(yamlio.load(text, name)[0].data, _POD))
    return {key: pod[key] for key in FIELDS.values() if key in pod}


def assign(text: bytes, package: str, fields: Mapping[str, Any], name: str) -> bytes:
    """Return the file of `package` with other values for fields of its pod. Raises UsageError if it is not as built."""
    present = values(text, name)
    if built(package, present) != text:
        raise UsageError(f"{name} cannot be edited automatically", hint=f"set {' and '.join(fields)} there")
    return built(package, {**present, **fields})

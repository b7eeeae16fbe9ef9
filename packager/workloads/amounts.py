"""Amounts: numbers that people change, each in a line of mlops.env. Tests: configure/test_amounts.py."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from packager.base import units
from packager.base.fields import text
from packager.base.problems import Fault
from packager.base.values import Value
from packager.kubernetes.containers import is_whole_gpu

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.base.fields import Resources
    from packager.base.yamlio import Location

WORKERS = ("WORKERS", "NODES", "REPLICAS", "PARALLELISM")
"""The keys that say how many pods work at the same time; an overlay has at most one of them, or the first counts."""


GPUS = "GPUS"
"""The key of the number of GPUs, where the spec has one."""

PER_GPU: Final = "per-gpu"
"""The value of a number of processes that is the number of GPUs, or 1 without GPUs."""

_KEYS = {"memory": "MEMORY", "cpu": "CPU"}
_ORDER = ("MEMORY", "MEMORY_LIMIT", "CPU", "CPU_LIMIT", GPUS)

_DESCRIPTIONS = {
    ("requests", "memory"): "The memory that is reserved for each pod{}.",
    ("limits", "memory"): "The most memory that each pod{} may use.",
    ("requests", "cpu"): "The CPUs that are reserved for each pod{}: 8, or 500m, which is half of one.",
    ("limits", "cpu"): "The most CPUs that each pod{} may use: 8, or 500m, which is half of one.",
}


class Amount(Value, frozen=True):
    """One number."""

    key: str  # the key in mlops.env
    value: str  # the value as built
    description: str  # the comment above it, and its description in the README
    fields: tuple[str, ...]  # the fields of the workload that take it, as fieldPaths of a kustomize replacement
    # the text of a field before the value, which is the rest; None if the value is all of the field
    delimiter: str | None = None
    selector: str | None = None  # the labels that the workload has to have; None for any
    may_be_per_gpu: bool = False  # whether the value may be `PER_GPU`; the fields then take the number of GPUs
    # the fields that take a number of GPUs too, if the number of processes is `PER_GPU`
    processes: tuple[str, ...] = ()


def deadline(seconds: int | None, *fields: str) -> Iterator[Amount]:
    """Yield the deadline, which the fields take; nothing without one."""
    if seconds is not None:
        yield Amount("DEADLINE", str(seconds), "The time in seconds after which it is stopped.", fields)


def quantities(
    resources: Resources,
    containers: Sequence[str],
    role: str = "",
    *,
    computes: bool = True,
    processes: tuple[str, ...] = (),
) -> Iterator[Amount]:
    """Yield the memory, the CPUs and the GPUs of containers; nothing that the spec does not set."""
    of_role = f" of the role {role}" if role else ""
    fields: dict[str, list[tuple[str, str]]] = {}
    if not containers:
        return
    for part, values in (("requests", resources.requests), ("limits", resources.limits)):
        for name in values:
            if key := quantity_key(resources, part, name):
                fields.setdefault(key, []).append((part, name))
    for key, places in sorted(fields.items(), key=lambda item: _ORDER.index(item[0])):
        part, name = places[0]
        escaped = name.replace(".", r"\.")
        paths = tuple(f"{container}.resources.{part}.{escaped}" for container in containers for part, _ in places)
        by_option = key == GPUS and computes
        if key == GPUS:
            description = f"The number of GPUs of each pod{of_role}{', if the option gpu is off' if by_option else ''}."
        else:
            description = _DESCRIPTIONS[part, name].format(of_role) + (" It gets no more." if len(places) > 1 else "")
        selector = "!mlpack/gpu" if by_option else None
        value = text(getattr(resources, part)[name])
        followers = processes if key == GPUS else ()
        yield Amount(f"{prefix(role)}{key}", value, description, paths, selector=selector, processes=followers)


def gpus(resources: Resources) -> int | None:
    """Return the number of GPUs that pods with these resources have; None without any, or if it is not a number."""
    values = [value for name, value in (*resources.limits.items(), *resources.requests.items()) if is_whole_gpu(name)]
    return int(text(values[0])) if values and text(values[0]).isdecimal() else None


def gpu_faults(resources: Resources, location: Location, key: str) -> Iterator[Fault]:
    """Yield a fault for a number of GPUs that cannot be the number of processes."""
    for part, values in (("requests", resources.requests), ("limits", resources.limits)):
        for name, value in values.items():
            if is_whole_gpu(name) and not re.fullmatch("[1-9][0-9]*", text(value)):
                message = f"expected a whole number from 1, found {text(value)!r}: each GPU gets a process"
                yield Fault((*location, part, name), message, f"write it as 1, 2, …, or set `{key}`")


def prefix(role: str) -> str:
    """Return the beginning of the keys of a role with resources of its own; an empty text for no role."""
    return f"{role.upper().replace('-', '_')}_" if role else ""


def quantity_key(resources: Resources, part: str, name: str) -> str:
    """Return the key of a quantity in mlops.env, without the prefix of a role; an empty text if it is not there.

    A request and an equal limit have one key.
    """
    if name in _KEYS:
        other = resources.requests.get(name) if part == "limits" else None
        value = resources.limits[name] if part == "limits" else None
        is_apart = other is not None and units.parse_quantity(text(other)) != units.parse_quantity(text(value or 0))
        return f"{_KEYS[name]}_LIMIT" if is_apart else _KEYS[name]
    gpus = [resource for resource in (*resources.limits, *resources.requests) if is_whole_gpu(resource)]
    return GPUS if name in gpus[:1] else ""

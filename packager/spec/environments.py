"""Checks the environment variables of a spec, its variants and its overlays."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from packager.base import envfile
from packager.base.faults import Fault
from packager.base.fields import Parameter, text
from packager.kubernetes import configmap, mountpath
from packager.kubernetes.environment import refusal_reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.fields import Environment
    from packager.base.yamlio import Location
    from packager.spec.model import Spec

RESERVED = {
    "MODEL_DIR": "set the start of the path with --root",
    "REGISTRY": "set it with `image.registry` or --registry",
}


def check(spec: Spec) -> Iterator[Fault]:
    """Yield every fault of the environments of `spec`."""
    holders = [
        ((), spec.environment),
        *((("variants", index), variant.environment) for index, variant in enumerate(spec.variants)),
        *((("overlays", name), overlay.environment) for name, overlay in spec.overlays.items()),
    ]
    for holder, environment in holders:
        yield from _environment(environment, (*holder, "environment"))
    yield from _reserved(spec)
    yield from _sizes(spec)


def _environment(environment: Environment, place: Location) -> Iterator[Fault]:
    for key, entry in environment.items():
        location = (*place, key)
        if key in RESERVED:
            yield Fault(location, f"{key} cannot be set in a spec", RESERVED[key], at_key=True)
        if reason := refusal_reason(key):
            yield Fault(location, f"{key} cannot be set in a package", reason, at_key=True)
        value = _value(entry)
        size = len(f"{key}={value}".encode())
        if size > envfile.LINE_BYTES:
            message = f"the value takes {size / 1024:.0f} KiB, but kustomize ignores a line of 64 KiB and all after it"
            yield Fault(location, message, "put it into a file")
        if key in ("DATASET_DIR", "OUTPUT_DIR"):
            complaint = mountpath.complaint(value)
            if complaint:
                yield Fault(location, complaint)


def _reserved(spec: Spec) -> Iterator[Fault]:
    """Names that the kind of an overlay keeps for itself: each place once, whatever number of overlays it reaches."""
    seen: set[Location] = set()
    for index, name in spec.pairs():
        environments = {
            (): spec.environment,
            ("variants", index): spec.variants[index].environment,
            ("overlays", name): spec.overlays[name].environment,
        }
        for holder, environment in environments.items():
            for key in environment:
                place: Location = (*holder, "environment", key)
                reason = spec.overlays[name].reserved(key)
                if reason and place not in seen:
                    seen.add(place)
                    needs = (place, ("overlays", name), ("variants", index, "overlays"))
                    message = f"{key} cannot be set for the overlay {name!r}"
                    yield Fault(place, message, reason, at_key=True, needs=needs)


def _sizes(spec: Spec) -> Iterator[Fault]:
    """Environments that are too large for the ConfigMap which mlops.env becomes."""
    for index, name in spec.pairs():
        together = {
            key: _value(entry).encode()
            for environment in spec.environments(spec.variants[index], name)
            for key, entry in environment.items()
        }
        size = configmap.size(together)
        if size > configmap.BYTES:
            holders: tuple[tuple[Location, Environment], ...] = (
                (("overlays", name), spec.overlays[name].environment),
                (("variants", index), spec.variants[index].environment),
            )
            holder = next((holder for holder, environment in holders if environment), ())
            limit = math.ceil(configmap.BYTES / 1024)
            message = f"the environment is {math.ceil(size / 1024)} KiB; a ConfigMap takes at most {limit} KiB"
            yield Fault((*holder, "environment"), message, "put large values into files", at_key=True)
            return


def _value(entry: Parameter | str | float) -> str:
    return text(entry.value if isinstance(entry, Parameter) else entry)

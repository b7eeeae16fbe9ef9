"""Checks the environment variables of a spec, its variants and its overlays. Tests: modelspec/test_messages.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base import envfile
from packager.base.fields import Parameter, text
from packager.base.problems import Fault
from packager.kubernetes.containers import MOUNTED, folder_complaint, refusal_reason
from packager.workloads.program import CHOICE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.fields import Environment
    from packager.base.yamlio import Location
    from packager.modelspec.model import Spec

RESERVED = {
    "MODEL_DIR": "set the start of the path with --root",
    "REGISTRY": "set it with `image.registry` or --registry",
    "IMAGE": "set it with `image`",
}


def check(spec: Spec) -> Iterator[Fault]:
    """Yield every fault of the environments of `spec`."""
    for holder, environment in _holders(spec):
        for key, entry in environment.items():
            yield from _variable(spec, (*holder, "environment", key), text(_value(entry)))
    yield from _of_overlays(spec)
    yield from _secrets(spec)


def warnings(spec: Spec) -> Iterator[Fault]:
    """Yield each variable whose name suggests a secret although the spec contains its value."""
    from packager.base.masking import is_secret  # noqa: PLC0415 - a build needs none of it

    for holder, environment in _holders(spec):
        for key, entry in environment.items():
            value = _value(entry)
            if isinstance(value, str) and value and is_secret(key):
                message = f"{key} seems to be secret, and anyone who has the package can read its value"
                yield Fault((*holder, "environment", key), message, "list it under `secrets`", at_key=True)


def _holders(spec: Spec) -> list[tuple[Location, Environment]]:
    """Return each environment of the spec, and the location of its holder."""
    return [
        ((), spec.environment),
        *((("variants", index), variant.environment) for index, variant in enumerate(spec.variants)),
        *((("overlays", name), overlay.environment) for name, overlay in spec.overlays.items()),
    ]


def _variable(spec: Spec, place: Location, value: str) -> Iterator[Fault]:
    key = str(place[-1])
    if reason := RESERVED.get(key) or refusal_reason(key):
        yield Fault(place, f"{key} cannot be set in a spec", reason, at_key=True)
    if key in spec.secrets:
        message = f"{key} is one of `secrets`, and a value here would be in the package"
        yield Fault(place, message, "remove it here", at_key=True)
    if (size := len(f"{key}={value}".encode())) > envfile.LINE_BYTES:
        message = f"the value takes {size / 1024:.0f} KiB, but kustomize ignores a line of 64 KiB and all after it"
        yield Fault(place, message, "put it into a file")
    if key in MOUNTED and (complaint := folder_complaint(value)):
        yield Fault(place, complaint)
    if key == "DATASET_DIR" and not spec.dataset:
        message = "DATASET_DIR is set, but `dataset` is false"
        yield Fault(place, message, "remove one of them", at_key=True, needs=(("dataset",),))


def _secrets(spec: Spec) -> Iterator[Fault]:
    """Names of secrets that are taken."""
    for key in spec.secrets:
        place = ("secrets", key)
        reason = refusal_reason(key) or RESERVED.get(key)
        if key in MOUNTED:
            reason = "it names a folder: list it under `environment`"
        if reason:
            yield Fault(place, f"{key} cannot be a secret", reason, at_key=True)


def _of_overlays(spec: Spec) -> Iterator[Fault]:
    """Names that the kind of an overlay keeps for itself, each place once; a folder that only some overlays have."""
    for index, name, overlay, run in spec.runs():
        variant = spec.variants[index]
        environments = {
            (): spec.environment,
            ("variants", index): variant.environment,
            ("overlays", name): overlay.environment,
        }
        places = [(*holder, "environment", key) for holder, values in environments.items() for key in values]
        for place in [*places, *(("secrets", key) for key in spec.secrets)]:
            key = str(place[-1])
            reason = overlay.refused(key, run)
            if key == CHOICE and run.is_choice:
                reason = "it says which of the `scripts` runs; as built, the first of them"
            if reason:
                message = f"{key} cannot be set for the overlay {name!r}"
                needs = (("overlays", name), ("variants", index))
                yield Fault(place, message, reason, at_key=True, needs=needs)
        above = {**spec.environment, **variant.environment}
        if "CHECKPOINT_DIR" in overlay.environment and "CHECKPOINT_DIR" not in above:
            message = "CHECKPOINT_DIR is set for an overlay, but not for the whole package"
            hint = "set it in the spec's or in the variant's environment"
            place = ("overlays", name, "environment", "CHECKPOINT_DIR")
            yield Fault(place, message, hint, at_key=True, needs=(("environment",), ("variants", index)))


def _value(entry: Parameter | str | float) -> str | float:
    return entry.value if isinstance(entry, Parameter) else entry

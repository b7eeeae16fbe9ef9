"""Checks the order in which the overlays of a spec run. Tests: modelspec/test_lint.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.faults import Fault
from packager.base.problems import similar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.modelspec.model import Spec


def check(spec: Spec) -> Iterator[Fault]:
    """Yield the problems of the sequence of `spec`, except duplicates."""
    for index, name in enumerate(spec.sequence):
        if name not in spec.overlays:
            hint = similar(name, list(spec.overlays)) or f"the overlays are: {', '.join(spec.overlays)}"
            yield Fault(("sequence", index), f"overlay {name!r} not found", hint, among=("overlays",))


def warnings(spec: Spec) -> Iterator[Fault]:
    """Yield the overlays before the last that serve, and so do not end before the next one starts."""
    for index, name in enumerate(spec.sequence[:-1]):
        if spec.overlays[name].serves:
            following = spec.sequence[index + 1]
            message = f"{name!r} does not end: {following!r} starts when it serves, and runs beside it"
            hint = "put it at the end, unless those after it need it"
            yield Fault(("sequence", index), message, hint)

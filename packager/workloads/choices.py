"""Checks values in manifests against the few that a controller accepts. Tests: workloads/jobset/test_structure.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.faults import Fault
from packager.base.problems import show, similar
from packager.kubernetes.manifest import at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest


def invalid_choices(manifest: Manifest, choices: Mapping[Location, tuple[str, ...]]) -> Iterator[Fault]:
    """Yield a fault for each value that is none of the choices for its location; a missing one is valid."""
    for location, accepted in choices.items():
        value = at(manifest.data, location)
        if value is not None and value not in accepted:
            expected = f"{', '.join(accepted[:-1])} or {accepted[-1]}"
            yield Fault(location, f"expected {expected}, found {show(value)}", similar(str(value), accepted))

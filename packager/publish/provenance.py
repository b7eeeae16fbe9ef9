"""Makes the predicate of a provenance: how a package was built (SLSA v1).

slsa.dev/spec/v1.0/provenance. Builds are reproducible, so a provenance can be proven: `mlpack verify --rebuild` builds
the package again. Tests: cli/test_push_statements.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.package import layout

if TYPE_CHECKING:
    from collections.abc import Mapping

_BUILD = "mlpack:build/v1"
"""The meaning of the parameters, which are those in the package's inventory; another meaning needs another value."""


_SOURCES = ("Dockerfile", layout.SPEC)
_PROGRAMS = f"{layout.SCRIPTS}/"
_GENERATED = f"/{layout.KUSTOMIZATION}"
_MOST_SOURCES = 1_000


def predicate(inventory: Mapping[str, Any]) -> dict[str, Any]:
    """Return the predicate for a package with this inventory."""
    sources = [
        {"name": path, "digest": {"sha256": sealed["sha256"]}}
        for path, sealed in inventory["files"].items()
        if path in _SOURCES or (path.startswith(_PROGRAMS) and not path.endswith(_GENERATED))
    ]
    return {
        "buildDefinition": {
            "buildType": _BUILD,
            "externalParameters": dict(inventory.get("spec", {})),
            "internalParameters": {},
            "resolvedDependencies": sources[:_MOST_SOURCES],
        },
        "runDetails": {"builder": {"id": _BUILD, "version": dict(inventory.get("tool", {}))}},
    }

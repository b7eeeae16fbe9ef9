"""Makes and reads the predicate of a stamp: a statement about what was verified of a package.

in-toto/attestation, spec/predicates/svr.md; the key `mlpack` is ours. Tests: cli/test_stamp.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from packager.base.values import Value
from packager.kubernetes.podsecurity import Level
from packager.publish.bundle import STAMP, BundleError
from packager.publish.reference import is_digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.publish.bundle import Statement

_VERIFIER = "mlpack:verify/v1"
"""The meaning of the properties; another meaning needs another value."""

_VERSION = re.compile(r"1\.[0-9]{1,3}(\.[0-9]{1,4})?")
_PROPERTY = re.compile(r"[A-Z][A-Z0-9_]{0,99}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z")
_MOST = 1_000


class OverlayStamp(Value, frozen=True):
    """The facts about one overlay: the digest of its render, its Pod Security level, its images."""

    render: str
    level: str | None
    images: tuple[str, ...]


class Stamp(Value, frozen=True):
    """The facts that were proven about a package.

    Attributes:
        created: The time as RFC 3339.
        kubectls: The versions of kubectl that render the same.
        kubernetes: The versions of Kubernetes whose schemas the manifests were checked against.
        overlays: The facts about each overlay.
        properties: The facts as names, each of which holds for all overlays.
    """

    created: str
    kubectls: tuple[str, ...]
    kubernetes: tuple[str, ...]
    overlays: Mapping[str, OverlayStamp]
    properties: tuple[str, ...] = ()

    def named(self) -> tuple[str, ...]:
        """Return the names of the facts."""
        names = ["MLPACK_FILES_SEALED"]
        names += ["MLPACK_RENDERS_ALIKE"] if len(self.kubectls) > 1 else []
        names += [f"MLPACK_RENDERS_KUBECTL_{_minor(version)}" for version in self.kubectls]
        names += [f"MLPACK_SCHEMA_KUBERNETES_{_minor(version)}" for version in self.kubernetes]
        levels = {overlay.level for overlay in self.overlays.values()}
        if levels == {Level.restricted}:
            names.append("MLPACK_POD_SECURITY_RESTRICTED")
        if levels and levels <= {Level.restricted, Level.baseline}:
            names.append("MLPACK_POD_SECURITY_BASELINE")
        if all("@sha256:" in image for overlay in self.overlays.values() for image in overlay.images):
            names.append("MLPACK_IMAGES_LOCKED")
        return tuple(dict.fromkeys(names))


def predicate(stamp: Stamp, package: str, tool: str) -> dict[str, Any]:
    """Return the predicate of a statement."""
    return {
        "verifier": {"id": _VERIFIER, "policies": []},
        "timeCreated": stamp.created,
        "properties": list(stamp.named()),
        "mlpack": {
            "version": 1,
            "tool": tool,
            "package": package,
            "overlays": {
                name: {
                    "podSecurity": overlay.level,
                    "images": list(overlay.images),
                    "renders": [{"sha256": overlay.render.removeprefix("sha256:"), "kubectl": list(stamp.kubectls)}],
                }
                for name, overlay in sorted(stamp.overlays.items())
            },
            "schemas": list(stamp.kubernetes),
            "unchecked": [],
        },
    }


def read(statement: Statement) -> Stamp:
    """Return the stamp in a statement from others. Raises BundleError."""
    if statement.predicate_type != STAMP:
        raise BundleError(f"expected a statement of the type {STAMP}, found {statement.predicate_type}")
    value = statement.predicate
    verifier, ours, created = value.get("verifier"), value.get("mlpack"), value.get("timeCreated")
    if not isinstance(verifier, dict) or verifier.get("id") != _VERIFIER or not isinstance(ours, dict):
        raise BundleError(f"expected a stamp of the verifier {_VERIFIER}")
    if ours.get("version") != 1 or not isinstance(created, str) or not _TIME.fullmatch(created):
        raise BundleError("expected a stamp of version 1 with a time")
    overlays: dict[str, OverlayStamp] = {}
    kubectls: list[str] = []
    entries = ours.get("overlays")
    for name, entry in entries.items() if isinstance(entries, dict) else ():
        renders = entry.get("renders") if isinstance(entry, dict) else None
        if not isinstance(renders, list) or len(renders) != 1 or not isinstance(renders[0], dict):
            raise BundleError("expected one render of each overlay")
        digest = f"sha256:{renders[0].get('sha256')}"
        if not is_digest(digest):
            raise BundleError("expected the digest of a render")
        kubectls += _texts(renders[0].get("kubectl"), _VERSION)
        level = entry.get("podSecurity")
        overlays[name] = OverlayStamp(digest, level if isinstance(level, str) else None, ())
    properties = _texts(value.get("properties"), _PROPERTY)
    schemas = _texts(ours.get("schemas"), _VERSION)
    return Stamp(created, tuple(dict.fromkeys(kubectls)), tuple(schemas), overlays, tuple(properties))


def is_version(text: str) -> bool:
    """Whether a text is a version of kubectl or of Kubernetes."""
    return _VERSION.fullmatch(text) is not None


def is_property(text: str) -> bool:
    """Whether a text can be the name of a property."""
    return _PROPERTY.fullmatch(text) is not None


def minor(version: str) -> str:
    """Return 1.N of a version such as 1.36.2."""
    return ".".join(version.split(".")[:2])


def _minor(version: str) -> str:
    return minor(version).replace(".", "_")


def _texts(values: Any, form: re.Pattern[str]) -> list[str]:
    if not isinstance(values, list) or len(values) > _MOST:
        raise BundleError("expected a list in a stamp")
    if not all(isinstance(text, str) and form.fullmatch(text) for text in values):
        raise BundleError("a stamp has a value that is not accepted")
    return values

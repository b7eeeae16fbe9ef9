"""Reads environment variables, secrets and claims from the spec that a package contains, and its build command.

The values are used exactly as written, with quotes and spaces: in YAML, a quote in a value is intended.

Tests: verify/test_verify.py.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from packager.base import envfile, yamlio
from packager.base.values import Value
from packager.kubernetes.manifest import listing, mapping
from packager.package.layout import SPEC

if TYPE_CHECKING:
    from packager.package.opened import Package


class Declared(Value, frozen=True):
    """The declarations of a package in its spec."""

    name: str = ""  # the name of the model
    environment: frozenset[tuple[str, str]] = frozenset()  # each key with each value that the spec gives it
    secrets: frozenset[str] = frozenset()  # the names of its secrets
    claims: frozenset[str] = frozenset()  # the names of the claims that its overlays mount


def read(package: Package) -> Declared:
    """Return everything."""
    return Declared(package.name, values(package), frozenset(secrets(package)), _claims(package))


def values(package: Package) -> frozenset[tuple[str, str]]:
    """Return the values of each key; nothing if the package's spec is not YAML."""
    spec, found = _spec(package), set()
    for part in (spec, *listing(spec.get("variants")), *mapping(spec.get("overlays")).values()):
        for key, entry in mapping(mapping(part).get("environment")).items():
            value = entry.get("value") if isinstance(entry, dict) else entry
            if isinstance(value, str):
                found.add((key, value))
    for path, value in _settings(package):
        *above, last = path.split(".")
        if "environment" in above:
            found.add((above[-1] if last == "value" else last, value))
    return frozenset(found)


def secrets(package: Package) -> dict[str, str]:
    """Return the names of the package's secrets with their descriptions, without invalid ones."""
    steps = [path.split(".") for path, _ in _settings(package)]
    entries: dict[str, Any] = {part[1]: {} for part in steps if part[0] == "secrets" and 2 <= len(part) <= 3}
    entries |= mapping(_spec(package).get("secrets"))
    names = [name for name in entries if re.fullmatch(envfile.NAME, str(name)) and len(str(name)) <= 100]
    return {str(name): _line(mapping(entries[name]).get("description")) for name in names}


def title(package: Package) -> str:
    """Return the title of the package's model on one line; empty if its spec has none."""
    return _line(_spec(package).get("title"))


def _claims(package: Package) -> frozenset[str]:
    """Return the names of the claims that the package's overlays mount, and of the one that its workspace is."""
    spec = _spec(package)
    overlays = mapping(spec.get("overlays")).values()
    mounts = [mount for overlay in overlays for mount in listing(mapping(overlay).get("claims"))]
    names = [spec.get("workspace"), *(mapping(mount).get("claim") for mount in mounts)]
    names += [value for path, value in _settings(package) if path == "workspace" or path.endswith(".claim")]
    return frozenset(str(name) for name in names if name)


def _line(text: object) -> str:
    return " ".join(text.split())[:200] if isinstance(text, str) else ""


def _spec(package: Package) -> dict[str, Any]:
    """Return the package's spec; nothing if it is not YAML."""
    path = package.folder / SPEC
    if path.is_symlink() or not path.is_file():
        return {}
    return _parsed(package.reader.read(SPEC, yamlio.MAX_BYTES), package.shown(SPEC))


@lru_cache(maxsize=1)
def _parsed(text: bytes, name: str) -> dict[str, Any]:
    """Return the mapping in a text; cached, as each overlay of a package asks for several parts of its spec."""
    return mapping(yamlio.load(text, name)[0].data)


def _settings(package: Package) -> list[tuple[str, str]]:
    """Return path and value of each `--set` and `--add` with which the package was built."""
    about = package.inventory.get("spec", {})
    parts = [text.partition("=") for option in ("set", "add") for text in about.get(option, ())]
    return [(path, value) for path, _, value in parts]

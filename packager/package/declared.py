"""Reads environment variables, secrets and the build command from the spec that a package contains.

The values are used exactly as written, with quotes and spaces: in YAML, a quote in a value is intended.

Tests: verify/test_verify.py.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from packager.base import envfile, yamlio
from packager.base.values import Value
from packager.package.layout import SPEC

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.package.opened import Package


class Declared(Value, frozen=True):
    """The declarations of a package in its spec."""

    name: str = ""  # the name of the model
    environment: frozenset[tuple[str, str]] = frozenset()  # each key with each value that the spec gives it
    secrets: frozenset[str] = frozenset()  # the names of its secrets
    claims: frozenset[str] = frozenset()  # the names of the claims that its overlays mount


_ENVIRONMENT = "environment"
_SECRETS = "secrets"
_MAX_SECRETS = 100
"""More than any model needs: each is a question to the user."""

_MAX_SETTINGS = 1_000
"""How many `--set` and `--add` count: more than any build is given."""


def read(package: Package) -> Declared:
    """Return everything.

    Raises:
        ToolError: The spec cannot be read.
    """
    return Declared(package.name, values(package), frozenset(secrets(package)), claims(package))


def values(package: Package) -> frozenset[tuple[str, str]]:
    """Return the values of each key; nothing if the package's spec is not YAML."""
    return frozenset((*_of_spec(package), *_of_settings(package)))


def secrets(package: Package) -> dict[str, str]:
    """Return the names of the package's secrets with their descriptions, without invalid ones."""
    declared = _spec(package, _SECRETS).get(_SECRETS)
    in_spec = declared if isinstance(declared, dict) else {}
    by_setting: dict[str, Any] = {
        path.split(".")[1]: {}
        for path, _ in _settings(package)
        if path.startswith(f"{_SECRETS}.") and path.count(".") <= 2
    }
    entries = {**by_setting, **in_spec}
    names = [name for name in entries if re.fullmatch(envfile.NAME, str(name)) and len(str(name)) <= 100]
    return {str(name): _description(entries[name]) for name in names[:_MAX_SECRETS]}


def title(package: Package) -> str:
    """Return the title of the package's model on one line; empty if its spec has none."""
    text = _spec(package, "title").get("title")
    return " ".join(text.split())[:200] if isinstance(text, str) else ""


def claims(package: Package) -> frozenset[str]:
    """Return the names of the claims that the package's overlays mount, and of the one that its workspace is."""
    spec = _spec(package)
    overlays = spec.get("overlays")
    mounts = [
        mount
        for overlay in (overlays.values() if isinstance(overlays, dict) else ())
        if isinstance(overlay, dict) and isinstance(overlay.get("claims"), list)
        for mount in overlay["claims"]
    ]
    names = [mount.get("claim") for mount in mounts if isinstance(mount, dict)]
    by_setting = [value for path, value in _settings(package) if path == "workspace" or path.endswith(".claim")]
    return frozenset(str(name) for name in (spec.get("workspace"), *names, *by_setting) if name)


def _description(entry: Any) -> str:
    description = entry.get("description") if isinstance(entry, dict) else None
    return " ".join(description.split())[:200] if isinstance(description, str) else ""


def _spec(package: Package, word: str = "") -> dict[str, Any]:
    """Return the package's spec; nothing if it is not YAML, or does not contain `word`."""
    path = package.folder / SPEC
    if path.is_symlink() or not path.is_file():
        return {}
    text = package.reader.read(SPEC, yamlio.MAX_BYTES)
    return _parsed(text, package.shown(SPEC)) if word.encode() in text else {}


@lru_cache(maxsize=1)
def _parsed(text: bytes, name: str) -> dict[str, Any]:
    """Return the mapping in a text; cached, as each overlay of a package asks for several parts of its spec."""
    document, _ = yamlio.load(text, name)
    return document.data if isinstance(document.data, dict) else {}


def _of_spec(package: Package) -> Iterator[tuple[str, str]]:
    spec = _spec(package)
    variants = spec.get("variants")
    overlays = spec.get("overlays")
    parts = [
        *(variants if isinstance(variants, list) else ()),
        *(overlays.values() if isinstance(overlays, dict) else ()),
    ]
    for holder in (spec, *parts):
        environment = holder.get(_ENVIRONMENT) if isinstance(holder, dict) else None
        for key, entry in environment.items() if isinstance(environment, dict) else ():
            value = entry.get("value") if isinstance(entry, dict) else entry
            if isinstance(value, str):
                yield key, value


def _of_settings(package: Package) -> Iterator[tuple[str, str]]:
    """Yield the keys and values of `--set environment.KEY=VALUE` in the build of the package."""
    for path, value in _settings(package):
        steps = path.split(".")
        if _ENVIRONMENT in steps[:-1]:
            yield steps[-1] if steps[-1] != "value" else steps[-2], value


def _settings(package: Package) -> Iterator[tuple[str, str]]:
    """Yield path and value of each `--set` and `--add` with which the package was built."""
    about: Any = package.inventory.get("spec")
    for option in ("set", "add"):
        settings = about.get(option) if isinstance(about, dict) else None
        for setting in settings[:_MAX_SETTINGS] if isinstance(settings, list) else ():
            path, _, value = str(setting).partition("=")
            yield path, value

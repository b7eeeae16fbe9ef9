"""What a package's own files say now: its mlops.env, its patches, the options that its overlays list."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager import edits, envfile, yamlio
from packager.components import KEYS, SITE, faults
from packager.errors import UsageError, unreadable
from packager.package import OVERLAYS
from packager.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.package import Package

UNSET_ROOT = "ROOT"
"""What stands in mlops.env as delivered, for the folder that the package lies in."""


class Files:
    """A package's files, with what has been changed of them so far."""

    def __init__(self, package: Package) -> None:
        self.package = package
        self._changed: dict[str, bytes] = {}

    def read(self, path: str) -> bytes:
        """Return the content of a file, by its path below the package's root. Raises ToolError."""
        if path in self._changed:
            return self._changed[path]
        try:
            return (self.package.folder / path).read_bytes()
        except OSError as error:
            raise unreadable(self.package.shown(path), error) from None

    def write(self, path: str, content: bytes) -> None:
        """Change a file; nothing is written to disk."""
        self._changed[path] = content

    def assign(self, path: str, key: str, value: str) -> None:
        """Set a key of an env file."""
        self.write(path, edits.assign(self.read(path), key, value, self.package.shown(path)))

    def changed(self) -> dict[str, bytes]:
        """Return the new content of every file that differs from what is on disk."""
        before = Files(self.package)
        return {path: new for path, new in self._changed.items() if new != before.read(path)}


def env(overlay: str) -> str:
    """Return the path of an overlay's mlops.env."""
    return f"{OVERLAYS}/{overlay}/mlops.env"


def kustomization(overlay: str) -> str:
    """Return the path of an overlay's kustomization."""
    return f"{OVERLAYS}/{overlay}/kustomization.yaml"


def site_files(package: Package) -> list[str]:
    """Return the paths of the env files that options read."""
    found = package.folder.glob("quickstart/common/*/k8s/mlops/*/*.env")
    return sorted(path.relative_to(package.folder).as_posix() for path in found if path.is_file())


def patches(files: Files, overlay: str) -> list[str]:
    """Return the paths of the patches that lie in the overlay's folder.

    Raises:
        UsageError: Its kustomization is no YAML.
        ToolError: It cannot be read.
    """
    shown = files.package.shown(kustomization(overlay))
    document, problems = yamlio.load(files.read(kustomization(overlay)), shown)
    if problems:
        raise UsageError(f"{shown} is not YAML", problems=problems)
    entries = document.data.get("patches") if isinstance(document.data, dict) else None
    names = [entry.get("path") for entry in entries or () if isinstance(entry, dict)]
    plain = [name for name in names if isinstance(name, str) and re.fullmatch(r"[^/]+", name)]
    return [f"{OVERLAYS}/{overlay}/{name}" for name in plain]


def value(files: Files, overlay: str, key: str) -> str | None:
    """Return the value of `key` in the overlay's mlops.env; None when it has none."""
    return next((line.value for line in envfile.lines(files.read(env(overlay))) if line.key == key), None)


def root(files: Files, overlay: str) -> str | None:
    """Return the folder that the overlay takes the package to lie in; None when nobody has said so."""
    said = value(files, overlay, "MODEL_DIR") or ""
    above = said.removesuffix(f"/{files.package.name}")
    return above if above not in (said, UNSET_ROOT) else None


def ids(files: Files, overlay: str) -> dict[str, object]:
    """Return runAsUser, runAsGroup and fsGroup as the overlay's patches set them."""
    found: dict[str, object] = {}
    for path in patches(files, overlay):
        found = edits.ids(files.read(path), files.package.shown(path)) | found
    return found


def options(files: Files, overlay: str) -> dict[str, bool]:
    """Return the site options that the overlay lists or offers, and whether each is on."""
    return {component.name: component.on for component in edits.components(files.read(kustomization(overlay)))}


def unset(files: Files, overlays: Sequence[str]) -> Iterator[Problem]:
    """Yield what the user has not said yet."""
    for overlay in overlays:
        for line in envfile.lines(files.read(env(overlay))):
            place = (files.package.shown(env(overlay)), line.number, 1)
            if line.value == UNSET_ROOT or line.value.startswith(f"{UNSET_ROOT}/"):
                message = f"{line.key}={line.value} is as delivered: a folder inside the pod, which goes with it"
                yield Problem(*place, message, "--root PATH")
            elif line.key == "REGISTRY" and line.value == "localhost":
                message = "REGISTRY=localhost is as delivered: only nodes that have the image can run it"
                yield Problem(*place, message, "--registry HOST")
        for _, problem in lacking(files, overlay):
            yield problem


def lacking(files: Files, overlay: str) -> Iterator[tuple[str, Problem]]:
    """Yield the options of the overlay that are on and would not work, and why."""
    places: dict[str, tuple[str, int]] = {}
    values: dict[str, dict[str, str]] = {}
    for path in (env(overlay), *site_files(files.package)):
        lines = list(envfile.lines(files.read(path)))
        values[path] = {line.key: line.value for line in lines}
        places |= {line.key: (path, line.number) for line in lines}
    site = next((path for path in values if path.endswith(f"/{SITE}/{SITE}.env")), env(overlay))
    on = [name for name, is_on in options(files, overlay).items() if is_on]
    for fault in faults(on, values[site], values[env(overlay)]):
        path, line = places.get(fault.key) or (site, (edits.offered(files.read(site), fault.key) or 0) + 1)
        hint = f"--set {fault.key}=VALUE" if fault.key in KEYS else "--root PATH"
        yield fault.option, Problem(files.package.shown(path), line, 1, fault.message, hint)

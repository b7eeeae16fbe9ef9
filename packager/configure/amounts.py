"""Sets amounts: the numbers in mlops.env that manifests take from there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base import envfile
from packager.base.errors import UsageError
from packager.package import layout
from packager.package.layout import env
from packager.rendering import kustomization
from packager.rendering.origins import Replaced
from packager.workloads.amounts import WORKERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.base.problems import Problem
    from packager.configure.settings import Files

OPTIONS = {"--workers": WORKERS}
"""The options of the command line, and the keys of mlops.env that each may set: of these, the first that there is."""


def assign(files: Files, overlays: Sequence[str], amounts: Sequence[tuple[str, str]]) -> None:
    """Set amounts in the mlops.env of each overlay that has them.

    Args:
        files: The files.
        overlays: The names of the overlays.
        amounts: The options of the command line, with the values.

    Raises:
        UsageError: No overlay has an amount for an option.
    """
    taken = {overlay: _taken(files, overlay) for overlay in overlays} if amounts else {}
    for option, value in amounts:
        keys = OPTIONS[option]
        chosen = {overlay: key for overlay in overlays for key in reversed(keys) if key in taken[overlay]}
        if not chosen:
            others = sorted({key for overlay in overlays for key in _numbers(files, overlay)})
            message = f"{option}: mlops.env of {', '.join(overlays)} has no {', '.join(keys[:-1])} or {keys[-1]}"
            raise UsageError(message, hint=f"--set changes {', '.join(others)}" if others else None)
        for overlay, key in chosen.items():
            files.assign(env(overlay), key, value)


def refused(files: Files, overlay: str) -> Iterator[Problem]:
    """Yield the problems for which kustomize would refuse an overlay since the changes."""
    folder = layout.overlay(overlay)
    before = kustomization.read(files.package, folder).refused
    yield from (item for item in kustomization.read(files.edited_package(), folder).refused if item not in before)


def _taken(files: Files, overlay: str) -> set[str]:
    """Return the keys of mlops.env from which the manifest takes values."""
    sources = kustomization.read(files.edited_package(), layout.overlay(overlay))
    path = env(overlay)
    places = {
        (origin.position.file, origin.position.line) for origin in sources.origins if isinstance(origin, Replaced)
    }
    return {line.key for line in envfile.lines(files.read(path)) if (files.package.shown(path), line.number) in places}


def _numbers(files: Files, overlay: str) -> set[str]:
    """Return the keys of mlops.env from which the manifest takes whole numbers."""
    return kustomization.read(files.edited_package(), layout.overlay(overlay)).numbers

"""Builds a package again from its spec, and compares the digests: builds are reproducible, so they must be the same.

The options are those that the package's inventory, its `site.env` and its `placement.yaml` record.

Tests: builder/test_rebuild.py.
"""

from __future__ import annotations

import fnmatch
import json
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import packager
from packager.base import envfile, workfolder
from packager.base.errors import RenderError, SpecError, UsageError
from packager.base.problems import Problem
from packager.base.values import replace
from packager.builder.downloads import with_downloads
from packager.builder.plan import Options, check_options, choose, plan
from packager.builder.render import render
from packager.builder.selection import select
from packager.modelspec import catalog
from packager.modelspec.load import load
from packager.modelspec.settings import parse_setting
from packager.package import layout, placement, tree
from packager.package.opened import opened
from packager.package.options import BY_NAME, KEYS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from packager.base.limits import Limits
    from packager.base.runner import Progress, Tell
    from packager.package.opened import Package
    from packager.package.tree import Entry

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class RebuildRequest:
    """The spec that a package is built from again."""

    spec: str  # a model's name or alias, or the path of its spec
    folders: tuple[Path, ...]  # the folders in which models are looked up by name
    cache: Path  # the folder of mlpack's caches, for the downloads of the spec
    tell: Tell  # receives messages about them
    progress: Progress  # shows their progress


def rebuild(path: Path, request: RebuildRequest, limits: Limits) -> tuple[tuple[Problem, ...], tuple[str, ...]]:
    """Build a package again, and compare it with the package at `path` as it was delivered.

    Returns the problems, and a sentence if it is the same package.
    """
    spec = catalog.find(request.spec, request.folders)
    with opened(path, limits=limits) as package:
        try:
            again = _build(package, spec, request)
        except (UsageError, SpecError, RenderError) as error:
            message = f"it cannot be built again from {spec}: {error}"
            details = tuple(error.problems[:_SHOWN])
            return (Problem(package.shown(layout.INVENTORY), 0, 0, message, error.hint), *details), ()
        digest = tree.digest(again)
        if digest == package.digest:
            return (), (f"built again from {spec}: the same digest {digest}",)
        assert isinstance(again.content, bytes)
        problems = list(_differences(package, json.loads(again.content), str(spec)))
        message = f"built again from {spec}, it has another digest: expected {package.digest}, found {digest}"
        place = package.shown(layout.INVENTORY)
        return (Problem(place, 0, 0, message, _hint(package)), *problems[:_SHOWN]), ()


def _build(package: Package, spec: Path, request: RebuildRequest) -> Entry:
    """Return the inventory of the package that the spec makes with the recorded options.

    The spec is the user's, and the recorded options are a stranger's: what is fetched is in the spec alone.
    """
    about = package.inventory.get("spec", {})
    additions = [parse_setting(text, adds=True) for text in about.get("add", ())]
    settings = [*additions, *(parse_setting(text) for text in about.get("set", ()))]
    loaded = load(spec, settings, may_mount=True)
    if loaded.spec.downloads:
        if own := [setting for setting in settings if setting.location[0] == "downloads"]:
            raise UsageError(f"the package changes a download of the spec: --set {own[0].argument}")
        loaded = with_downloads(
            loaded, settings, request.cache, record=False, tell=request.tell, progress=request.progress
        )
    names = about.get("with", ())
    if foreign := [name for name in names if name not in BY_NAME]:
        raise UsageError(f"the site's own component {foreign[0]} is not in the spec")
    site = select(names, tuple(_site_values(package.inventory)))
    site = replace(site, placement=MappingProxyType(_placement(package.inventory)))
    options = Options(root=about.get("root"), registry=about.get("registry"), site=site)
    check_options(options)
    planned = plan(loaded, choose(loaded.spec, about.get("precision"), about.get("mode")), options)
    with workfolder.temporary() as work:
        folder = work / "again"
        folder.mkdir()
        return tree.write(render(planned), folder)


def _site_values(inventory: Mapping[str, Any]) -> Iterator[str]:
    """Yield the values of the site's options, KEY=VALUE each, as the package was delivered with them."""
    pattern = layout.site_env(layout.COMMON)
    for path, lines in inventory["editable"].items():
        if fnmatch.fnmatchcase(path, pattern):
            for line in envfile.lines("\n".join(lines).encode()):
                if line.key in KEYS:
                    yield f"{line.key}={line.value}"


def _placement(inventory: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `placement/placement.yaml`, as the package was delivered with them."""
    pattern = layout.placement(layout.COMMON)
    for path, lines in inventory["editable"].items():
        if fnmatch.fnmatchcase(path, pattern):
            return placement.values("\n".join(lines).encode(), path)
    return {}


def _differences(package: Package, again: Mapping[str, Any], spec: str) -> Iterator[Problem]:
    """Yield a problem for each file that differs."""
    sealed, built = package.inventory["files"], again["files"]
    for path in sorted(sealed.keys() | built.keys()):
        if path not in built:
            yield Problem(package.shown(path), 0, 0, f"{spec} does not make this file")
        elif path not in sealed:
            yield Problem(package.shown(path), 0, 0, f"{spec} makes this file, which the package lacks")
        elif sealed[path] != built[path]:
            yield Problem(package.shown(path), 0, 0, f"{spec} makes another file")


def _hint(package: Package) -> str | None:
    """Return the reason that most likely makes the difference."""
    version = package.inventory.get("tool", {}).get("version")
    if version == packager.__version__:
        return None
    return f"the package was built by mlpack {version}, and this is {packager.__version__}: use that version"

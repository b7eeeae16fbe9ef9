"""Returns the package that `mlpack run` runs: an existing one, or one that it builds from an MLCube or a spec.

A built package is kept in the cache under the path of its source, for `mlpack logs` and the other commands; the next
run replaces it.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packager.base import paths, values, workfolder
from packager.base.errors import MlpackError, ToolError, UsageError, reason, show_paths
from packager.cluster.sequence import Runnable
from packager.package.layout import INVENTORY, SPEC
from packager.package.opened import not_found

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from packager.base.process import Progress, Tell
    from packager.builder.build import BuildRequest
    from packager.modelspec.importing import Imported
    from packager.site.read import SiteSettings

_CUBE = "mlcube.yaml"
_FOLDER = "runs"


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The target of a run, and the options for it."""

    path: Path  # A package, an MLCube or a model: a folder, or a file
    build: BuildRequest  # options for a build, whose model is the path
    # returns the defaults of the site; it is called only for a build
    find_site: Callable[[], SiteSettings | None] = lambda: None


def runnable(request: RunRequest, *, tell: Tell, progress: Progress) -> Runnable:
    """Return the package to run; if the path is an MLCube or a spec, build the package first."""
    path = request.path
    if not paths.exists(path):
        raise not_found(path)
    if _is_cube(path):
        return _of_cube(request, tell, progress)
    if spec := spec_of(path):
        return Runnable(path, _built(request, spec, tell, progress))
    if flags := request.build.flags:
        message = f"{', '.join(flags)}: {path} is a package, which is built already"
        raise UsageError(message, hint=f"mlpack configure {paths.argument(path)} {flags[0]} … changes it")
    return Runnable(path, path)


def package_of(request: RunRequest, *, progress: Progress) -> Runnable:
    """Return a package; for a cube or a model, the package of its last run if it is unchanged, else a new one."""
    path = request.path
    is_cube = _is_cube(path)
    source = (path / _CUBE if paths.is_folder(path) else path) if is_cube else spec_of(path)
    if source is None:
        return Runnable(path, path)
    packages = list(_cached(request).glob("*.tar.gz"))
    with suppress(OSError):
        if len(packages) == 1 and packages[0].stat().st_mtime_ns > source.stat().st_mtime_ns:
            if not is_cube:
                return Runnable(path, packages[0])
            with workfolder.temporary() as work:
                namespace = _imported(path, work).namespace
            return Runnable(path, packages[0], is_cube=True, namespace=namespace)
    return runnable(request, tell=lambda _text: None, progress=progress)


def _of_cube(request: RunRequest, tell: Tell, progress: Progress) -> Runnable:
    build, path = request.build, request.path
    with workfolder.temporary() as work:
        imported = _imported(path, work)
        for finding in imported.findings:
            tell(str(finding))
        # The user's values take precedence.
        keys_of_user = {entry.partition("=")[0] for entry in build.site}
        site = tuple(f"{key}={value}" for key, value in imported.site if key not in keys_of_user)
        components = tuple(dict.fromkeys((*imported.options, *build.components)))
        spec = imported.folder / SPEC
        request = replace(request, build=values.replace(build, components=components, site=(*site, *build.site)))
        try:
            package = _built(request, spec, tell, progress)
        except MlpackError as error:
            show_paths(error, {str(spec): f"the spec of {path}"})
            error.hint = error.hint or f"`mlpack import mlcube {paths.argument(path)}` shows this spec"
            raise
    return Runnable(path, package, is_cube=True, namespace=imported.namespace)


def _is_cube(path: Path) -> bool:
    """Return whether `path` is an MLCube: a folder with its file, or the file itself, which may have another name."""
    if paths.is_folder(path):
        return not paths.exists(path / INVENTORY) and paths.exists(path / _CUBE)
    return path.suffix in (".yaml", ".yml") and not _is_spec(path)


def spec_of(path: Path) -> Path | None:
    """Return the path of a model's spec; None if `path` is not a model."""
    if paths.is_folder(path):
        return path / SPEC if paths.exists(path / SPEC) and not paths.exists(path / INVENTORY) else None
    return path if _is_spec(path) else None


def _is_spec(path: Path) -> bool:
    """Return whether a path is that of a spec: `spec.yaml`, or `NAME.spec.yaml` of another model in its folder."""
    return path.name == SPEC or path.name.endswith(f".{SPEC}")


def _imported(path: Path, work: Path) -> Imported:
    from packager.modelspec.importers.mlcube import Choices
    from packager.modelspec.importing import ModelDestination, import_mlcube

    return import_mlcube(path, ModelDestination(work), Choices())


def _built(request: RunRequest, spec: Path, tell: Tell, progress: Progress) -> Path:
    """Build the package of a spec into the cache; it replaces the package of an earlier run of the same path."""
    from packager.builder.build import Built, Destination
    from packager.builder.build import build as build_packages

    build = values.replace(request.build, model=str(spec), defaults=request.find_site())
    destination = Destination(_cached(request), force=True)
    (outcome,) = build_packages(build, destination, tell=tell, progress=progress)
    if not isinstance(outcome, Built):
        raise outcome
    return outcome.path


def _cached(request: RunRequest) -> Path:
    """Return the folder in the cache for the packages of a path."""
    source = str(request.path.resolve()).encode(errors="surrogateescape")
    folder = request.build.cache / _FOLDER / hashlib.sha256(source).hexdigest()[:16]
    try:
        paths.make_private(folder)
    except OSError as error:
        raise ToolError(f"the cache {folder} cannot be used: {reason(error)}", hint="set XDG_CACHE_HOME") from None
    return folder

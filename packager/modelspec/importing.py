"""Turns a workload of another system into a model folder. Tests: modelspec/importers/test_mlcube.py."""

from __future__ import annotations

import json
import os
from functools import partial
from typing import TYPE_CHECKING, Any

from packager.base import atomic, paths, yamlio
from packager.base.errors import ClusterError, MlpackError, SpecError, UsageError
from packager.base.problems import Problem, ordered
from packager.base.values import Value, replace
from packager.modelspec.importers import kubeflow, mlcube, specfile, zoo
from packager.modelspec.importers.source import decided, invalid, read_bytes
from packager.modelspec.load import load
from packager.package.layout import SPEC
from packager.package.options import KEYS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from packager.kubernetes.kubectl.client import Kubectl
    from packager.modelspec.importers.draft import Draft

_SIZE = "CLAIM_SIZE"
_MARK = b"# Imported from "
"""The first line of an imported model's spec; only a folder with such a spec is replaced."""


class Imported(Value, frozen=True):
    """A model folder that an import has written."""

    folder: Path
    files: tuple[Path, ...]  # all files in it
    findings: tuple[Problem, ...]  # the parts of the source that were not imported, each with its place
    options: tuple[str, ...]  # that a build needs, for `--with`
    site: tuple[tuple[str, str], ...]  # the values of these options, for `--site`
    namespace: str | None = None  # that the source names
    site_file: Path | None = None  # with the site's defaults, that the user has named; None for the nearest one
    # The size that the workspace's claim requests by default; None if the source or a site names one, or without one.
    usual_size: str | None = None

    @property
    def build(self) -> list[str]:
        """The command that builds the model."""
        folder = str(self.folder) if self.folder.is_absolute() else f"./{self.folder}"
        options = [word for option in self.options for word in ("--with", option)]
        defaults = ["--site-file", str(self.site_file)] if self.site_file else []
        site = (*self.site, *([(_SIZE, self.usual_size)] if self.usual_size else ()))
        values = [f"--site={key}={value}" for key, value in site]
        return ["mlpack", "build", folder, *defaults, *options, *values]

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {
            "folder": str(self.folder),
            "files": [str(path) for path in self.files],
            "findings": [finding.as_json() for finding in self.findings],
            "build": self.build,
        }


class ModelDestination(Value, frozen=True):
    """The place for imported model folders."""

    folder: Path  # that contains the new model folder
    force: bool = False  # an imported model of the same name is replaced
    site_file: Path | None = None  # with the site's defaults, that the user has named; None for the nearest one
    has_defaults: bool = False  # a site's file has defaults for builds


def import_mxjob(path: Path, destination: ModelDestination, *, image: str | None = None) -> Imported:
    """Import the MxJob in the file `path`; `image` replaces its image. Raises SpecError if it cannot be imported."""
    found = kubeflow.find(read_bytes(path, str(path)), str(path), "mxjob")
    others = (*found[0].others, *found[1:])
    return write(kubeflow.read(replace(found[0], others=others), image), destination)


def import_mlcube(path: Path, destination: ModelDestination, choices: mlcube.Choices) -> Imported:
    """Import the MLCube at `path`: its folder, or its file."""
    return write(mlcube.read(path, str(path), choices), destination)


def import_intel(
    path: Path,
    destination: ModelDestination,
    *,
    image: str | None = None,
    downloads: bool = False,
) -> Iterator[Imported | MlpackError]:
    """Import a spec of Intel's Model Zoo, or all specs of a folder; yield each, or the error that prevented it."""
    choices = zoo.ZooChoices(image, downloads)
    files = zoo.spec_files(path, str(path))
    return _write_each((partial(zoo.read, file, name, choices) for file, name in files), destination)


def import_jobs(
    text: bytes, name: str, destination: ModelDestination, *, image: str | None = None, verb: str = "kubeflow"
) -> Iterator[Imported | MlpackError]:
    """Import each job of Kubeflow, or each JobSet, of a file; yield each model, or the error that prevented it."""
    found = kubeflow.find(text, name, verb)
    return _write_each((partial(kubeflow.read, job, image) for job in found), destination)


def read_cluster(kubectl: Kubectl, what: str) -> bytes:
    """Return the object KIND/NAME of a cluster, and of a TrainJob also its runtime, as a file of YAML documents."""
    found = kubectl.get(what)
    if found is None:
        raise ClusterError(f"{what} not found")
    objects = [found]
    runtime = found.get("spec", {}).get("runtimeRef") if isinstance(found.get("spec"), dict) else None
    if isinstance(runtime, dict):
        kind = str(runtime.get("kind", "ClusterTrainingRuntime")).lower()
        objects += filter(None, [kubectl.get(f"{kind}/{runtime.get('name')}")])
    return b"---\n".join(json.dumps(one, indent=1).encode() + b"\n" for one in objects)


def _write_each(
    readers: Iterable[Callable[[], Draft]], destination: ModelDestination
) -> Iterator[Imported | MlpackError]:
    """Yield each model that was written, or the error that prevented it."""
    written: dict[str, str] = {}  # the sources, by the names of the models
    for read in readers:
        try:
            draft = read()
            name = draft.data["name"]
            if name in written:
                message = f"{draft.source} and {written[name]} both make the package {name}"
                raise UsageError(message, hint="import one of them into another folder")
            yield write(draft, destination)
            written[name] = draft.source
        except MlpackError as error:
            yield error


def write(draft: Draft, destination: ModelDestination) -> Imported:
    """Write a model."""
    folder = destination.folder / draft.data["name"]
    if destination.force and os.path.lexists(folder):
        _check_replaced(folder, {folder / SPEC, *(folder / file.path for file in draft.files)})
    draft.rename_taken()
    text = specfile.write(draft)
    exists_hint = None if destination.force else "--force replaces a model that was imported"
    with atomic.folder(folder, exists_hint=exists_hint) as work:
        (work / SPEC).write_bytes(text)
        for file in draft.files:
            target = work / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            content = file.content
            if not isinstance(content, bytes):
                content = read_bytes(content, file.path, content.stat().st_size)
            target.write_bytes(content)
            target.chmod(0o755 if file.executable else 0o644)
        _check(work, draft, text)
        work.chmod(0o755)
    has_size = _SIZE in draft.site or destination.has_defaults or "workspace" not in draft.data
    return Imported(
        folder,
        tuple(sorted(path for path in folder.rglob("*") if path.is_file())),
        tuple(ordered(draft.findings)),
        tuple(draft.options),
        tuple(draft.site.items()),
        namespace=draft.namespace,
        site_file=destination.site_file,
        usual_size=None if has_size else KEYS[_SIZE].example,
    )


def _check_replaced(folder: Path, new: set[Path]) -> None:
    """Raise UsageError if a folder is not an imported model, or has files that the new one lacks."""
    if not paths.is_file(folder / SPEC) or not (folder / SPEC).read_bytes().startswith(_MARK):
        raise UsageError(f"{folder} already exists and was left unchanged", hint="it is not an imported model")
    others = sorted(path for path in folder.rglob("*") if path not in new and (path.is_symlink() or not path.is_dir()))
    if others:
        message = f"{folder} was left unchanged: the import would delete {others[0]}"
        raise UsageError(message, hint="move it elsewhere")


def _check(work: Path, draft: Draft, text: bytes) -> None:
    """Refuse a draft that is not a valid spec; each problem has the place in the source that its value came from."""
    try:
        load(work / SPEC)
    except SpecError as error:
        document, _ = yamlio.load(text, SPEC)
        lines = {
            document.problem(location, "", at_key=isinstance(location[-1], str)).line: origin
            for location, origin in draft.origins.items()
            if origin.file
        }
        problems = [] if error.problems else [Problem(draft.source, 0, 0, str(error))]
        for problem in error.problems:
            above = max((line for line in lines if line <= problem.line), default=0)
            origin = lines[above] if problem.line and above else decided("", draft.source)
            problems.append(origin.problem(problem.message, problem.hint))
        raise invalid(draft.source, draft.kind, problems) from None

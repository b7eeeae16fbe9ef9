"""Turns a workload of another system into a model folder. Tests: modelspec/importers/mlcube/test_read.py."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from packager.base import atomic, plainfiles, yamlio
from packager.base.errors import MlpackError, SpecError, UsageError
from packager.base.problems import Problem, ordered
from packager.package.layout import SPEC
from packager.package.options import KEYS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from packager.modelspec.importers.draft import Draft
    from packager.modelspec.importers.mlcube import Choices
    from packager.modelspec.importers.source import ValueOrigin

_SIZE = "CLAIM_SIZE"
_MARK = "# Imported from "
"""The first line of an imported model's spec; only a folder with such a spec is replaced."""


@dataclass(frozen=True, slots=True)
class Imported:
    """A model folder that an import has written.

    Attributes:
        folder: The folder.
        files: All files in it.
        findings: The parts of the source that were not imported, each with its place.
        options: The options that a build needs, for `--with`.
        site: The values of these options, for `--site`.
        records: Whether the build must record digests of downloads.
        namespace: The namespace that the source names; None if it names none.
        site_file: The file with the site's defaults that the user has named; None for the nearest one.
        usual_size: The size that the workspace's claim requests by default; None if the source or a site names one, or
            if there is no such claim.
    """

    folder: Path
    files: tuple[Path, ...]
    findings: tuple[Problem, ...]
    options: tuple[str, ...]
    site: tuple[tuple[str, str], ...]
    records: bool = False
    namespace: str | None = None
    site_file: Path | None = None
    usual_size: str | None = None

    @property
    def build(self) -> list[str]:
        """The command that builds the model."""
        folder = str(self.folder) if self.folder.is_absolute() else f"./{self.folder}"
        options = [word for option in self.options for word in ("--with", option)]
        record = ["--record"] if self.records else []
        defaults = ["--site-file", str(self.site_file)] if self.site_file else []
        site = (*self.site, *([(_SIZE, self.usual_size)] if self.usual_size else ()))
        values = [f"--site={key}={value}" for key, value in site]
        return ["mlpack", "build", folder, *record, *defaults, *options, *values]

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {
            "folder": str(self.folder),
            "files": [str(path) for path in self.files],
            "findings": [finding.as_json() for finding in self.findings],
            "build": self.build,
        }


@dataclass(frozen=True, slots=True)
class ModelDestination:
    """The place for imported model folders.

    Attributes:
        folder: The folder that contains the new model folder.
        force: Whether an imported model of the same name is replaced.
        site_file: The file with the site's defaults that the user has named; None for the nearest one.
        has_defaults: Whether a site's file has defaults for builds.
    """

    folder: Path
    force: bool = False
    site_file: Path | None = None
    has_defaults: bool = False


def import_mxjob(path: Path, destination: ModelDestination, *, image: str | None = None) -> Imported:
    """Import the MxJob in the file `path`; `image` replaces its image.

    Raises:
        SpecError: The file does not contain an MxJob, or the job needs features that a package cannot have.
        UsageError: The model folder already exists.
        ToolError: The model folder cannot be written.
    """
    from packager.modelspec.importers.mxjob import read

    return _written(lambda: read(path, str(path), image), destination)


def import_mlcube(path: Path, destination: ModelDestination, choices: Choices) -> Imported:
    """Import the MLCube at `path`: its folder, or its file.

    Raises:
        SpecError: The file is not a valid MLCube.
        UsageError: The model folder already exists, or a choice names a task or parameter that the cube lacks.
        ToolError: The model folder cannot be written.
    """
    from packager.modelspec.importers.mlcube import read

    return _written(lambda: read(path, str(path), choices), destination)


def import_intel(
    path: Path,
    destination: ModelDestination,
    *,
    models: Path | None = None,
    image: str | None = None,
    downloads: bool = False,
) -> Iterator[Imported | MlpackError]:
    """Import a spec of Intel's Model Zoo, or all specs of a folder; yield each model, or the error that prevented it.

    Args:
        path: The spec, or a folder of specs.
        destination: The place for the model folders.
        models: The checkout of the zoo; None for the checkout that contains the spec.
        image: The image that replaces the spec's; None for the spec's.
        downloads: Whether the downloads of the packages are listed under `downloads`, without digests.

    Raises:
        SpecError: The path contains no spec of a package.
    """
    from packager.modelspec.importers.intel import ZooChoices, read, spec_files

    choices = ZooChoices(models, image, downloads)
    made: dict[Path, str] = {}
    for file, name in spec_files(path, str(path)):
        try:
            imported = _written(partial(read, file, name, choices), destination, made)
        except MlpackError as error:
            yield error
        else:
            made[imported.folder] = name
            yield imported


def mlcube_choices(**values: Any) -> Choices:
    """Return the user's choices for the import of an MLCube; see `packager.modelspec.importers.mlcube.Choices`."""
    from packager.modelspec.importers.mlcube import Choices

    return Choices(**values)


def _written(
    read: Callable[[], Draft], destination: ModelDestination, made: Mapping[Path, str] | None = None
) -> Imported:
    """Write the model that `read` returns; `made` maps the folders that this command has written to their sources."""
    from packager.modelspec.importers.specfile import write

    draft = read()
    folder = destination.folder / draft.name
    if made and folder in made:
        hint = "import one of them into another folder"
        raise UsageError(f"{draft.source} and {made[folder]} both make the package {draft.name}", hint=hint)
    hint = "--force replaces a model that was imported"
    if destination.force and os.path.lexists(folder) and not _is_imported(folder):
        raise UsageError(f"{folder} already exists and was left unchanged", hint="it is not an imported model")
    if destination.force and (other_files := _other_files(folder, draft)):
        message = f"{folder} was left unchanged: the import would delete {other_files[0]}"
        raise UsageError(message, hint="move it elsewhere")
    text = write(draft)
    with atomic.folder(folder, exists_hint=None if destination.force else hint) as work:
        (work / SPEC).write_bytes(text)
        for file in draft.files:
            target = work / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(file.content, bytes):
                target.write_bytes(file.content)
            else:
                with (
                    plainfiles.open_below(file.content.parent, file.content.name) as source,
                    target.open("wb") as stream,
                ):
                    shutil.copyfileobj(source, stream)
            target.chmod(0o755 if file.executable else 0o644)
        _check(work, draft, text)
        work.chmod(0o755)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    records = any("sha256" not in download for download in draft.data.get("downloads", ()))
    findings = tuple(ordered(draft.findings))
    return Imported(
        folder,
        tuple(files),
        findings,
        draft.options,
        draft.site,
        records=records,
        namespace=draft.namespace,
        site_file=destination.site_file,
        usual_size=None if destination.has_defaults else _usual_size(draft),
    )


def _usual_size(draft: Draft) -> str | None:
    """Return the default size of the workspace's claim; None if the draft has its size, or no such claim."""
    return KEYS[_SIZE].example if "workspace" in draft.data and _SIZE not in dict(draft.site) else None


def _other_files(folder: Path, draft: Draft) -> list[Path]:
    """Return the files of an existing model folder that the new one lacks, such as manually added files."""
    new = {folder / file.path for file in draft.files} | {folder / SPEC}
    return sorted(path for path in folder.rglob("*") if path not in new and (path.is_symlink() or not path.is_dir()))


def _is_imported(folder: Path) -> bool:
    try:
        with (folder / SPEC).open("rb") as stream:
            return stream.read(len(_MARK)) == _MARK.encode()
    except OSError:
        return False


def _check(work: Path, draft: Draft, text: bytes) -> None:
    """Refuse a draft that is not a valid spec; each problem has the place in the source that its value came from."""
    from packager.modelspec.load import load

    try:
        load(work / SPEC)
    except SpecError as error:
        places = _places(text, draft.origins)
        problems = [_moved(problem, draft, places) for problem in error.problems] or [
            Problem(draft.source, 0, 0, str(error))
        ]
        from packager.modelspec.importers.source import invalid

        raise invalid(draft.source, draft.kind, problems) from None


def _places(text: bytes, origins: Mapping[Any, ValueOrigin]) -> list[tuple[int, ValueOrigin]]:
    """Return the lines of the spec on which values from a file begin, in order, each with the value's origin."""
    document, _ = yamlio.load(text, SPEC)
    lines = [
        (document.problem(location, "", at_key=isinstance(location[-1], str)).line, origin)
        for location, origin in origins.items()
        if origin.file
    ]
    return sorted(lines, key=lambda item: item[0])


def _moved(problem: Problem, draft: Draft, places: list[tuple[int, ValueOrigin]]) -> Problem:
    """Return a problem of the spec as a problem of the file that the value came from."""
    above = [origin for line, origin in places if line <= problem.line]
    if problem.line and above:
        return above[-1].problem(problem.message, problem.hint)
    return Problem(draft.source, 0, 0, problem.message, problem.hint)

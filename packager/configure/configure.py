"""Decides and writes the edits that `configure` makes in a package's files."""

from __future__ import annotations

import filecmp
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.base import atomic, envfile, paths, workfolder
from packager.base.errors import UsageError
from packager.base.values import Value
from packager.builder.plan import Options, check_options
from packager.builder.selection import OwnComponent, select
from packager.configure import changes as stage
from packager.configure import settings
from packager.configure.assignments import Assignment, check_image
from packager.configure.changes import Answers
from packager.configure.proposals import site_answers
from packager.kubernetes.allowed import words
from packager.kubernetes.podsecurity import Level
from packager.package import archive, kustomization, layout
from packager.package import options as components
from packager.package.opened import chosen_overlays, opened
from packager.rendering import render

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from packager.base.problems import Problem
    from packager.base.process import Tell
    from packager.configure.changes import Change
    from packager.configure.settings import Files
    from packager.package.opened import Package

__all__ = ["Answers", "Assignment", "PreparedEdits", "check_answers", "own_components", "prepared", "unset", "write"]

_MODE = 0o644
"""The mode of a new file."""

_EXISTS_HINT = "--force replaces it"


@dataclass(frozen=True, slots=True)
class PreparedEdits:
    """Edits that have been decided and not written yet."""

    files: settings.Files  # the files of the package, with the edits

    @property
    def package(self) -> Package:
        """The package to edit."""
        return self.files.package

    @property
    def changed(self) -> Mapping[str, bytes]:
        """The new content of files, by path."""
        return self.files.changed()

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changed lines."""
        return tuple(stage.changes(self.files))

    @property
    def consent(self) -> Consent:
        """The consent that `mlpack deploy` needs after these edits."""
        return consent(self.files)

    @property
    def notes(self) -> tuple[str, ...]:
        """The options that are added, and numbers of GPUs in manifests that the option `gpu` replaces since."""
        gpus = tuple(settings.replaced_gpus(self.files))
        before = set(settings.replaced_gpus(self.files.original)) if gpus else ()
        added = (f"option {name} added" for name in stage.added_options(self.files))
        return (*added, *(note for note in gpus if note not in before))

    def as_json(self) -> dict[str, Any]:
        """Return the edits as JSON; values that may be secret are masked."""
        return {
            "package": self.package.name,
            "changes": [
                {
                    "file": self.package.shown(change.path),
                    "line": change.line,
                    "before": change.shown_before,
                    "after": change.shown_after,
                }
                for change in self.changes
            ],
        }


def check_answers(answers: Answers) -> None:
    """Refuse an invalid root folder, registry and image."""
    check_options(Options(root=answers.root, registry=answers.registry))
    if answers.image is not None:
        check_image(answers.image)


def own_components(folders: tuple[str, ...]) -> tuple[OwnComponent, ...]:
    """Return the components in folders of the user."""
    return select(folders).own


def unset(path: Path, overlay: str | None, *, destination: Path | None = None) -> tuple[Problem, ...]:
    """Return the values of the package at `path` that must be set before it runs and are not set yet."""
    with _opened(path, overlay, destination) as (package, overlays):
        problems = tuple(settings.unset(settings.Files(package), overlays))
        for name in overlays:
            render.read(package, name)
        return problems


@contextmanager
def prepared(
    path: Path,
    overlay: str | None,
    answers: Answers,
    *,
    ask: Callable[[Package, tuple[str, ...]], Answers],
    destination: Path | None = None,
) -> Iterator[PreparedEdits]:
    """Open the package at `path` and prepare the edits; nothing is written."""
    with _opened(path, overlay, destination) as (package, overlays):
        if answers == Answers():
            answers = ask(package, overlays)
        filled: dict[str, Answers] = {}
        if answers.site is not None:
            files = settings.Files(package)
            filled = {name: site_answers(files, name, answers.site, answers) for name in overlays}
        yield PreparedEdits(stage.configure(package, overlays, answers, filled))


def write(edits: PreparedEdits, *, destination: Path | None = None, force: bool = False, tell: Tell) -> Iterator[str]:
    """Make the edits: in place in a folder; of an archive, a new one is written. Yield each path once it is written."""
    if edits.package.source.is_dir():
        if (overlay := edits.package.outside) and (
            foreign := [path for path in edits.changed if not overlay.is_own(path)]
        ):
            message = f"{overlay.place(foreign[0])} is a file of the package, which an overlay outside does not change"
            raise UsageError(message, hint="list a component of your own: --with ./NAME")
        edits.files.check_unchanged()
        yield from _edit(edits.package, edits.changed)
    else:
        yield str(_pack(edits.package, edits.changed, destination, force=force, tell=tell))


@contextmanager
def _opened(path: Path, overlay: str | None, destination: Path | None) -> Iterator[tuple[Package, tuple[str, ...]]]:
    with opened(path) as package:
        if destination is not None and path.is_dir():
            raise UsageError(f"{path} is a folder, which is edited in place", hint="use -d only with a tarball")
        yield package, chosen_overlays(package, overlay)


def _edit(package: Package, changed: Mapping[str, bytes]) -> Iterator[str]:
    for path in ("", *package.inventory["editable"]) if package.outside is None else ():
        workfolder.sweep_once((package.folder / path).parent if path else package.folder)  # also where nothing changes
    for path, edited in changed.items():
        file, content = package.folder / path, edited
        if package.outside is not None:
            file, content = package.outside.place(path), package.outside.written(path, edited)
        mode = file.stat().st_mode & 0o777 if file.exists() else _MODE
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic.file(file) as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(content)
        yield package.shown(path)


def _pack(package: Package, changed: Mapping[str, bytes], destination: Path | None, *, force: bool, tell: Tell) -> Path:
    """Write the package with its changes as a new tarball, and return its path: the old one's when nothing changes."""
    if destination is None and not changed:
        return package.source
    name = package.source.name
    stem = name.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz").removesuffix(".configured")
    path = destination or package.source.with_name(f"{stem}.configured.tar.gz")
    if paths.is_folder(path):
        raise UsageError(f"{path} is a folder")
    contents, inventory = stage.edited(package, changed)
    exists = not force and paths.is_file(path)
    with atomic.file(path, exists_hint=None if force or exists else _EXISTS_HINT) as stream:
        archive.write(contents, stream, sealed=inventory)
        stream.flush()
        if exists and not filecmp.cmp(path, stream.name, shallow=False):
            atomic.check_absent(path, _EXISTS_HINT)
    if exists:
        tell(f"{path} already exists and is the same")
    return path


class Consent(Value, frozen=True):
    """The options with which a user accepts the edits of a package."""

    # the Pod Security level that options need which the package was sealed without; None if they need none
    level: Level | None
    allowed: tuple[str, ...]  # the values for `--allow`


def consent(files: Files) -> Consent:
    """Return the options with which a user accepts the package in `files`, so that it can be deployed.

    A change by hand of a manifest may need more: only `mlpack verify` renders it.
    """
    package = files.package
    new_options: set[str] = set()
    variables: list[str] = []
    for overlay in package.overlays:
        on = {name for name, is_on in settings.options(files, overlay).items() if is_on}
        sealed = kustomization.components(package.sealed(layout.kustomization(overlay)) or b"")
        new_options |= on - {component.name for component in sealed if component.on}
        env = layout.env(overlay)
        added = envfile.added(package.sealed(env) or b"", files.read(env))
        variables += [words.variable(line.key) for line in added]
    level = components.level(new_options - {option.name for option in components.OPTIONS if option.capabilities})
    allowed = [word for word in variables if words.is_word(word)]  # `verify` refuses the others in any case
    if "service-account" in new_options:
        allowed.append("ServiceAccount")
    texts = [files.read(path) for path in settings.site_files(package)]
    values = {line.key: line.value for text in texts for line in envfile.lines(text)}
    if any(components.secret(name, values) for name in new_options):
        allowed.append("Secret")
    return Consent(None if level is Level.restricted else level, tuple(dict.fromkeys(allowed)))

"""Decides and writes the edits that `configure` makes in a package's files."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.base import atomic, envfile, paths, workfolder
from packager.base.errors import UsageError
from packager.builder.plan import Options, check_options
from packager.builder.selection import OwnComponent, select
from packager.configure import additions, settings
from packager.configure import changes as stage
from packager.configure.assignments import Assignment, check_image
from packager.configure.changes import Answers
from packager.package import archive, kustomization, layout
from packager.package import ids as patch_ids
from packager.package.opened import chosen_overlays, opened
from packager.package.options import BY_NAME, PLACEMENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from packager.configure.changes import Change
    from packager.configure.settings import Files
    from packager.package.opened import Package
    from packager.site.read import SiteSettings

__all__ = ["Answers", "Assignment", "PreparedEdits", "check_answers", "own_components", "prepared", "write"]

_KEYS = {"uid": "runAsUser", "gid": "runAsGroup", "fs_group": "fsGroup"}


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
    def notes(self) -> tuple[str, ...]:
        """The options that are added."""
        return tuple(f"option {name} added" for name in stage.added_options(self.files))

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


@contextmanager
def prepared(
    path: Path,
    overlay: str | None,
    answers: Answers,
    *,
    destination: Path | None = None,
) -> Iterator[PreparedEdits]:
    """Open the package at `path` and prepare the edits; nothing is written."""
    with opened(path) as package:
        if destination is not None and path.is_dir():
            raise UsageError(f"{path} is a folder, which is edited in place", hint="use -d only with a tarball")
        overlays = chosen_overlays(package, overlay)
        filled: dict[str, Answers] = {}
        if answers.site is not None:
            files = settings.Files(package)
            filled = {name: site_answers(files, name, answers.site, answers) for name in overlays}
        yield PreparedEdits(stage.configure(package, overlays, answers, filled))


def write(edits: PreparedEdits, *, destination: Path | None = None, force: bool = False) -> Iterator[str]:
    """Make the edits: in place in a folder; of an archive, a new one is written. Yield each path once it is written."""
    if edits.package.source.is_dir():
        if (overlay := edits.package.outside) and (
            foreign := [path for path in edits.changed if not overlay.is_own(path)]
        ):
            message = f"{overlay.place(foreign[0])} is a file of the package, which an overlay outside does not change"
            raise UsageError(message, hint="list a component of your own: --with ./NAME")
        yield from _edit(edits.package, edits.changed)
    else:
        yield str(_pack(edits.package, edits.changed, destination, force=force))


def _edit(package: Package, changed: Mapping[str, bytes]) -> Iterator[str]:
    for path in ("", *package.inventory["editable"]) if package.outside is None else ():
        workfolder.sweep_once((package.folder / path).parent if path else package.folder)  # also where nothing changes
    for path, edited in changed.items():
        file, content = package.folder / path, edited
        if package.outside is not None:
            file, content = package.outside.place(path), package.outside.written(path, edited)
        mode = file.stat().st_mode & 0o777 if file.exists() else 0o644
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic.file(file) as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(content)
        yield package.shown(path)


def _pack(package: Package, changed: Mapping[str, bytes], destination: Path | None, *, force: bool) -> Path:
    """Write the package with its changes as a new tarball, and return its path: the old one's when nothing changes."""
    if destination is None and not changed:
        return package.source
    name = package.source.name
    stem = name.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz").removesuffix(".configured")
    path = destination or package.source.with_name(f"{stem}.configured.tar.gz")
    if paths.is_folder(path):
        raise UsageError(f"{path} is a folder")
    contents, inventory = stage.edited(package, changed)
    with atomic.file(path, exists_hint=None if force else "--force replaces it") as stream:
        archive.write(contents, stream, sealed=inventory)
    return path


def site_answers(files: Files, overlay: str, site: SiteSettings, given: Answers) -> Answers:
    """Return the answers that a site makes for an overlay: those that a person has neither edited nor given.

    A default takes the place of what the package was built with. What a person has edited stays, and the options of the
    command line count more.
    """
    path, now = layout.env(overlay), settings.options(files, overlay)
    text = files.package.sealed(layout.kustomization(overlay)) or b""
    built = {component.name for component in kustomization.components(text) if component.on}
    assigned = {entry.key for entry in given.assignments}
    switched_on = {name for name in (*given.switch_on, *given.storage) if name in BY_NAME}
    chosen = {*given.switch_on, *given.switch_off}

    def is_available(name: str) -> bool:
        """Whether the overlay lists an option, on or off, or it can be added."""
        return name in now or additions.can_add(files, overlay, name)

    def is_as_built(path: str, key: str) -> bool:
        """Whether a file has the value that it was built with, and the command line sets no other one."""
        texts = (files.read(path), files.package.sealed(path) or b"")
        values = [next((line.value for line in envfile.lines(text) if line.key == key), None) for text in texts]
        return key not in assigned and values[0] == values[1]

    edited = {name for name in {*now, *built} if now.get(name, False) != (name in built)}
    has_storage = any(BY_NAME[name].places for name in {*given.storage, *chosen, *edited} if name in BY_NAME)
    storage = () if has_storage else tuple(filter(is_available, site.storage))
    on = tuple(
        name
        for name in site.options
        if name not in chosen and name not in edited and is_available(name)
        if not BY_NAME[name].needs or set(BY_NAME[name].needs) & set(storage)
    )
    # What the site says of their keys holds for the options that the person switches on, too.
    used = {*on, *storage, *switched_on}
    paths = settings.site_files(files.package)
    new = [name for name in used if name not in now and is_available(name)]
    present = additions.keys(files, new) if new else set()
    present.update(key for path in paths for key in envfile.keys(files.read(path)))
    keys = {key.name for name in used for key in BY_NAME[name].keys} & present
    model_dir = settings.value(files, overlay, "MODEL_DIR") or ""
    has_folders_as_built = model_dir.endswith(f"/{files.package.name}") and is_as_built(path, "MODEL_DIR")
    placed = settings.placement_file(files)
    is_placed_as_built = placed is None or files.read(placed) == files.package.sealed(placed)
    return Answers(
        root=site.config.root if given.root is None and has_folders_as_built else None,
        registry=site.config.registry if given.registry is None and is_as_built(path, "REGISTRY") else None,
        assignments=tuple(
            Assignment("--site", key, value)
            for key, value in site.values.items()
            if key in keys and all(is_as_built(path, key) for path in paths)
        ),
        switch_on=on,
        storage=storage,
        placement=(site.placement or None) if PLACEMENT in used and is_placed_as_built else None,
        annotations=site.config.annotations,
        **_ids(files, overlay, site, given),
    )


def _ids(files: Files, overlay: str, site: SiteSettings, given: Answers) -> dict[str, Any]:
    """Return the ids that neither the person nor the command line has set."""
    now: dict[str, object] = {}
    built: dict[str, object] = {}
    for path in settings.patches(files, overlay):
        now = patch_ids.read(files.read(path), path) | now
        built = patch_ids.read(files.package.sealed(path) or b"", path) | built
    as_built = {key for key, value in now.items() if value == built.get(key)}
    return {key: value for key, value in site.ids.items() if getattr(given, key) is None and _KEYS[key] in as_built}

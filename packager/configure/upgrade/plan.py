"""Package, newer package -> UpgradePlan: decides for each file what an upgrade does with it; changes nothing.

The package's inventory has the digest of each delivered file, and the text of those that people edit. So a file that
only one side changed needs no text, and one that both changed has its base.

Tests: configure/upgrade/test_upgrade.py.
"""

from __future__ import annotations

import posixpath
from enum import StrEnum
from typing import TYPE_CHECKING

from packager.base import envfile
from packager.base.errors import UsageError
from packager.base.values import Value
from packager.configure import lock, resources
from packager.configure.amounts import OPTIONS
from packager.configure.upgrade import diff, edits
from packager.configure.upgrade.edits import EditKind
from packager.configure.upgrade.merge import Choice, Conflict, Versions, merged, merged_values
from packager.package import integrity, kustomization, layout, tree
from packager.package.layout import INVENTORY
from packager.package.options import BY_NAME, VOLUME_FOLDERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from packager.package.opened import Package


class FileResult(StrEnum):
    """The result for a file."""

    updated = "updated"
    merged = "merged"
    added = "added"
    removed = "removed"
    kept = "kept"


class PlannedFile(Value, frozen=True):
    """A file that changes, or that the user has changed."""

    path: str  # below the package's root
    action: FileResult
    mode: str | None  # afterwards, in octal; None for no file
    content: bytes | None = None  # afterwards; None for that of the new package, and for a kept file


class UpgradePlan(Value, frozen=True):
    """The upgrade of a package."""

    files: tuple[PlannedFile, ...] = ()  # in order of path
    conflicts: tuple[Conflict, ...] = ()  # the undecided ones
    decided: tuple[Conflict, ...] = ()
    new_keys: tuple[str, ...] = ()  # the keys of env files that only the new package has, each as `file: KEY`
    new_options: tuple[str, ...] = ()  # the options of overlays that only the new package has, each as `file: NAME`

    @property
    def changes(self) -> tuple[PlannedFile, ...]:
        """The files that are written or removed."""
        return tuple(file for file in self.files if file.action is not FileResult.kept)


class _State(Value, frozen=True):
    """One version of a file: its sha256 in hex, and its mode in octal."""

    digest: str
    mode: str


def plan(old: Package, new: Package, choices: Mapping[str, Choice]) -> UpgradePlan:
    """Return the upgrade of a package; `choices` has the version to take where a file conflicts, by path."""
    work = _Plan(old, new, choices)
    files = tuple(work.files())
    keys, options = work.additions({file.path: file for file in files})
    return UpgradePlan(files, tuple(work.conflicts), tuple(work.decided), keys, options)


class _Plan:
    def __init__(self, old: Package, new: Package, choices: Mapping[str, Choice]) -> None:
        self._old, self._new, self._choices = old, new, choices
        self._entries, entries = (
            {entry.path: entry for entry in tree.walk(package.folder) if entry.path != INVENTORY}
            for package in (old, new)
        )
        self._new_entries = {
            path: entries[path] for path in (*new.inventory["files"], *integrity.unlisted(new, entries))
        }
        self._base = {path: _State(seal["sha256"], seal["mode"]) for path, seal in old.inventory["files"].items()}
        self._theirs = {
            path: _State(new.reader.digest(path), f"{entry.mode:04o}") for path, entry in self._new_entries.items()
        }
        # What the user's files would be if the old package had the keys of the new one.
        self._yours_text: dict[str, bytes] = {}
        self.conflicts: list[Conflict] = []
        self.decided: list[Conflict] = []

    def files(self) -> Iterator[PlannedFile]:
        """Yield the result for each file that changes or is edited, in order of path."""
        for overlay in self._old.overlays:
            self._move_resources(overlay)
        self._keep_folders()
        own = integrity.unlisted(self._old, self._entries)
        for path in sorted({*self._base, *self._theirs, *own}):
            if file := self._file(path):
                yield file

    def _read(self, path: str) -> bytes:
        """Return the user's version of a file; nothing of one that is too large to be edited."""
        if path in self._yours_text:
            return self._yours_text[path]
        is_known = path in self._entries and self._entries[path].size <= diff.MOST_BYTES
        return self._old.reader.read(path, diff.MOST_BYTES) if is_known else b""

    def _read_new(self, path: str) -> bytes:
        is_known = path in self._new_entries and self._new_entries[path].size <= diff.MOST_BYTES
        return self._new.reader.read(path, diff.MOST_BYTES) if is_known else b""

    def _new_values(self, env: str) -> dict[str, str]:
        """Return the values of the keys that only the new package has in an env file that both have."""
        if env not in self._entries:
            return {}
        present = set(envfile.keys(self._read(env)))
        return {line.key: line.value for line in envfile.lines(self._read_new(env)) if line.key not in present}

    def _move_resources(self, overlay: str) -> None:
        """Move resources that a component of the user sets to mlops.env, where the new package has keys for them."""
        env, component = layout.env(overlay), resources.path(overlay)
        content, new = self._read(component), self._new_values(env)
        moved = set()
        for name, value in resources.read(content).items():
            for key in OPTIONS.get(f"--{name}", ()):
                if key in new:
                    self._yours_text[env] = envfile.assign(self._read(env), key, value, env)
                    moved.add(name)
        if moved:
            self._yours_text[component] = resources.without(content, moved)

    def _keep_folders(self) -> None:
        paths = map(layout.kustomization, self._old.overlays)
        on = {component.name for path in paths for component in _components(self._read(path), path) if component.on}
        for path in [path for path in self._entries if path.endswith(layout.site_env(""))]:
            before = self._read(path)
            if (kept := with_folders(before, self._read_new(path), on)) != before:
                self._yours_text[path] = kept

    def _file(self, path: str) -> PlannedFile | None:
        """Return the result for one file; None for one that neither changes nor is edited."""
        base, yours, theirs = self._base.get(path), self._state(path), self._theirs.get(path)
        if path not in self._base:
            self._undo_lock(path)
        if path not in self._yours_text and yours in (theirs, base):
            return _taken(path, yours, theirs) if yours != theirs else None
        self._undo_images(path)
        if theirs == base:  # only the user changed it
            content = self._yours_text.get(path)
            action = FileResult.kept if content is None else FileResult.merged
            return PlannedFile(path, action, yours.mode if yours else None, content)
        if base and yours and theirs:
            # The new package's mode, unless the user alone changed it.
            mode = yours.mode if theirs.mode == base.mode else theirs.mode
            if path not in self._yours_text and yours.digest in (base.digest, theirs.digest):
                return PlannedFile(path, FileResult.updated, mode)
            before = diff.delivered(self._old, path)
            if before is not None and self._entries[path].size <= diff.MOST_BYTES:
                versions = Versions(before, self._read(path), self._read_new(path))
                if versions.are_mergeable:
                    merge = merged_values if path.endswith(layout.site_env("")) else merged
                    result = merge(path, versions, self._choices.get(path))
                    (self.decided if path in self._choices else self.conflicts).extend(result.conflicts)
                    return PlannedFile(path, FileResult.merged, mode, result.content)
        had, have = "the delivered file" if base else None, "an edited file" if yours else None
        if self._choice(Conflict(path, 0, had, have, "a changed file" if theirs else None)) is Choice.theirs:
            return _taken(path, yours, theirs)
        return PlannedFile(path, FileResult.kept, yours.mode if yours else None)

    def _choice(self, conflict: Conflict) -> Choice | None:
        choice = self._choices.get(conflict.path)
        (self.conflicts if choice is None else self.decided).append(conflict)
        return choice

    def _state(self, path: str) -> _State | None:
        entry = self._entries.get(path)
        return _State(self._old.reader.digest(path), f"{entry.mode:04o}") if entry else None

    def _undo_lock(self, path: str) -> None:
        """Take the locks out of a component if images have other tags in the new package, and the user takes these.

        The user's digest is that of the former tag, so the new package would run the former image.
        """
        if overlay := lock.overlay_of(path):
            locked = lock.locked(self._read(path))
            choices = [self._image_choice(path, overlay, name, f"{name}@{locked[name]}") for name in locked]
            if Choice.theirs in choices:
                self._yours_text[path] = lock.without_images(overlay)

    def _undo_images(self, path: str) -> None:
        """Leave replaced images out of the user's kustomization if the user takes those of the new package."""
        overlay = layout.overlay_of(path)
        base = diff.delivered(self._old, path) if overlay and path in self._base else None
        text = self._read(path) if base is not None else b""
        for edit in edits.read(path, base or b"", text) if overlay else ():
            is_image = edit.kind is EditKind.image
            if is_image and self._image_choice(path, overlay or "", edit.key, edit.after) is Choice.theirs:
                text = self._yours_text[path] = edits.undone(text, edit)

    def _image_choice(self, path: str, overlay: str, name: str, yours: str) -> Choice | None:
        """Return the choice for an image that the user replaced, if the new package has another one of this name."""
        before: set[str] = set()
        now: set[str] = set()
        for manifest in self._entries.keys() | self._theirs.keys():
            if manifest.startswith(f"{layout.overlay(overlay)}/") and manifest.endswith(".yaml"):
                is_changed = self._theirs.get(manifest) != self._base.get(manifest)
                before.update(lock.written(name, self._read(manifest)))
                now.update(lock.written(name, (self._read_new if is_changed else self._read)(manifest)))
        if now in (before, {yours}):
            return None
        return self._choice(Conflict(path, 0, ", ".join(sorted(before)), yours, ", ".join(sorted(now)) or None))

    def additions(self, files: Mapping[str, PlannedFile]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the new keys of env files, and the new options of overlays, that the results of files have."""
        keys: list[str] = []
        options: list[str] = []
        for path in sorted(self._base.keys() & self._theirs.keys()):
            before = diff.delivered(self._old, path)
            if before is None or self._theirs[path] == self._base[path]:
                continue
            file = files.get(path)
            if file and file.content is not None:
                now = file.content
            else:
                now = self._read(path) if file and file.action is FileResult.kept else self._read_new(path)
            if path.endswith(".env"):
                present = set(envfile.keys(before))
                names = dict.fromkeys(key for key in envfile.keys(now) if key not in present)
                keys += [f"{path}: {key}" for key in names]
            elif posixpath.basename(path) == layout.KUSTOMIZATION:
                old, new = ({entry.name for entry in _components(text, path)} for text in (before, now))
                options += [f"{path}: {name}" for name in sorted(new - old)]
        return tuple(keys), tuple(options)


def with_folders(yours: bytes, theirs: bytes, on: Iterable[str]) -> bytes:
    """Return values of options that keep the place of files on a volume: its root, where they have no folder yet."""
    needed = {key.name for name in on if name in BY_NAME for key in BY_NAME[name].keys} & set(VOLUME_FOLDERS)
    present = set(envfile.keys(yours))
    for key in [line.key for line in envfile.lines(theirs) if line.key in needed - present]:
        yours = envfile.assign(yours, key, ".", layout.site_env(""))
    return yours


def _components(text: bytes, path: str) -> tuple[kustomization.Component, ...]:
    try:
        return kustomization.components(text, path)
    except UsageError:
        return ()


def _taken(path: str, yours: _State | None, theirs: _State | None) -> PlannedFile:
    """Return the result for a file of which the new version is taken."""
    action = FileResult.removed if theirs is None else FileResult.added if yours is None else FileResult.updated
    return PlannedFile(path, action, theirs.mode if theirs else None)

"""Package, newer package -> UpgradePlan: decides for each file what an upgrade does with it; changes nothing.

The package's inventory has the digest of each delivered file, and the text of those that people edit. So a file that
only one side changed needs no text, and one that both changed has its base.

Tests: app/test_upgrade.py.
"""

from __future__ import annotations

import posixpath
from enum import StrEnum
from typing import TYPE_CHECKING

from packager.base import envfile
from packager.base.errors import UsageError, VerificationError
from packager.base.values import Value
from packager.configure import lock, resources
from packager.configure.amounts import OPTIONS
from packager.configure.upgrade import diff, edits, images
from packager.configure.upgrade.edits import EditKind
from packager.configure.upgrade.patch import is_text
from packager.configure.upgrade.replay import Choice, Conflict, VersionNames, Versions, merged
from packager.package import integrity, kustomization, layout, tree
from packager.package.image import IMAGE
from packager.package.layout import INVENTORY
from packager.package.options import BY_NAME, VOLUME_FOLDERS
from packager.package.path_checks import ContentError, Contents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from packager.configure.upgrade.replay import Answer, Decide
    from packager.package.image import ImageName
    from packager.package.opened import Package


class FileResult(StrEnum):
    """The result for a file."""

    updated = "updated"
    merged = "merged"
    moved = "moved"
    added = "added"
    removed = "removed"
    kept = "kept"


class State(Value, frozen=True):
    """One version of a file: its sha256 in hex, and its mode in octal."""

    digest: str
    mode: str


class PlannedFile(Value, frozen=True):
    """A file that changes, or that the user has changed.

    Attributes:
        path: The path below the package's root.
        action: The result.
        before: The present version; None for no file.
        mode: The mode afterwards; None for no file.
        content: The content afterwards; None for that of the new package, and for a file that does not change.
        moved_from: The path that the user's edits come from; None if that is `path`.
    """

    path: str
    action: FileResult
    before: State | None
    mode: str | None
    content: bytes | None = None
    moved_from: str | None = None


class UpgradePlan(Value, frozen=True):
    """The upgrade of a package.

    Attributes:
        files: The files, in order of path.
        conflicts: The undecided conflicts.
        decided: The decided conflicts.
        new_keys: The keys of env files that only the new package has, each as `file: KEY`.
        new_options: The options of overlays that only the new package has, each as `file: NAME`.
    """

    files: tuple[PlannedFile, ...]
    conflicts: tuple[Conflict, ...]
    decided: tuple[Conflict, ...]
    new_keys: tuple[str, ...]
    new_options: tuple[str, ...]

    @property
    def changes(self) -> tuple[PlannedFile, ...]:
        """The files that are written or removed."""
        return tuple(file for file in self.files if file.action is not FileResult.kept)


def plan(old: Package, new: Package, base: Callable[[], Package | None], decide: Decide) -> UpgradePlan:
    """Return the upgrade of a package.

    Args:
        old: The user's package.
        new: The newer package.
        base: Returns the package that the user's one was unpacked from, or None; called for a file whose text its
            inventory lacks.
        decide: Returns the user's answer to a conflict; None leaves it undecided.

    Raises:
        VerificationError: The result would have files that no package may have.
        ToolError: A file cannot be read, or changes meanwhile.
    """
    work = _Plan(old, new, base, decide)
    files = tuple(work.files())
    work.check(files)
    keys, options = work.additions({file.path: file for file in files})
    return UpgradePlan(files, tuple(work.conflicts), tuple(work.decided), keys, options)


class _Plan:
    def __init__(self, old: Package, new: Package, base: Callable[[], Package | None], decide: Decide) -> None:
        self._old, self._new, self._base, self._decide = old, new, base, decide
        self._labels = VersionNames(*(f"{package.name}@{package.digest[7:19]}" for package in (old, new)))
        self._entries = _entries(old)
        self._delivered = {path: State(seal["sha256"], seal["mode"]) for path, seal in old.inventory["files"].items()}
        self._new_entries = _entries(new)
        self._theirs = {
            path: State(new.reader.digest(path), f"{entry.mode:04o}") for path, entry in self._new_entries.items()
        }
        self._undone: dict[str, bytes] = {}
        self._own_components: dict[str, bytes] = {}
        self._former_images: dict[str, ImageName] = {}
        self.conflicts: list[Conflict] = []
        self.decided: list[Conflict] = []

    def files(self) -> Iterator[PlannedFile]:
        """Yield the result for each file that changes or is edited, in order of path."""
        own = set(integrity.unlisted(self._old, self._entries))
        self._move_resources()
        self._move_images()
        self._keep_folders()
        moves = self._moves()
        targets = set(moves.values())
        for path in sorted({*self._delivered, *self._theirs, *own}):
            if path in moves:
                yield from self._moved(path, moves[path])
            elif path not in targets and (file := self._component(path) or self._lock(path) or self._file(path)):
                yield file

    def _lock(self, path: str) -> PlannedFile | None:
        """Return the result for a lock of images of which the new package has other tags; None for another file.

        The user's digest is that of the former tag, so the new package would run the former image.
        """
        overlay = lock.overlay_of(path)
        entry = self._entries.get(path)
        if overlay is None or entry is None or path in self._delivered or entry.size > diff.MOST_BYTES:
            return None
        changed = False
        for name, digest in lock.locked(self._old.reader.read(path, diff.MOST_BYTES)).items():
            choice = self._image_choice(path, overlay, name, f"{name}@{digest}")
            changed = changed or choice is Choice.theirs
        if not changed:
            return None
        return PlannedFile(
            path, FileResult.merged, self._state(path), f"{entry.mode:04o}", lock.without_images(overlay)
        )

    def _move_resources(self) -> None:
        """Move resources that a component of the user sets to mlops.env, where the new package has keys for them."""
        for overlay in self._old.overlays:
            place, env = resources.path(overlay), layout.env(overlay)
            is_known = place in self._entries and self._entries[place].size <= diff.MOST_BYTES
            if not is_known or env not in self._entries or env not in self._new_entries:
                continue
            content = self._old.reader.read(place, diff.MOST_BYTES)
            yours, theirs = (package.reader.read(env, diff.MOST_BYTES) for package in (self._old, self._new))
            present = set(envfile.keys(yours))
            new = {line.key for line in envfile.lines(theirs)} - present
            moved = {
                name: (value, [key for key in OPTIONS[f"--{name}"] if key in new])
                for name, value in resources.read(content).items()
                if f"--{name}" in OPTIONS
            }
            moved = {name: pair for name, pair in moved.items() if pair[1]}
            for value, keys in moved.values():
                for key in keys:
                    yours = envfile.assign(yours, key, value, env)
            if moved:
                self._undone[env] = yours
                self._own_components[place] = resources.without(content, moved)

    def _move_images(self) -> None:
        """Move the image that a kustomization or a lock sets to mlops.env, where the new package has a key for it."""
        for overlay in self._old.overlays:
            env, place, component = layout.env(overlay), layout.kustomization(overlay), lock.path(overlay)
            if not self._is_new_key(env, IMAGE) or place not in self._entries:
                continue
            folder = f"{layout.overlay(overlay)}/"
            paths = [path for path in self._entries if path.startswith(folder) and path.endswith(".yaml")]
            former = images.delivered(self._old.reader.read(path, diff.MOST_BYTES) for path in paths)
            text = self._old.reader.read(place, diff.MOST_BYTES)
            locked = self._old.reader.read(component, diff.MOST_BYTES) if component in self._entries else b""
            moved = images.moved(overlay, former, text, locked) if former else None
            if former is None or moved is None:
                continue
            self._former_images[env] = former
            yours = self._undone.get(env) or self._old.reader.read(env, diff.MOST_BYTES)
            self._undone[env] = images.with_image(yours, moved.image)
            if moved.text != text:
                self._undone[place] = moved.text
            if moved.locked != locked:
                self._own_components[component] = moved.locked

    def _keep_folders(self) -> None:
        """Keep the place of files on a volume, whose root it is where the package has no key for a folder yet."""
        read = self._read_keys()
        for path in [path for path in self._entries if path.endswith(layout.site_env(""))]:
            for key in VOLUME_FOLDERS:
                if key in read and self._is_new_key(path, key):
                    yours = self._undone.get(path) or self._old.reader.read(path, diff.MOST_BYTES)
                    self._undone[path] = envfile.assign(yours, key, ".", path)

    def _read_keys(self) -> set[str]:
        """Return the keys of site.env that the options read, as they are today, which are on in some overlay."""
        on = set()
        for overlay in self._old.overlays:
            path = layout.kustomization(overlay)
            if path in self._entries and self._entries[path].size <= diff.MOST_BYTES:
                text = self._old.reader.read(path, diff.MOST_BYTES)
                on |= {component.name for component in _components(text, path) if component.on}
        return {key.name for name in on & BY_NAME.keys() for key in BY_NAME[name].keys}

    def _is_new_key(self, env: str, key: str) -> bool:
        """Whether only the new package has a key in an env file that both have."""
        if env not in self._entries or env not in self._new_entries:
            return False
        yours, theirs = (package.reader.read(env, diff.MOST_BYTES) for package in (self._old, self._new))
        return key in set(envfile.keys(theirs)) - set(envfile.keys(yours))

    def _component(self, path: str) -> PlannedFile | None:
        """Return the result for a component whose values were moved to mlops.env; None for another file."""
        content = self._own_components.get(path)
        if content is None:
            return None
        state = self._state(path)
        return PlannedFile(path, FileResult.merged, state, state.mode if state else None, content)

    def _image_choice(self, path: str, overlay: str, name: str, yours: str) -> Answer | None:
        """Return the answer about an image that the user replaced, if the new package has another one of this name."""
        before, now = self._images(overlay, name)
        if now in (before, (yours,)):
            return None
        return self._choice(Conflict(path, 0, ", ".join(before), yours, ", ".join(now) or None))

    def _choice(self, conflict: Conflict) -> Answer | None:
        choice = self._decide(conflict)
        (self.conflicts if choice is None else self.decided).append(conflict)
        return choice

    def _undo_images(self, path: str) -> None:
        """Leave replaced images out of the user's kustomization if the user takes those of the new package."""
        overlay = posixpath.basename(posixpath.dirname(path))
        base = diff.delivered(self._old, path) if path == layout.kustomization(overlay) else None
        if base is None or path not in self._entries or self._entries[path].size > diff.MOST_BYTES:
            return
        yours = text = self._undone.get(path) or self._old.reader.read(path, diff.MOST_BYTES)
        for edit in edits.read(path, base, yours):
            is_image = edit.kind is EditKind.image
            if is_image and self._image_choice(path, overlay, edit.key, edit.after) is Choice.theirs:
                text = edits.undone(text, edit)
        if text != yours:
            self._undone[path] = text

    def _images(self, overlay: str, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the images of a name that the manifests of an overlay use before and after the upgrade."""
        before: set[str] = set()
        now: set[str] = set()
        folder = f"{layout.overlay(overlay)}/"
        for path in sorted(self._entries.keys() | self._theirs.keys()):
            if path.startswith(folder) and path.endswith(".yaml"):
                old = self._old.reader.read(path, diff.MOST_BYTES) if path in self._entries else b""
                new = self._new.reader.read(path, diff.MOST_BYTES) if path in self._theirs else b""
                is_changed = self._theirs.get(path) != self._delivered.get(path)
                before.update(lock.written(name, old))
                now.update(lock.written(name, new if is_changed else old))
        return tuple(sorted(before)), tuple(sorted(now))

    def _state(self, path: str) -> State | None:
        entry = self._entries.get(path)
        return State(self._old.reader.digest(path), f"{entry.mode:04o}") if entry else None

    def _file(self, path: str) -> PlannedFile | None:
        """Return the result for one file; None for one that neither changes nor is edited."""
        base, yours, theirs = self._delivered.get(path), self._state(path), self._theirs.get(path)
        if yours in (theirs, base) and path not in self._undone:
            return _taken(path, yours, theirs) if yours != theirs else None
        self._undo_images(path)
        if theirs == base:  # only the user changed it
            action = FileResult.merged if path in self._undone else FileResult.kept
            return PlannedFile(path, action, yours, yours.mode if yours else None, self._undone.get(path))
        if base and yours and theirs and (file := self._both(path, path, base, yours, theirs)):
            return file
        return self._whole(path, base, yours, theirs)

    def _both(self, source: str, path: str, base: State, yours: State, theirs: State) -> PlannedFile | None:
        """Return the result for a file that both sides may have changed; None if the versions cannot be merged.

        Args:
            source: The path of the user's version.
            path: The path of the new version.
            base: The delivered version.
            yours: The user's version.
            theirs: The new version.
        """
        content = None
        if yours.digest not in (base.digest, theirs.digest) or source in self._undone:
            texts = self._texts(source, path, base, theirs)
            if texts is None:
                return None
            result = merged(path, texts, decide=self._decide, labels=self._labels)
            self.conflicts += result.conflicts
            self.decided += result.decided
            content = result.content
        # The new package's mode, unless the user alone changed it.
        mode = yours.mode if theirs.mode == base.mode else theirs.mode
        if source != path:
            return PlannedFile(path, FileResult.moved, None, mode, content, source)
        return PlannedFile(path, FileResult.updated if content is None else FileResult.merged, yours, mode, content)

    def _texts(self, source: str, path: str, base: State, theirs: State) -> Versions | None:
        """Return the three versions of a file; None if they cannot be merged."""
        sizes = (self._entries[source].size, self._new_entries[path].size)
        if max(sizes) > diff.MOST_BYTES:
            return None
        yours = self._undone.get(source) or self._old.reader.read(source, diff.MOST_BYTES)
        new = self._new.reader.read(path, diff.MOST_BYTES)
        before = new if theirs.digest == base.digest else diff.delivered(self._old, source)
        if before is None and (package := self._base()) is not None:
            before = package.reader.read(source, diff.MOST_BYTES)
        if before is not None and source in self._former_images:
            before = images.with_image(before, self._former_images[source])
        for key in VOLUME_FOLDERS:
            if before is not None and key in set(envfile.keys(yours)) and self._is_new_key(source, key):
                before = envfile.assign(
                    before, key, next(line.value for line in envfile.lines(new) if line.key == key), source
                )
        if before is None or len(before) > diff.MOST_BYTES or not is_text(before, yours, new):
            return None
        return Versions(before, yours, new)

    def _whole(self, path: str, base: State | None, yours: State | None, theirs: State | None) -> PlannedFile:
        """Return the result for a file of which one version must be taken."""
        conflict = Conflict(
            path,
            0,
            "the delivered file" if base else None,
            "an edited file" if yours else None,
            "a changed file" if theirs else None,
        )
        if self._choice(conflict) is Choice.theirs:
            return _taken(path, yours, theirs)
        return PlannedFile(path, FileResult.kept, yours, yours.mode if yours else None)

    def _moves(self) -> dict[str, str]:
        """Return the new path of each edited file whose path the new package does not have, as far as it is certain."""
        added = self._theirs.keys() - self._delivered.keys() - self._entries.keys()
        moves: dict[str, str] = {}
        for path, base in self._delivered.items():
            yours = self._state(path)
            if path in self._theirs or yours is None or yours == base:
                continue
            same = [other for other in added if self._theirs[other].digest == base.digest]
            renamed = [other for other in added if self._is_in_renamed_folder(path, other)]
            if len(same) == 1 or (not same and len(renamed) == 1):
                moves[path] = (same or renamed)[0]
        targets = list(moves.values())
        return {path: target for path, target in moves.items() if targets.count(target) == 1}

    def _is_in_renamed_folder(self, path: str, other: str) -> bool:
        """Whether two paths differ in the name of one folder, which was renamed as a whole."""
        steps, other_steps = path.split("/"), other.split("/")
        differing = [at for at, pair in enumerate(zip(steps, other_steps, strict=False)) if pair[0] != pair[1]]
        if len(steps) != len(other_steps) or len(differing) != 1 or differing[0] == len(steps) - 1:
            return False
        folder, other_folder = ("/".join(parts[: differing[0] + 1]) + "/" for parts in (steps, other_steps))
        has_old = any(name.startswith(folder) for name in self._theirs)
        had_new = any(name.startswith(other_folder) for name in self._delivered)
        return not has_old and not had_new

    def _moved(self, path: str, target: str) -> Iterator[PlannedFile]:
        """Yield the results for a moved file: its old path is removed, and its edits are made at the new one."""
        base, yours, theirs = self._delivered[path], self._state(path), self._theirs[target]
        assert yours is not None
        file = self._both(path, target, base, yours, theirs)
        if file is None:
            yield self._whole(path, base, yours, None)
            yield PlannedFile(target, FileResult.added, None, theirs.mode)
            return
        yield PlannedFile(path, FileResult.removed, yours, None)
        yield file

    def check(self, files: tuple[PlannedFile, ...]) -> None:
        """Refuse a result with files that no package may have, such as two names that differ in case only.

        Raises:
            VerificationError: There are such files.
        """
        sizes = {path: entry.size for path, entry in self._entries.items()}
        for file in files:
            if file.mode is None:
                sizes.pop(file.path, None)
            elif file.action is not FileResult.kept:
                entry = self._new_entries.get(file.path)
                delivered = entry.size if entry else 0
                sizes[file.path] = delivered if file.content is None else len(file.content)
        contents = Contents()
        try:
            for path, size in sizes.items():
                contents.add_file(path, size)
        except ContentError as error:
            raise VerificationError(f"{self._old.source} cannot be upgraded: {error}") from None

    def additions(self, files: Mapping[str, PlannedFile]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the new keys of env files, and the new options of overlays, that the results of files have."""
        keys: list[str] = []
        options: list[str] = []
        for path in sorted(self._delivered.keys() & self._theirs.keys()):
            before = diff.delivered(self._old, path)
            if before is None or self._theirs[path] == self._delivered[path]:
                continue
            now = self._new.reader.read(path, diff.MOST_BYTES)
            if (file := files.get(path)) and (file.content is not None or file.action is FileResult.kept):
                kept = self._old.reader.read(path, diff.MOST_BYTES) if path in self._entries else b""
                now = kept if file.content is None else file.content
            if path.endswith(".env"):
                present = set(envfile.keys(before))
                names = dict.fromkeys(key for key in envfile.keys(now) if key not in present)
                keys += [f"{path}: {key}" for key in names]
            elif posixpath.basename(path) == layout.KUSTOMIZATION:
                options += [f"{path}: {name}" for name in sorted(_options(now, path) - _options(before, path))]
        return tuple(keys), tuple(options)


def _entries(package: Package) -> dict[str, tree.Entry]:
    return {entry.path: entry for entry in tree.walk(package.folder) if entry.path != INVENTORY}


def _options(text: bytes, path: str) -> set[str]:
    return {component.name for component in _components(text, path)}


def _components(text: bytes, path: str) -> tuple[kustomization.Component, ...]:
    try:
        return kustomization.components(text, path)
    except UsageError:
        return ()


def _taken(path: str, yours: State | None, theirs: State | None) -> PlannedFile:
    """Return the result for a file of which the new version is taken."""
    action = FileResult.removed if theirs is None else FileResult.added if yours is None else FileResult.updated
    return PlannedFile(path, action, yours, theirs.mode if theirs else None)

"""Upgrades a package's folder to a newer package, and carries the user's edits over.

The result is a new folder beside the old one: the new package's files with the known edits replayed, other edits
merged, and the user's own files. It is verified, and then the two folders are exchanged in one step. So the folder is
wholly old or wholly new, whenever the upgrade is interrupted.

The package's inventory has the digest of each delivered file, and the text of those that people edit. So a file that
only one side changed needs no text, and one that both changed has its base.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import shutil
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from packager import verify as verification
from packager.base import atomic, envfile, paths, workfolder
from packager.base.errors import ToolError, UnansweredError, UsageError, VerificationError
from packager.base.paths import DEFAULT_LIMITS
from packager.base.problems import Problem
from packager.base.process import SYSTEM
from packager.base.values import Value, replace
from packager.configure import additions
from packager.configure.merge import Choice, Conflict, Versions, merged, unanswered
from packager.kubernetes.podsecurity import Level
from packager.package import integrity, kustomization, layout, outside, path_checks, tree
from packager.package.layout import INVENTORY, is_added, is_editable
from packager.package.opened import opened
from packager.package.options import BY_NAME, VOLUME_FOLDERS
from packager.package.tree import link
from packager.verify.taken import newly_taken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from packager.base.process import Runner
    from packager.package.opened import Package
    from packager.verify.case import Report

_MOST_BYTES = 1 << 20
"""The largest file that is merged: as large as an editable file may be."""


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


class PreparedUpgrade(Value, frozen=True):
    """An upgrade that has been decided and not written yet."""

    old: Package
    new: Package
    files: tuple[PlannedFile, ...] = ()  # in order of path
    conflicts: tuple[Conflict, ...] = ()  # the undecided ones
    decided: tuple[Conflict, ...] = ()
    new_keys: tuple[str, ...] = ()  # the keys of env files that only the new package has, each as `file: KEY`
    new_options: tuple[str, ...] = ()  # the options of overlays that only the new package has, each as `file: NAME`

    @property
    def is_done(self) -> bool:
        """Whether the folder already is of the newer package."""
        return self.old.digest == self.new.digest

    @property
    def title(self) -> str:
        """The versions before and after, for people."""
        had, has = (
            f"{it.version} ({it.digest[7:19]})" if it.version else it.digest[7:19] for it in (self.old, self.new)
        )
        return f"{self.old.name}: {had} -> {has}"

    def problems(self, conflicts: Sequence[Conflict]) -> tuple[Problem, ...]:
        """Return conflicts as problems at their places in the user's package."""
        return tuple(Problem(self.old.shown(it.path), it.line, min(it.line, 1), it.message) for it in conflicts)

    @property
    def unexpected(self) -> tuple[str, ...]:
        """The paths of the files that keep an edit, or were added, although people are not meant to edit them."""
        kept = [file.path for file in self.files if file.action in (FileResult.merged, FileResult.kept)]
        return tuple(path for path in kept if not (is_editable(path) or is_added(path)))

    @property
    def error(self) -> UnansweredError:
        """The error about the undecided conflicts."""
        return unanswered(self.problems(self.conflicts), self.old.source)

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints; values that may be secret are masked."""
        return {
            "package": self.old.name,
            "from": {"version": self.old.version, "digest": self.old.digest},
            "to": {"version": self.new.version, "digest": self.new.digest},
            "files": [{"file": file.path, "action": file.action} for file in self.files],
            "unexpected": list(self.unexpected),
            "conflicts": list(map(_as_json, self.conflicts)),
            "decided": list(map(_as_json, self.decided)),
            "new_keys": list(self.new_keys),
            "new_options": list(self.new_options),
        }


def _as_json(conflict: Conflict) -> dict[str, Any]:
    texts = {"base": conflict.base, "yours": conflict.yours, "theirs": conflict.theirs}
    shown = {name: None if text is None else conflict.shown(text) for name, text in texts.items()}
    return {"file": conflict.path, "line": conflict.line, "key": conflict.subject or None, **shown}


@contextmanager
def prepared(
    folder: Path, newer: Path, *, yours: Sequence[str] = (), theirs: Sequence[str] = ()
) -> Iterator[PreparedUpgrade]:
    """Open the packages and decide the result for each file; nothing is written."""
    if paths.is_file(folder):
        raise UsageError(f"{folder} is an archive, and an upgrade keeps the edits of a folder", hint="unpack it first")
    if overlay := outside.find(folder):
        raise UsageError(f"{folder} is an overlay of {overlay.package}", hint=overlay.carry_over)
    workfolder.sweep_once(folder.resolve().parent)
    with opened(folder) as old, opened(newer) as new:
        if old.name != new.name:
            message = f"{newer} is the package {new.name}, and {folder} is {old.name}"
            raise UsageError(message, hint="an upgrade is to a newer build of the same package")
        if problems := integrity.check(new, DEFAULT_LIMITS).problems:
            raise VerificationError(f"{newer} is not valid", problems=problems)
        if old.digest == new.digest:
            yield PreparedUpgrade(old, new)
            return
        choices = _choices(old, yours, theirs)
        upgrade = _Planner(old, new, choices).upgrade()
        if unused := choices.keys() - {conflict.path for conflict in upgrade.decided}:
            path = min(unused)
            raise UsageError(f"--{choices[path]} {path}: this file of the package has no conflict")
        yield upgrade


def _choices(old: Package, yours: Sequence[str], theirs: Sequence[str]) -> dict[str, Choice]:
    """Return the choices by the path of the file below the package's root."""
    chosen: dict[str, Choice] = {}
    for names, choice in ((yours, Choice.yours), (theirs, Choice.theirs)):
        for name in names:
            path = _path(old, name)
            if chosen.setdefault(path, choice) is not choice:
                raise UsageError(f"--yours and --theirs both name {path}")
    return chosen


def _path(package: Package, name: str) -> str:
    """Return the path below the package's root of a file, which the user may name with the package's folder."""
    path = posixpath.normpath(name)
    is_below = path in package.inventory["files"] or (package.folder / path).is_file()
    if is_below and not posixpath.isabs(path):
        return path
    root, place = (os.path.abspath(part) for part in (package.source, name))  # noqa: PTH100 - no link is followed
    return posixpath.relpath(place, root) if place.startswith(f"{root}/") else path


class _Planner:
    """Decides for each file what an upgrade does with it; changes nothing."""

    def __init__(self, old: Package, new: Package, choices: Mapping[str, Choice]) -> None:
        self._user, self._choices = old, choices
        self._entries, entries = (
            {entry.path: entry for entry in tree.walk(package.folder) if entry.path != INVENTORY}
            for package in (old, new)
        )
        self._old, self._completed = additions.completed(old, self._entries)
        # The new package has the options that are on in the old one.
        self._carried = additions.carry(old, new)
        entries |= {path: tree.Entry(path, content, len(content)) for path, content in self._carried.items()}
        with_files = replace(new, reader=new.reader.edited(self._carried))
        self._new, _ = integrity.with_added_options(with_files, entries)
        self._new_entries = {
            path: entries[path] for path in (*self._new.inventory["files"], *integrity.unlisted(self._new, entries))
        }
        # The sha256 in hex and the mode in octal of each file as it was delivered, and in the new package.
        self._base = {path: (seal["sha256"], seal["mode"]) for path, seal in self._old.inventory["files"].items()}
        for path, content in self._completed.items():
            self._base[path] = hashlib.sha256(content).hexdigest(), self._base[path][1]
        self._theirs = {
            path: (self._new.reader.digest(path), f"{entry.mode:04o}") for path, entry in self._new_entries.items()
        }
        # What the user's files would be if the old package had the keys of the new one.
        self._yours_text: dict[str, bytes] = {}
        self._merge_base: dict[str, bytes] = {}  # with these keys as the new package has them
        self._conflicts: list[Conflict] = []
        self._decided: list[Conflict] = []

    def upgrade(self) -> PreparedUpgrade:
        self._keep_folders()
        own = integrity.unlisted(self._old, self._entries)
        results = {path: self._file(path) for path in sorted({*self._base, *self._theirs, *own})}
        for path, content in self._carried.items():
            if (file := results[path]) and file.action in (FileResult.added, FileResult.updated):
                results[path] = replace(file, content=content)
        keys, options = self._additions(results)
        return PreparedUpgrade(
            self._user,
            self._new,
            tuple(filter(None, results.values())),
            tuple(self._conflicts),
            tuple(self._decided),
            tuple(keys),
            tuple(options),
        )

    def _read(self, path: str) -> bytes:
        """Return the user's version of a file; nothing of one that is too large to be edited."""
        if path in self._yours_text:
            return self._yours_text[path]
        is_known = path in self._entries and self._entries[path].size <= _MOST_BYTES
        return self._old.reader.read(path, _MOST_BYTES) if is_known else b""

    def _read_new(self, path: str) -> bytes:
        is_known = path in self._new_entries and self._new_entries[path].size <= _MOST_BYTES
        return self._new.reader.read(path, _MOST_BYTES) if is_known else b""

    def _delivered(self, path: str) -> bytes | None:
        """Return the content that a file was delivered with; None if the inventory has only its digest."""
        text = self._completed.get(path) or self._old.sealed(path)
        if text is not None and hashlib.sha256(text).hexdigest() != self._base[path][0]:
            message = f"{self._old.shown(INVENTORY)}: the lines of {path_checks.shown(path)} do not match its digest"
            raise VerificationError(message)
        return text

    def _keep_folders(self) -> None:
        paths = map(layout.kustomization, self._old.overlays)
        on = {component.name for path in paths for component in _components(self._read(path), path) if component.on}
        for path in [path for path in self._entries if path.endswith(layout.site_env(""))]:
            base, before = self._delivered(path) if path in self._base else None, self._read(path)
            self._merge_base[path], kept = _with_folders(base or b"", before, self._read_new(path), on)
            if kept != before:
                self._yours_text[path] = kept

    def _file(self, path: str) -> PlannedFile | None:
        """Return the result for one file; None for one that neither changes nor is edited."""
        entry = self._entries.get(path)
        yours = (self._old.reader.digest(path), f"{entry.mode:04o}") if entry else None
        base, theirs = self._base.get(path), self._theirs.get(path)
        if path not in self._yours_text and yours in (theirs, base):
            return _taken(path, yours, theirs) if yours != theirs else None
        mode = yours[1] if yours else None
        if theirs == base:  # only the user changed it
            content = self._yours_text.get(path)
            return PlannedFile(path, FileResult.kept if content is None else FileResult.merged, mode, content)
        if base and yours and theirs:
            # The new package's mode, unless the user alone changed it.
            mode = yours[1] if theirs[1] == base[1] else theirs[1]
            if path not in self._yours_text and yours[0] in (base[0], theirs[0]):
                return PlannedFile(path, FileResult.updated, mode)
            before = self._merge_base.get(path) or self._delivered(path)
            if before is not None and self._entries[path].size <= _MOST_BYTES:
                versions = Versions(before, self._read(path), self._read_new(path))
                if versions.are_mergeable:
                    result = merged(path, versions, self._choices.get(path))
                    (self._decided if path in self._choices else self._conflicts).extend(result.conflicts)
                    return PlannedFile(path, FileResult.merged, mode, result.content)
        had, have = "the delivered file" if base else None, "an edited file" if yours else None
        if self._choice(Conflict(path, 0, had, have, "a changed file" if theirs else None)) is Choice.theirs:
            return _taken(path, yours, theirs)
        return PlannedFile(path, FileResult.kept, yours[1] if yours else None)

    def _choice(self, conflict: Conflict) -> Choice | None:
        choice = self._choices.get(conflict.path)
        (self._conflicts if choice is None else self._decided).append(conflict)
        return choice

    def _additions(self, results: Mapping[str, PlannedFile | None]) -> tuple[list[str], list[str]]:
        """Return the new keys of env files, and the new options of overlays, that the results of files have."""
        keys: list[str] = []
        options: list[str] = []
        for path in sorted(self._base.keys() & self._theirs.keys()):
            before, file = self._delivered(path), results[path]
            if before is None or self._theirs[path] == self._base[path]:
                continue
            if file and file.content is not None:
                now = file.content
            else:
                now = self._read(path) if file and file.action is FileResult.kept else self._read_new(path)
            if path.endswith(".env"):
                present = set(envfile.keys(before))
                keys += [f"{path}: {key}" for key in dict.fromkeys(envfile.keys(now)) if key not in present]
            elif posixpath.basename(path) == layout.KUSTOMIZATION:
                names, new = ({entry.name for entry in _components(text, path)} for text in (before, now))
                options += [f"{path}: {name}" for name in sorted(new - names)]
        return keys, options


def _with_folders(base: bytes, yours: bytes, theirs: bytes, on: Iterable[str]) -> tuple[bytes, bytes]:
    """Return delivered values of options and the user's, which keep the place of files on a volume.

    It is the volume's root where they have no folder yet, as if the delivered ones had that of the new package.
    """
    needed = {key.name for name in on if name in BY_NAME for key in BY_NAME[name].keys} & set(VOLUME_FOLDERS)
    present = set(envfile.keys(yours))
    for line in [line for line in envfile.lines(theirs) if line.key in needed - present]:
        base = envfile.assign(base, line.key, line.value, layout.site_env(""))
        yours = envfile.assign(yours, line.key, ".", layout.site_env(""))
    return base, yours


def _components(text: bytes, path: str) -> tuple[kustomization.Component, ...]:
    try:
        return kustomization.components(text, path)
    except UsageError:
        return ()


def _taken(path: str, yours: object, theirs: tuple[str, str] | None) -> PlannedFile:
    """Return the result for a file of which the new version is taken."""
    action = FileResult.removed if theirs is None else FileResult.added if yours is None else FileResult.updated
    return PlannedFile(path, action, theirs[1] if theirs else None)


def check(
    upgrade: PreparedUpgrade,
    folder: Path,
    kubectl: str,
    runner: Runner = SYSTEM,
    accepted: Level | None = None,
) -> tuple[str, ...]:
    """Render and verify the package as it is and as it will be.

    Returns:
        The facts about what the new package takes from its surroundings, such as claims, and the present one does not.

    Raises:
        VerificationError: The package would have problems that the present one does not have, or a weaker level.
        ToolError: A part could not be checked, such as without kubectl.
    """
    checks = verification.Checks(kubectls=(kubectl,), runner=runner, has_notes=False)
    with opened(folder, shown_as=upgrade.old.source) as package:
        report = verification.verify(package, checks)
    present = verification.verify(upgrade.old, checks)
    before = set(map(_identity, present.problems))
    problems = [problem for problem in report.problems if _identity(problem) not in before]
    problems += _weakened(upgrade.old, present, report, accepted)
    hint = "--no-verify upgrades it nevertheless"
    if problems:
        message = f"the upgraded package would not be valid: {upgrade.old.source} was left as it is"
        raise VerificationError(message, hint=hint, problems=problems)
    if report.unchecked:
        raise ToolError(f"the upgraded package could not be checked: {report.unchecked[0]}", hint=hint)
    return newly_taken(present, report)


def _weakened(old: Package, present: Report, report: Report, accepted: Level | None) -> Iterator[Problem]:
    """Yield a problem for each overlay whose new Pod Security level is weaker than the present and the accepted one."""
    order = list(Level)
    levels = {security.overlay: security.level for security in present.security}
    for security in report.security:
        level = levels.get(security.overlay) or Level.restricted
        allowed = max(level, accepted or level, key=order.index)
        if security.level is not None and order.index(security.level) > order.index(allowed):
            message = f"{security.overlay} needs Pod Security {security.level}, and met {level}"
            fix = f"--pod-security {security.level} accepts it"
            yield Problem(old.shown(layout.kustomization(security.overlay)), 0, 0, message, fix)


def _identity(problem: Problem) -> tuple[str, str]:
    """Return the file and what a problem is about: an upgrade may change the names of ConfigMaps in its message."""
    return problem.file, problem.allow or problem.message


def write(
    upgrade: PreparedUpgrade,
    verify: Callable[[PreparedUpgrade, Path], object] = lambda *_: None,
    *,
    dry_run: bool = False,
) -> tuple[str, ...]:
    """Write the upgrade: all of it, or nothing; return the paths of the changed files, for people."""
    old = upgrade.old
    if dry_run:
        with workfolder.temporary() as folder:
            _write_package(upgrade, folder)
            verify(upgrade, folder)
        return ()
    own = sorted({path.name for path in old.folder.iterdir()} - _tops(old, upgrade.new))
    with atomic.folder(old.folder.resolve(), kept_folders=own) as folder:
        _write_package(upgrade, folder)
        verify(upgrade, folder)
        for name in own:
            if (old.folder / name).is_dir():
                shutil.copytree(old.folder / name, folder / name, copy_function=link, symlinks=True)
            else:
                link(old.folder / name, folder / name)
        for path in [folder, *(path for path in folder.rglob("*") if path.is_dir() and not path.is_symlink())]:
            before = old.folder / path.relative_to(folder)
            path.chmod(before.stat().st_mode & 0o7777 if before.is_dir() else 0o755)
        with opened(folder, shown_as=old.source):
            pass  # no file of the user has a name that is the same as another's where case is ignored
    changed = [file.path for file in upgrade.files if file.action is not FileResult.kept]
    return tuple(old.shown(path) for path in (*changed, INVENTORY))


def _tops(*packages: Package) -> set[str]:
    """Return the names in a package's folder that have files of the package."""
    return {INVENTORY, *(path.partition("/")[0] for package in packages for path in package.inventory["files"])}


def _write_package(upgrade: PreparedUpgrade, folder: Path) -> None:
    """Write the result into an empty folder, without what the user has beside the package's files and folders.

    Files that stay as they are become links where that is possible: the old folder is removed afterwards.
    """
    old, new = upgrade.old, upgrade.new
    planned = {file.path: file for file in upgrade.files}
    present = {entry.path for entry in tree.walk(old.folder) if entry.path.partition("/")[0] in _tops(old, new)}
    own = present - old.inventory["files"].keys() - {INVENTORY}
    for path in sorted({*new.inventory["files"], *own, *planned}):
        file = planned.get(path)
        if file is None or file.action is FileResult.kept:
            if path in present:
                link(old.folder / path, folder / path)
        elif file.mode is not None:
            _write_file(file, old.folder / path, new.folder / path, folder / path)
    sealed = PlannedFile(INVENTORY, FileResult.updated, "0644")
    _write_file(sealed, old.folder / INVENTORY, new.folder / INVENTORY, folder / INVENTORY)


def _write_file(file: PlannedFile, present: Path, new: Path, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if file.content is None:
        shutil.copyfile(new, path)
    else:
        path.write_bytes(file.content)
    mode = int(file.mode or "0644", 8)
    if present.is_file():  # only the bits to execute it change
        kept = present.stat().st_mode & 0o666
        mode = kept | (kept >> 2 & 0o111 if mode & 0o111 else 0)
    path.chmod(mode)

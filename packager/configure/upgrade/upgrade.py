"""Upgrades a package's folder to a newer package, and carries the user's edits over.

The result is a new folder beside the old one: the new package's files with the known edits replayed, other edits
merged, and the user's own files. It is verified, and then the two folders are exchanged in one step. So the folder is
wholly old or wholly new, whenever the upgrade is interrupted.
"""

from __future__ import annotations

import os
import posixpath
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packager import verify as verification
from packager.base import atomic, paths, workfolder
from packager.base.errors import ToolError, UnansweredError, UsageError, VerificationError
from packager.base.limits import DEFAULT
from packager.base.problems import Problem
from packager.base.runner import SYSTEM
from packager.base.values import Value, replace
from packager.configure import additions
from packager.configure.upgrade.merge import Choice, Conflict
from packager.configure.upgrade.plan import FileResult, PlannedFile, UpgradePlan, plan
from packager.kubernetes.podsecurity import Level
from packager.package import integrity, layout, outside, tree
from packager.package.layout import INVENTORY, is_added, is_editable
from packager.package.opened import opened
from packager.package.reader import Reader
from packager.verify.taken import newly_taken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from packager.base.runner import Runner
    from packager.package.opened import Package
    from packager.verify.case import Report


_MODES = {"0644": 0o644, "0755": 0o755}


class PreparedUpgrade(Value, frozen=True):
    """An upgrade that has been decided and not written yet."""

    old: Package
    new: Package
    plan: UpgradePlan
    stamps: dict[str, tuple[int, ...]]  # of the old package's files when they were read, by path

    @property
    def is_done(self) -> bool:
        """Whether the folder already is of the newer package."""
        return self.old.digest == self.new.digest

    @property
    def title(self) -> str:
        """The versions before and after, for people."""
        return f"{self.old.name}: {_named(self.old)} -> {_named(self.new)}"

    @property
    def conflicts(self) -> tuple[Problem, ...]:
        """The undecided conflicts as problems at their places in the user's package."""
        return self._problems(self.plan.conflicts)

    @property
    def decided(self) -> tuple[Problem, ...]:
        """The decided conflicts as problems."""
        return self._problems(self.plan.decided)

    def _problems(self, conflicts: Sequence[Conflict]) -> tuple[Problem, ...]:
        return tuple(Problem(self.old.shown(it.path), it.line, min(it.line, 1), it.message) for it in conflicts)

    @property
    def unexpected(self) -> tuple[str, ...]:
        """The paths of the files that keep an edit, or were added, although people are not meant to edit them."""
        return tuple(
            file.path
            for file in self.plan.files
            if file.action in (FileResult.merged, FileResult.kept)
            and not (is_editable(file.path) or is_added(file.path))
        )

    @property
    def error(self) -> UnansweredError:
        """The error about the undecided conflicts."""
        count = len(self.plan.conflicts)
        return UnansweredError(
            f"{count} conflict{'s' if count > 1 else ''}: {self.old.source} was left as it is",
            hint="--yours FILE keeps your version where it conflicts, --theirs FILE takes the new one",
            problems=self.conflicts,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints; values that may be secret are masked."""
        return {
            "package": self.old.name,
            "from": {"version": self.old.version, "digest": self.old.digest},
            "to": {"version": self.new.version, "digest": self.new.digest},
            "files": [{"file": file.path, "action": file.action} for file in self.plan.files],
            "unexpected": list(self.unexpected),
            "conflicts": list(map(_as_json, self.plan.conflicts)),
            "decided": list(map(_as_json, self.plan.decided)),
            "new_keys": list(self.plan.new_keys),
            "new_options": list(self.plan.new_options),
        }


def _named(package: Package) -> str:
    short = package.digest.removeprefix("sha256:")[:12]
    return f"{package.version} ({short})" if package.version else short


def _as_json(conflict: Conflict) -> dict[str, Any]:
    texts = {"base": conflict.base, "yours": conflict.yours, "theirs": conflict.theirs}
    shown = {name: None if text is None else conflict.shown(text) for name, text in texts.items()}
    return {"file": conflict.path, "line": conflict.line, "key": conflict.subject or None, **shown}


@contextmanager
def prepared(
    folder: Path, newer: Path, *, yours: Sequence[str] = (), theirs: Sequence[str] = ()
) -> Iterator[PreparedUpgrade]:
    """Open the packages and decide the result for each file; nothing is written.

    Args:
        folder: The folder of the user's package.
        newer: The newer package: a folder or an archive.
        yours: The files of which the user's version is taken where they conflict.
        theirs: The files of which the new version is taken where they conflict.
    """
    if paths.is_file(folder):
        raise UsageError(f"{folder} is an archive, and an upgrade keeps the edits of a folder", hint="unpack it first")
    if overlay := outside.find(folder):
        raise UsageError(f"{folder} is an overlay of {overlay.package}", hint=overlay.carry_over)
    workfolder.sweep_once(folder.resolve().parent)
    with opened(folder) as old, opened(newer) as new:
        if old.name != new.name:
            message = f"{newer} is the package {new.name}, and {folder} is {old.name}"
            raise UsageError(message, hint="an upgrade is to a newer build of the same package")
        if problems := integrity.check(new, DEFAULT).problems:
            raise VerificationError(f"{newer} is not valid", problems=problems)
        if old.digest == new.digest:
            yield PreparedUpgrade(old, new, UpgradePlan(), {})
            return
        stamps = _stamps(old, new)
        choices = _choices(old, yours, theirs)
        with _with_files(new, additions.carry(old, new)) as completed:
            content = plan(old, completed, choices)
            if unused := choices.keys() - {conflict.path for conflict in content.decided}:
                path = min(unused)
                raise UsageError(f"--{choices[path]} {path}: this file of the package has no conflict")
            yield PreparedUpgrade(old, completed, content, stamps)


@contextmanager
def _with_files(package: Package, files: Mapping[str, bytes]) -> Iterator[Package]:
    """Yield a copy of a package with other contents of files, and with the options among them in its inventory."""
    if not files:
        yield package
        return
    with workfolder.temporary() as work:
        folder = work / "package"
        shutil.copytree(package.folder, folder)
        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        copied = replace(package, folder=folder, reader=Reader(folder, package.shown))
        yield integrity.with_added_options(copied, {entry.path: entry for entry in tree.walk(folder)})[0]


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


def check(
    upgrade: PreparedUpgrade,
    folder: Path,
    kubectl: str,
    runner: Runner = SYSTEM,
    accepted: Level | None = None,
) -> tuple[str, ...]:
    """Render and verify the package as it is and as it will be.

    Args:
        upgrade: The upgrade.
        folder: The folder with its result.
        kubectl: The kubectl that renders.
        runner: Starts kubectl.
        accepted: The weakest Pod Security level that the new package may need; None for that of the present one.

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
    """Write the upgrade: all of it, or nothing; return the paths of the changed files, for people.

    Raises:
        ToolError: A file cannot be written, or has changed meanwhile.
    """
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
                shutil.copytree(old.folder / name, folder / name, copy_function=_link, symlinks=True)
            else:
                _link(old.folder / name, folder / name)
        for path in [folder, *(path for path in folder.rglob("*") if path.is_dir() and not path.is_symlink())]:
            before = old.folder / path.relative_to(folder)
            path.chmod(before.stat().st_mode & 0o7777 if before.is_dir() else 0o755)
        with opened(folder, shown_as=old.source):
            pass  # no file of the user has a name that is the same as another's where case is ignored
        if _stamps(old, upgrade.new) != upgrade.stamps:
            message = f"a file of {old.source} changed since it was read; nothing was changed"
            raise ToolError(message, hint="try again when no program is writing to it")
    return tuple(old.shown(path) for path in (*(file.path for file in upgrade.plan.changes), INVENTORY))


def _tops(*packages: Package) -> set[str]:
    """Return the names in a package's folder that have files of the package."""
    return {INVENTORY, *(path.partition("/")[0] for package in packages for path in package.inventory["files"])}


def _stamps(old: Package, new: Package) -> dict[str, tuple[int, ...]]:
    """Return the inode, the size and the time of each file of the old package that an upgrade reads, by path."""
    tops = _tops(old, new)
    found = [entry.path for entry in tree.walk(old.folder) if entry.path.partition("/")[0] in tops]
    statuses = {path: (old.folder / path).stat() for path in found}
    return {path: (status.st_ino, status.st_size, status.st_mtime_ns) for path, status in statuses.items()}


def _write_package(upgrade: PreparedUpgrade, folder: Path) -> None:
    """Write the result into an empty folder, without what the user has beside the package's files and folders.

    Files that stay as they are become links where that is possible: the old folder is removed afterwards.
    """
    old, new = upgrade.old, upgrade.new
    planned = {file.path: file for file in upgrade.plan.files}
    own = upgrade.stamps.keys() - old.inventory["files"].keys() - {INVENTORY}
    for path in sorted({*new.inventory["files"], *own, *planned}):
        file = planned.get(path)
        if file is None or file.action is FileResult.kept:
            if path in upgrade.stamps:
                _link(old.folder / path, folder / path)
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
    mode = _MODES[file.mode or "0644"]
    if present.is_file():  # only the bits to execute it change
        kept = present.stat().st_mode & 0o666
        mode = kept | (kept >> 2 & 0o111 if mode & 0o111 else 0)
    path.chmod(mode)


def _link(source: str | Path, path: str | Path) -> None:
    """Give a file another name, or copy it where that is not possible."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, path, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, path, follow_symlinks=False)

"""Upgrades a package's folder to a newer package, and carries the user's edits over."""

from __future__ import annotations

import os
import posixpath
import shutil
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packager.base import paths, workfolder
from packager.base.errors import MlpackError, ToolError, UnansweredError, UsageError, VerificationError
from packager.base.limits import DEFAULT
from packager.base.problems import Problem
from packager.base.runner import SYSTEM
from packager.configure.upgrade import plan as stage
from packager.configure.upgrade.plan import FileResult, UpgradePlan
from packager.configure.upgrade.replay import Choice, Conflict, OwnText
from packager.kubernetes.podsecurity import Level
from packager.package import integrity, inventory, journal, layout
from packager.package.editable import is_editable
from packager.package.layout import INVENTORY, is_added
from packager.package.opened import opened

__all__ = [
    "Choice",
    "Conflict",
    "Decisions",
    "OwnText",
    "PreparedUpgrade",
    "check",
    "complete",
    "prepared",
    "undo",
    "write",
]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from packager.base.runner import Runner
    from packager.configure.upgrade.plan import PlannedFile
    from packager.configure.upgrade.replay import Answer
    from packager.package.opened import Package
    from packager.verify.report import Report

    Archives = Callable[[], Iterable[Path]]


_MOST_ARCHIVES = 100
"""The most archives that are opened to find the delivered package."""


@dataclass(frozen=True, slots=True)
class PreparedUpgrade:
    """An upgrade that has been decided and not written yet.

    Attributes:
        old: The user's package.
        new: The newer package.
        plan: The result for each file, and the conflicts.
        base: The archive that the delivered files were read from; None if the inventories have all that is needed.
    """

    old: Package
    new: Package
    plan: UpgradePlan
    base: Path | None = None

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
        return tuple(_problem(self.old, conflict) for conflict in self.plan.conflicts)

    @property
    def decided(self) -> tuple[Problem, ...]:
        """The decided conflicts as problems."""
        return tuple(_problem(self.old, conflict) for conflict in self.plan.decided)

    @property
    def unexpected(self) -> tuple[str, ...]:
        """The paths of the files that keep an edit, or were added, although people are not meant to edit them."""
        return tuple(
            file.path
            for file in self.plan.files
            if file.action in (FileResult.merged, FileResult.moved, FileResult.kept)
            and not (is_editable(file.path) or is_added(file.path))
        )

    @property
    def error(self) -> UnansweredError:
        """The error about the undecided conflicts."""
        count = len(self.plan.conflicts)
        hint = "--yours FILE keeps your version, --theirs FILE takes the new one, --mark writes both into the file"
        if self.base is None and any(conflict.is_unmerged for conflict in self.plan.conflicts):
            hint += f"; --base OLD merges whole files: the package with the digest {self.old.digest}"
        return UnansweredError(
            f"{count} conflict{'s' if count > 1 else ''}: {self.old.source} was left as it is",
            hint=hint,
            problems=self.conflicts,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints; values that may be secret are masked."""
        return {
            "package": self.old.name,
            "from": {"version": self.old.version, "digest": self.old.digest},
            "to": {"version": self.new.version, "digest": self.new.digest},
            "files": [
                {"file": file.path, "action": file.action, "moved_from": file.moved_from} for file in self.plan.files
            ],
            "base": None if self.base is None else str(self.base),
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


@dataclass(frozen=True, slots=True)
class Decisions:
    """The user's decisions about conflicts.

    Attributes:
        yours: The files of which the user's version is taken where they conflict.
        theirs: The files of which the new version is taken where they conflict.
        ask: Returns the answer to a conflict in any other file, or None for none; it also receives the conflict as a
            problem.
    """

    yours: tuple[str, ...] = ()
    theirs: tuple[str, ...] = ()
    ask: Callable[[Problem, Conflict], Answer | None] = lambda *_: None


@contextmanager
def prepared(
    folder: Path, newer: Path, decisions: Decisions, *, base: Path | None = None, archives: Archives = lambda: ()
) -> Iterator[PreparedUpgrade]:
    """Open the packages and decide the result for each file; nothing is written.

    Args:
        folder: The folder of the user's package.
        newer: The newer package: a folder or an archive.
        decisions: The decisions about conflicts.
        base: The package that `folder` was unpacked from, for files whose delivered text its inventory lacks; None to
            look for it beside `folder` and in `archives`.
        archives: Returns the paths of other archives that may be this package.

    Raises:
        UsageError: A path is not a package, or not the same one, or a named file has no conflict.
        VerificationError: A package is invalid, or has the marks of an earlier upgrade.
        ToolError: A file cannot be read.
    """
    if paths.is_file(folder):
        raise UsageError(f"{folder} is an archive, and an upgrade keeps the edits of a folder", hint="unpack it first")
    workfolder.sweep_once(folder)
    with (
        opened(folder) as old,
        opened(newer) as new,
        opened(base) if base else nullcontext() as original,
        ExitStack() as stack,
    ):
        if old.name != new.name:
            message = f"{newer} is the package {new.name}, and {folder} is {old.name}"
            raise UsageError(message, hint="an upgrade is to a newer build of the same package")
        if original and original.digest != old.digest:
            hint = f"{folder} was unpacked from the package with the digest {old.digest}"
            raise UsageError(f"--base {base}: its digest is {original.digest}", hint=hint)
        if places := list(integrity.undecided(old)):
            raise VerificationError(f"{folder} has conflicts of an earlier upgrade", problems=places)
        if problems := integrity.check(new, DEFAULT).problems:
            raise VerificationError(f"{newer} is not valid", problems=problems)
        if old.digest == new.digest:
            yield PreparedUpgrade(old, new, UpgradePlan((), (), (), (), ()))
            return
        choices = _Choices(old, decisions)
        archive = _DeliveredPackage(old, original, archives, stack)
        plan = stage.plan(old, new, archive.opened, choices.decide)
        choices.refuse_unused()
        yield PreparedUpgrade(old, new, plan, archive.source)


class _DeliveredPackage:
    """The package that the user's one was unpacked from, opened when it is needed.

    Args:
        old: The user's package.
        named: The package that the user names; None to look for it.
        archives: Returns the paths of other archives that may be it.
        stack: Closes the package.

    Attributes:
        source: The path of the package; None if it was not needed, or not found.
    """

    def __init__(self, old: Package, named: Package | None, archives: Archives, stack: ExitStack) -> None:
        self._old, self._archives, self._stack = old, archives, stack
        self._package = named
        self._is_open = named is not None
        self.source: Path | None = None

    def opened(self) -> Package | None:
        """Return the package; None if none was found."""
        if not self._is_open:
            self._is_open = True
            self._package = next(self._found(), None)
        if self._package is not None:
            self.source = self._package.source
        return self._package

    def _found(self) -> Iterator[Package]:
        """Yield the packages of the same digest: an archive beside the folder, or another one."""
        folder = Path(os.path.abspath(self._old.source)).parent  # noqa: PTH100 - no link is followed
        for path in islice(chain(sorted(folder.glob("*.tar.gz")), self._archives()), _MOST_ARCHIVES):
            with suppress(MlpackError, OSError), ExitStack() as attempt:
                package = attempt.enter_context(opened(path))
                if package.digest == self._old.digest:
                    self._stack.push(attempt.pop_all())
                    yield package


class _Choices:
    """The choices of the user, by file; other conflicts are asked about."""

    def __init__(self, old: Package, decisions: Decisions) -> None:
        self._old = old
        self._ask = decisions.ask
        yours, theirs = ({self._path(name) for name in names} for names in (decisions.yours, decisions.theirs))
        if both := yours & theirs:
            raise UsageError(f"--yours and --theirs both name {min(both)}")
        self._choices = dict.fromkeys(yours, Choice.yours) | dict.fromkeys(theirs, Choice.theirs)
        self._unused = set(self._choices)

    def _path(self, name: str) -> str:
        """Return the path below the package's root of a file, which the user may name with the package's folder."""
        path = posixpath.normpath(name)
        is_below = path in self._old.inventory["files"] or (self._old.folder / path).is_file()
        if is_below and not posixpath.isabs(path):
            return path
        root, place = (os.path.abspath(part) for part in (self._old.source, name))  # noqa: PTH100 - no link is followed
        return posixpath.relpath(place, root) if place.startswith(f"{root}/") else path

    def decide(self, conflict: Conflict) -> Answer | None:
        """Return the answer to a conflict."""
        self._unused.discard(conflict.path)
        return self._choices.get(conflict.path) or self._ask(_problem(self._old, conflict), conflict)

    def refuse_unused(self) -> None:
        """Refuse a choice for a file without a conflict: its name may be misspelled.

        Raises:
            UsageError: There is one.
        """
        if self._unused:
            path = min(self._unused)
            raise UsageError(f"--{self._choices[path]} {path}: this file of the package has no conflict")


def _problem(package: Package, conflict: Conflict) -> Problem:
    """Return a conflict as a problem at its place in the user's package."""
    return Problem(package.shown(conflict.path), conflict.line, min(conflict.line, 1), conflict.message)


def check(
    upgrade: PreparedUpgrade,
    kubectl: str,
    runner: Runner = SYSTEM,
    accepted: Level | None = None,
) -> tuple[str, ...]:
    """Render and verify the package as it is and as it will be.

    Args:
        upgrade: The upgrade.
        kubectl: The kubectl that renders.
        runner: Starts kubectl.
        accepted: The weakest Pod Security level that the new package may need; None for that of the present one.

    Returns:
        The facts about what the new package takes from its surroundings, such as claims, and the present one does not.

    Raises:
        VerificationError: The package would have problems that the present one does not have, or a weaker level.
        ToolError: A part could not be checked, such as without kubectl.
    """
    with workfolder.temporary() as folder:
        _write_result(upgrade, folder)
        with opened(folder, shown_as=upgrade.old.source) as package:
            from packager import verify as verification
            from packager.verify.taken import newly_taken

            checks = verification.Checks(kubectls=(kubectl,), runner=runner, has_notes=False)
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


def write(upgrade: PreparedUpgrade) -> tuple[str, ...]:
    """Write the upgrade: all of it, or nothing; return the paths of the changed files, for people.

    Raises:
        UnansweredError: A conflict is undecided and cannot be marked, as it is about a whole file.
        ToolError: A file cannot be written, or has changed meanwhile.
    """
    if any(conflict.line == 0 for conflict in upgrade.plan.conflicts):
        raise upgrade.error
    old, new = upgrade.old, upgrade.new
    changes = sorted(upgrade.plan.changes, key=lambda file: (file.mode is not None, file.path))
    steps = [
        journal.Step(file.path, file.before.digest if file.before else None, *_result(new, file)) for file in changes
    ]
    sealed = journal.Step(INVENTORY, old.digest.removeprefix("sha256:"), "0644", inventory.content(new.folder))
    journal.change(old.folder, [*steps, sealed])
    return tuple(old.shown(step.path) for step in (*steps, sealed))


def complete(folder: Path) -> None:
    """Complete an upgrade that was interrupted. Raises the errors of `journal.complete`."""
    journal.complete(folder)


def undo(folder: Path) -> None:
    """Restore the package as it was before an upgrade that was interrupted. Raises the errors of `journal.undo`."""
    journal.undo(folder)


def _result(new: Package, file: PlannedFile) -> tuple[str | None, bytes | Path | None]:
    """Return the mode and the content of a file after the upgrade; None if it is removed."""
    if file.mode is None:
        return None, None
    return file.mode, new.folder / file.path if file.content is None else file.content


def _write_result(upgrade: PreparedUpgrade, folder: Path) -> None:
    """Write the package as it will be into an empty folder; large files are links where that is possible."""
    files = {file.path: file for file in upgrade.plan.files}
    for path in upgrade.new.inventory["files"]:
        if path not in files:
            _copy(upgrade.new.folder / path, folder / path)
    for file in files.values():
        if file.mode is None:
            continue
        source = upgrade.old.folder if file.action is FileResult.kept else upgrade.new.folder
        if file.content is None:
            _copy(source / file.path, folder / file.path)
        else:
            (folder / file.path).parent.mkdir(parents=True, exist_ok=True)
            (folder / file.path).write_bytes(file.content)
        path = folder / file.path
        if file.content is None and path.stat().st_mode & 0o777 != int(file.mode, 8):
            path.unlink()  # the other name of a link keeps its mode
            shutil.copyfile(source / file.path, path)
        if path.stat().st_nlink == 1:
            path.chmod(int(file.mode, 8))
    _copy(upgrade.new.folder / INVENTORY, folder / INVENTORY)


def _copy(source: Path, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, path, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, path, follow_symlinks=False)

"""SIGKILL in the middle of what writes: each output is the old one or the new one, whole, and no other file is touched.

Each run is a process of its own, forked from one that has imported everything: the moments then fall into the work, not
into the start of Python. Beside the outputs, and among the temporary files, lie files and folders of somebody else's,
some of which are called like ours.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import signal
import stat
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from packager import cli
from packager.base import workfolder
from packager.modelspec.catalog import bundled
from tests.fuzz.writes import is_change

Argv = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A command that is killed."""

    name: str  # in the table
    killed: Argv  # the arguments of the command that is killed
    before: tuple[Argv, ...] = ()  # the commands that run to their ends first
    each_file: bool = False  # whether each file is an output, rather than each entry of the folder
    results: tuple[str, ...] = ()  # the files that jobs have written before the command runs

    @property
    def again(self) -> Argv:
        """The arguments of the next command, after which no files of the killed one are left."""
        return self.killed if self.killed != _BUILD else (*_BUILD, "--force")


_OLD, _NEW = ("--registry", "old.example.com"), ("--registry", "new.example.com")
_BUILD = ("build", "hello-mpi")
_CONFIGURE = ("configure", "hello-mpi.tar.gz", "-d", "mine.tar.gz")
_ALL = ("build", "--all", "--specs", "../models")
_ARCHIVE, _FOLDER = (_BUILD,), ((*_BUILD, "--format", "dir"),)

SCENARIOS = (
    Scenario("build", _BUILD),
    Scenario("build --force", (*_BUILD, *_NEW, "--force"), ((*_BUILD, *_OLD),)),
    Scenario("build --format dir --force", (*_FOLDER[0], *_NEW, "--force"), ((*_FOLDER[0], *_OLD),)),
    Scenario("build --all --force", (*_ALL, *_NEW, "--force"), _ARCHIVE),
    Scenario("configure", ("configure", "hello-mpi", *_NEW), _FOLDER, each_file=True),
    Scenario("configure -d --force", (*_CONFIGURE, *_NEW, "--force"), (*_ARCHIVE, (*_CONFIGURE, *_OLD))),
    Scenario(
        "upgrade",
        ("upgrade", "hello-mpi", "hello-mpi.tar.gz", "--no-verify"),
        (
            *_FOLDER,
            ("configure", "hello-mpi", *_OLD),
            (*_BUILD, "--add", "environment.BATCH=8", "--registry", "docker.io", "--with", "root"),
        ),
        results=("hello-mpi/output/checkpoints/last", "hello-mpi/logs/run"),
    ),
)

_WORK_FOLDER = re.compile(r"\.mlpack-work-[a-z0-9_]{8}")
_USER_FILES = (
    ".mlpack-site/site.env",
    ".mlpack-abcdefgh/a/b",
    "thesis.tex",
)

State = dict[str, tuple[int, bytes]]
"""Each file, link and folder by its path: its mode, and what is in it."""


class Trial:
    """One scenario in a folder of its own: what a whole run makes is found out first."""

    def __init__(self, scenario: Scenario, work: Path) -> None:
        self._scenario = scenario
        self._out, self._temporary = work / "out", work / "tmp"
        self._log, self._modules = work / "log", work / "modules"
        self._out.mkdir(parents=True)
        self._temporary.mkdir()
        for name in ("hello-mpi", "second"):
            model = shutil.copytree(bundled() / "hello-mpi", work / "models" / name)
            spec = model / "spec.yaml"
            spec.write_text(spec.read_text().replace("name: hello-mpi\n", f"name: {name}\n", 1))
        for argv in scenario.before:
            assert _end(self._start(argv)) == 0, self._log.read_text()
        for name in scenario.results:
            (self._out / name).parent.mkdir(parents=True)
            (self._out / name).write_bytes(b"results")
        self._kept = _state(self._out)
        self._empty()
        self._old = _state(self._out)
        self._import_modules()
        assert _end(self._start(scenario.killed)) == 0, self._log.read_text()
        self._new = _state(self._out)
        assert _end(self._start(scenario.again)) == 0, self._log.read_text()
        self._after = _state(self._out)
        self.killed = 0  # how many runs were killed before their ends
        self.left = 0  # how many of them left a work folder

    def _import_modules(self) -> None:
        """Import the modules that a whole run imports, so that no later run takes time for it."""
        assert _end(self._start(self._scenario.killed)) == 0, self._log.read_text()
        for name in self._modules.read_text().split():
            importlib.import_module(name)
        self._empty()

    def kill_before(self, step: int) -> str | None:
        """Kill a run right before one of its steps, counted from 0, and return the fault of what it left, or None."""
        self._empty()
        theirs = self._inodes()
        ended = _end(self._start(self._scenario.killed, step))
        self.killed += ended == -signal.SIGKILL
        wrong = f"it ended with {ended}" if ended > 0 else self._judge() or self._judge_user_files(theirs)
        if not wrong:
            self._age_work_folders()
            code = _end(self._start(self._scenario.again))
            wrong = f"the next run ended with {code}" if code else self._judge_again() or self._judge_user_files(theirs)
        return wrong

    def _age_work_folders(self) -> None:
        """Make the work folders old: one whose process was killed before it had a lock is removed after a day only."""
        for folder in (self._out, self._temporary):
            for path in filter(_has_work_folder, _state(folder)):
                os.utime(folder / path, (0, 0))

    def _judge(self) -> str | None:
        """Return the outputs that are neither old nor new after the kill; work folders may exist."""
        contents = _state(self._out)
        ours = {name for name in _tops(contents) | _tops(_state(self._temporary)) if _is_work_folder(name)}
        self.left += bool(ours) or any(map(_has_work_folder, contents))
        kept = {path: value for path, value in contents.items() if not _has_work_folder(path)}
        for output in {self._output(path) for path in kept.keys() | self._old.keys() | self._new.keys()}:
            now, old, new = (self._within(state, output) for state in (kept, self._old, self._new))
            if now not in (old, new):
                return f"{output} is neither the old one nor the new one"
        return None

    def _judge_again(self) -> str | None:
        contents = _state(self._out)
        if left := [path for path in contents.keys() | _state(self._temporary) if _has_work_folder(path)]:
            return f"the next run left {left}"
        for output in {self._output(path) for path in contents.keys() | self._after.keys()}:
            if self._within(contents, output) != self._within(self._after, output):
                return f"the next run made something else of {output}"
        return None

    def _judge_user_files(self, before: dict[str, tuple[int, int]]) -> str | None:
        return None if self._inodes() == before else "somebody else's files were touched"

    def _output(self, path: str) -> str:
        return path if self._scenario.each_file else path.partition("/")[0]

    def _within(self, state: State, output: str) -> State:
        if self._scenario.each_file:
            return {output: state[output]} if output in state else {}
        return {path: value for path, value in state.items() if path.partition("/")[0] == output}

    def _inodes(self) -> dict[str, tuple[int, int]]:
        return {
            f"{folder.name}/{name}": (status.st_ino, status.st_mtime_ns)
            for folder in (self._out, self._temporary)
            for name in _USER_FILES
            if (status := (folder / name).lstat())
        }

    def _empty(self) -> None:
        """Make the folders as they were before the first run; what a run has left as it was is not written again."""
        _restore(self._out, self._kept | _user_entries())
        _restore(self._temporary, _user_entries())

    def _start(self, argv: Argv, step: int | None = None) -> int:
        child = os.fork()
        if child == 0:
            self._run(argv, step)
        return child

    def _run(self, argv: Argv, step: int | None) -> NoReturn:
        os.chdir(self._out)
        os.environ["TMPDIR"] = tempfile.tempdir = str(self._temporary)  # Python keeps what it has once found
        if step is not None:
            _kill_before(step)
        log, code = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1
        try:
            code = _run_command(argv, log)
        finally:
            self._modules.write_text("\n".join(name for name in sys.modules if name.startswith("packager.")))
            os._exit(code)


def kill_before_each_step(scenario: Scenario, work: Path) -> tuple[list[str | None], int, int]:
    """Kill runs of a scenario before the first step, the second and so on, until one ends before its step.

    Return what `Trial.kill_before` does for each run, and how many runs were killed and left a work folder.
    """
    trial = Trial(scenario, work)
    wrong: list[str | None] = []
    while trial.killed == len(wrong):
        wrong.append(trial.kill_before(len(wrong)))
    return wrong, trial.killed, trial.left


def _run_command(argv: Argv, log: int) -> int:
    """Run a command that prints into an open file, and return its exit code."""
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w", 1), os.fdopen(2, "w", 1)  # instead of those of pytest
    sys.argv = ["mlpack", *argv]
    workfolder.sweep_once.cache_clear()  # of what the process that was forked has swept
    try:
        cli.main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    return 1


def _is_work_folder(name: str) -> bool:
    return _WORK_FOLDER.fullmatch(name) is not None


def _has_work_folder(path: str) -> bool:
    return any(map(_is_work_folder, path.split("/")))


def _tops(state: State) -> set[str]:
    return {path.partition("/")[0] for path in state}


def _state(folder: Path) -> State:
    entries = {}
    for parent, folders, files, descriptor in os.fwalk(folder):  # a long path is looked up once, which NFS is slow at
        above = os.path.relpath(parent, folder)
        for name in (*folders, *files):
            mode, content = os.lstat(name, dir_fd=descriptor).st_mode, b""
            if stat.S_ISREG(mode):
                with os.fdopen(os.open(name, os.O_RDONLY, dir_fd=descriptor), "rb") as stream:
                    content = stream.read()
            entries[os.path.normpath(f"{above}/{name}")] = (mode, content)
    return entries


def _user_entries() -> State:
    """Return the files that are not of mlpack, and their folders."""
    entries: State = {}
    for name in _USER_FILES:
        entries |= {str(parent): (stat.S_IFDIR | 0o700, b"") for parent in Path(name).parents[:-1]}
        entries[name] = (stat.S_IFREG | 0o644, b"theirs")
    return entries


def _restore(folder: Path, entries: State) -> None:
    """Make a folder have these entries and no others."""
    folder.mkdir(exist_ok=True)
    now = _state(folder)
    for path in sorted(now, reverse=True):
        is_folder = stat.S_ISDIR(now[path][0])
        if path not in entries or (now[path] != entries[path] and not is_folder):
            (folder / path).rmdir() if is_folder else (folder / path).unlink()
            del now[path]
    for path, (mode, content) in sorted(entries.items()):
        if path not in now and stat.S_ISDIR(mode):
            (folder / path).mkdir()
        elif path not in now:
            (folder / path).write_bytes(content)
        if now.get(path, (0, b""))[0] != mode:
            (folder / path).chmod(stat.S_IMODE(mode))


def _is_step(event: str, arguments: tuple[Any, ...]) -> bool:
    """Whether an event, as Python tells it, is a step from old to new: what makes, locks, or removes a work folder."""
    if event in ("fcntl.flock", "os.link", "os.rename"):
        return True
    if not is_change(event, arguments) or isinstance(arguments[0], int):
        return False
    name = os.path.basename(os.fsdecode(arguments[0]))  # noqa: PTH119
    return _is_work_folder(name) or name in ("unlocked", "lock", "file", "folder")


def _kill_before(step: int) -> None:
    """Kill this process right before one of its steps, which are counted from 0."""
    left = step

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if _is_step(event, arguments):
            left -= 1
            if left == -1:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


def _end(child: int) -> int:
    """Return the exit code of a child, or the signal that ended it, below 0."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

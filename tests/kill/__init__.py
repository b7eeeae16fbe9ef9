"""SIGKILL at random moments of a build: what is there afterwards is the old package or the new one, whole.

    python -m tests.kill -n 1000 [--seed S]

Each build is a process of its own, forked from one that has imported everything: the moments then fall into the
build, not into the start of Python.
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from packager import cli
from packager.contents import DEFAULT
from packager.errors import MlpackError
from packager.package import opened
from packager.verify import files

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random


@dataclass(frozen=True, slots=True)
class Scenario:
    """A build that is killed.

    Attributes:
        name: What it shows.
        before: The arguments of the build that runs to its end first; none for an empty folder.
        killed: The arguments of the build that is killed.
    """

    name: str
    before: tuple[str, ...] | None
    killed: tuple[str, ...]


# What a verb imports when it runs: once here, rather than in each child.
for _module in ("archive", "atomic", "plan", "render", "spec.catalog", "spec.load", "tree"):
    importlib.import_module(f"packager.{_module}")

_OLD, _NEW = ("--registry", "old.example.com"), ("--registry", "new.example.com", "--force")
SCENARIOS = (
    Scenario("build", None, ("build", "hello-mpi")),
    Scenario("build --force", ("build", "hello-mpi", *_OLD), ("build", "hello-mpi", *_NEW)),
    Scenario(
        "build --force --format dir",
        ("build", "hello-mpi", "--format", "dir", *_OLD),
        ("build", "hello-mpi", "--format", "dir", *_NEW),
    ),
    Scenario("build --all", None, ("build", "--all")),
    Scenario("build --all --force", ("build", "--all", *_OLD), ("build", "--all", *_NEW)),
)


_COLD = 0.3
"""How often the compiled templates are not there yet: then most of the time goes into compiling them."""


class Trial:
    """One scenario in a folder of its own: what a whole build writes, and how long it takes, is found out first."""

    def __init__(self, scenario: Scenario, work: Path) -> None:
        self._scenario = scenario
        self._destination = work / "out"
        self._cache = work / "cache"
        self._kept = work / "kept"
        self._work = work
        work.mkdir()
        self._old = self._whole(scenario.before) if scenario.before else {}
        if self._old:
            self._destination.rename(self._kept)
        began = time.monotonic()
        self._new = self._whole(scenario.killed)
        self._seconds = time.monotonic() - began

    def kill(self, random: Random) -> str | None:
        """Kill a build, and return what was wrong with what it left; None when nothing was."""
        self._empty(cold=random.random() < _COLD)
        if self._old:
            shutil.copytree(self._kept, self._destination, dirs_exist_ok=True)
        child = self._start(self._scenario.killed)
        time.sleep(random.uniform(0, self._seconds))
        os.kill(child, signal.SIGKILL)
        _wait(child, may_be_killed=True)
        if wrong := self._judge():
            return wrong
        again = self._start((*self._scenario.killed, *(() if "--force" in self._scenario.killed else ("--force",))))
        if _wait(again) != 0:
            return "the next build failed"
        if self._outputs() != self._new:
            return f"the next build wrote something else: {self._outputs()}"
        left = [path.name for path in self._destination.iterdir() if path.name not in self._new]
        left += [path.name for path in self._cache.rglob("*") if path.suffix == ".tmp" or path.name.startswith(".")]
        return f"the next build left {left}" if left else None

    def _judge(self) -> str | None:
        if not self._destination.exists():
            return None
        for name, digest in self._outputs().items():
            if digest not in (self._old.get(name), self._new.get(name)):
                return f"{name} is neither the old one nor the new one: {digest}"
        missing = self._old.keys() - self._outputs().keys()
        return f"{missing} were there, and are gone" if missing else None

    def _outputs(self) -> dict[str, str]:
        """Return what each output is: its digest, or what is wrong with it. Hidden names are nobody's output."""
        found = {}
        for path in sorted(self._destination.iterdir()):
            if path.name.startswith("."):
                continue
            try:
                with opened(path) as package:
                    problems, edits = files.check(package, DEFAULT)
                    found[path.name] = package.digest if not problems and not edits else str(problems or edits)
            except MlpackError as error:
                found[path.name] = str(error)
        return found

    def _whole(self, argv: tuple[str, ...]) -> dict[str, str]:
        self._empty()
        assert _wait(self._start(argv)) == 0
        return self._outputs()

    def _empty(self, *, cold: bool = True) -> None:
        for folder in (self._destination, *((self._cache,) if cold else ())):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()

    def _start(self, argv: tuple[str, ...]) -> int:
        child = os.fork()
        if child == 0:
            self._build([*argv, "-d", str(self._destination)])
        return child

    def _build(self, argv: list[str]) -> NoReturn:
        os.environ["XDG_CACHE_HOME"] = str(self._cache)
        silence = os.open(self._work / "said", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        sys.argv = ["mlpack", *argv]
        code = 1
        try:
            cli.main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        finally:
            os._exit(code)


def _wait(child: int, *, may_be_killed: bool = False) -> int:
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and not may_be_killed:
        return 128 + os.WTERMSIG(status)
    return os.waitstatus_to_exitcode(status) if not os.WIFSIGNALED(status) else 128 + signal.SIGKILL

"""Test that docs/session.md shows the screens that a terminal shows; the test produces them in a fake cluster."""

import re
import shlex
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from packager import cli
from packager.cli.host import Host
from tests import demo
from tests.broken import pack
from tests.life import JOB, Life, launcher, worker
from tests.screen import Screen, Typed, Written

PAGE = demo.CHECKOUT / "docs/session.md"
STARTING = {"waiting": {"reason": "ContainerCreating"}}
LOG = (
    "starting 2 ranks on 2 workers",
    f"rank 1 of 2: host {JOB}-worker-1, uid 1000, gid 1000",
    f"rank 0 of 2: host {JOB}-worker-0, uid 1000, gid 1000",
    f'{{"model": "hello-mpi", "ranks": 2, "host": "{JOB}-worker-0", "uid": 1000, "gid": 1000, "keys": 4}}',
)
FAILED = """\
starting 2 ranks on 2 workers
rank 0: this script ends with 3
prterun detected that one or more processes exited with non-zero status
rank 1: this script ends with 3
"""
NO_ROOM = (
    "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found."
)
IMAGE = "registry.example.com/mpioperator/mpi-pi:openmpi"
NO_IMAGE = (
    f'Failed to pull image "{IMAGE}": failed to do request: Head '
    '"https://registry.example.com/v2/mpioperator/mpi-pi/manifests/openmpi": dial tcp: lookup registry.example.com on '
    "10.0.0.10:53: no such host"
)


class Terminal:
    """A terminal on which the test types commands.

    Attributes:
        frames: The screens that it has shown while the last command waited; each begins with the command.
    """

    def __init__(self, life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
        self.life, self._monkeypatch = life, monkeypatch
        self.screen = Screen()
        self.frames: list[str] = []

    def run(self, command: str, typed: str = "") -> str:
        """Type a command and the answers to its questions, and return the screen when the command has ended."""
        self.screen = Screen()
        self.frames = []
        self.screen.write(f"$ {command}\n")
        monkeypatch = self._monkeypatch
        for name in ("stdout", "stderr"):
            monkeypatch.setattr(sys, name, Written(self.screen))
        monkeypatch.setattr(sys, "stdin", Typed(self.screen, typed))
        with pytest.raises(SystemExit):
            cli.main(shlex.split(command)[1:], host=Host(self.life, "ada@laptop"))
        return self.screen.text

    def frame(self, word: str) -> str:
        """Return the first screen that contains `word`."""
        shown = [frame for frame in self.frames if word in frame]
        assert shown, self.frames
        return shown[0]

    def look(self) -> None:
        """Append the current screen to the frames."""
        self.frames.append(self.screen.text)


@pytest.fixture
def terminal(life: Life, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal with a fake cluster, in which nothing is deployed; its folder contains the archive of hello-mpi."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TZ", "UTC")
    pack(Path("hello-mpi"), Path("hello-mpi.tar.gz"))
    made = Terminal(life, monkeypatch)
    life.wait = lambda _seconds: made.look()
    return made


def screens(terminal: Terminal) -> Iterator[str]:
    """Yield each screen of the page."""
    life = terminal.life
    yield from _screens_of_deployment(terminal)
    yield from _screens_of_detached_job(terminal)
    life.remove_all()
    yield from _screens_of_failure(terminal)
    life.remove_all()
    yield from _screens_of_unschedulable_job(terminal)
    yield terminal.run("mlpack delete hello-mpi.tar.gz -n team")


def _screens_of_deployment(terminal: Terminal) -> Iterator[str]:
    life = terminal.life

    def run() -> None:
        _run(life)
        _say(life, *LOG)

    life.moments = [lambda: None, lambda: _start(life), run, life.end]
    end = terminal.run("mlpack deploy hello-mpi.tar.gz -n team", typed="y\n")
    yield terminal.frame("Starting")
    yield terminal.frame("Running")
    yield end
    yield terminal.run("mlpack logs hello-mpi.tar.gz -n team")
    life.moments = [lambda: None, lambda: None, lambda: None, lambda: None, life.end]
    yield terminal.run("mlpack deploy hello-mpi.tar.gz -n team", typed="y\n")


def _screens_of_detached_job(terminal: Terminal) -> Iterator[str]:
    life = terminal.life

    def wait(_seconds: float) -> None:
        terminal.look()
        if "Running" in terminal.frames[-1]:
            signal.raise_signal(signal.SIGINT)

    def run() -> None:
        _run(life)
        _say(life, "rank 0: epoch 1", "rank 0: epoch 2")

    life.remove_all()
    life.wait = wait
    life.moments = [lambda: _start(life), run]
    end = terminal.run("mlpack deploy hello-mpi.tar.gz -n team", typed="y\n")
    yield terminal.frame("Running")
    yield end
    yield terminal.run("mlpack status hello-mpi.tar.gz -n team")
    life.wait = lambda _seconds: terminal.look()


def _screens_of_failure(terminal: Terminal) -> Iterator[str]:
    life = terminal.life
    life.deploy()
    life.start()
    ended = {"terminated": {"exitCode": 3, "reason": "Error", "message": FAILED}}
    life.objects = [obj for obj in life.objects if obj["metadata"]["name"] != f"{JOB}-launcher-0"]
    life.objects.append(launcher(state=ended, phase="Failed"))
    life.end("Failed", reason="BackoffLimitExceeded", message="Job has reached the specified backoff limit")
    yield terminal.run("mlpack status hello-mpi.tar.gz -n team")


def _screens_of_unschedulable_job(terminal: Terminal) -> Iterator[str]:
    life = terminal.life

    def start() -> None:
        pending = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": NO_ROOM}
        main = launcher(state={"waiting": {"reason": "ErrImagePull", "message": NO_IMAGE}}, phase="Pending")
        main["spec"]["containers"][0]["image"] = main["status"]["containerStatuses"][0]["image"] = IMAGE
        replicas = life.find("MPIJob", JOB)["spec"]["mpiReplicaSpecs"]
        replicas["Launcher"]["template"]["spec"]["containers"][0]["image"] = IMAGE
        life.objects += [
            main,
            *(worker(index, phase="Pending", conditions=[pending], containerStatuses=[]) for index in (0, 1)),
        ]

    life.moments = [start]
    end = terminal.run("mlpack deploy hello-mpi.tar.gz -n team", typed="y\n")
    yield terminal.frame("Unschedulable")
    yield end


def _run(life: Life) -> None:
    """Replace the starting pods by running ones."""
    life.objects = [obj for obj in life.objects if obj["kind"] != "Pod"]
    life.start()


def _start(life: Life) -> None:
    starting: dict[str, Any] = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}
    life.objects += [pod(state=STARTING, **starting) for pod in (launcher, partial(worker, 0), partial(worker, 1))]


def _say(life: Life, *lines: str) -> None:
    life.logs[f"{JOB}-launcher-0"] = "".join(f"2026-11-21T00:00:0{at}Z {line}\n" for at, line in enumerate(lines))


@pytest.mark.thorough
def test_session_page_matches_terminal_output(terminal: Terminal) -> None:
    """After a change of an output, copy the screens from this test's failure into the page."""
    shown = re.findall(r"^```text\n(.*?)\n```$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert shown == list(screens(terminal))

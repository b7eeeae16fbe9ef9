"""The scripts of an MPIJob, run without a cluster: the launcher's report and exit code, and how ranks are stopped.

They are the templates' own, with other folders in the place of /run/mlpack and the like.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from packager.builder.render import TEMPLATES
from tests import tools

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BASE = TEMPLATES["mpijob"] / "quickstart/common/FRAMEWORK/k8s/mlops/base"
SENTENCE = "processes were killed for taking more memory than their worker may, in:"
SESSION = {"/run/mlpack": ".", "/sys/fs/cgroup": "cgroup", "/proc": "proc"}


class Job:
    """A launcher and its workers, a folder each; `ssh` runs the session of a worker."""

    def __init__(self, root: Path, workers: int = 2) -> None:
        self.root = root
        self.hosts = [f"job-worker-{index}.job.team.svc" for index in range(workers)]
        for name in ("bin", "run", "env", "ssh"):
            (root / name).mkdir()
        (root / "ssh/id_rsa").touch()
        (root / "env/FAULT").touch()
        (root / "hostfile").write_text("".join(f"{host} slots=1\n" for host in self.hosts))
        self.status = root / "termination-log"
        self.status.touch()
        for host in self.hosts:
            (root / host / "cgroup/memory").mkdir(parents=True)
            places = {name: root / host / folder for name, folder in SESSION.items()}
            self._script("mpi-session.sh", places, host)
            (root / host / "environment").touch()
        places = {
            "/run/mlpack": root / "run",
            "/etc/mpi/hostfile": root / "hostfile",
            "/etc/mlpack": root,
            "/dev/termination-log": self.status,
        }
        self._script("mpi-launcher.sh", places, ".")
        self.program("ssh", f': >"$4"; SSH_ORIGINAL_COMMAND=$6 exec sh "{root}/$5/mpi-session.sh"')

    def _script(self, name: str, places: dict[str, Path], folder: str) -> None:
        text = (BASE / name).read_text()
        for place, instead in places.items():
            assert place in text
            text = text.replace(place, str(instead))
        (self.root / folder / name).write_text(text)

    def insert_after_mpirun(self, text: str) -> None:
        """Have the launcher run commands just after it has started mpirun."""
        script = self.root / "mpi-launcher.sh"
        begin, start, rest = script.read_text().partition(' &\n: "${mpirun:=')
        assert start
        script.write_text(f'{begin} &\n{text}\n: "${{mpirun:={rest}')

    def program(self, name: str, text: str) -> None:
        """Put a program on the launcher's PATH."""
        path = self.root / "bin" / name
        path.write_text(f"#!/bin/sh\nset -eu\n{text}\n")
        path.chmod(0o755)

    def count(self, worker: int, kills: int, *, version: int = 1) -> None:
        """Let the kernel have counted so many processes of a worker that it has killed for memory."""
        cgroup = self.root / self.hosts[worker] / "cgroup"
        if version == 1:
            (cgroup / "memory/memory.oom_control").write_text(f"oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n")
        else:
            (cgroup / "memory.events").write_text(f"low 0\nmax 9\noom 9\noom_kill {kills}\noom_group_kill 0\n")

    def session(self, worker: int, command: str) -> int:
        """Run a command on a worker as its sshd does, and return the exit code."""
        script = self.root / self.hosts[worker] / "mpi-session.sh"
        return subprocess.run(
            ["sh", script], env={**os.environ, "SSH_ORIGINAL_COMMAND": command}, check=False
        ).returncode

    def begin(self, *workers: int) -> None:
        """Start a rank, as mpirun does, on these workers."""
        for worker in workers:
            (self.root / f"run/reached-{self.hosts[worker]}").touch()
            assert self.session(worker, "true") == 0

    def rank(self, worker: int, variable: str) -> subprocess.Popen[bytes]:
        """Start a process on a worker, with one variable in its environment."""
        process = subprocess.Popen(["sleep", "60"])
        environ = self.root / self.hosts[worker] / f"proc/{process.pid}/environ"
        environ.parent.mkdir(parents=True)
        environ.write_bytes(f"PATH=/bin\0{variable}\0SSH_CONNECTION=x\0HOME=/\0".encode())
        return process

    def forget(self, worker: int, process: subprocess.Popen[bytes]) -> None:
        """End a process, and remove it from the worker's list."""
        process.kill()
        process.wait()
        shutil.rmtree(self.root / self.hosts[worker] / f"proc/{process.pid}")

    @contextmanager
    def serving(self, shell: str = "sh", code: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
        """Start worker 0; its sshd ends with 0 when it is told to, or at once with a code."""
        host = self.root / self.hosts[0]
        places = {
            "/run/mlpack": host,
            "/run/sshd": host / "sshd",
            "/etc/mlpack/runtime": host,
            "/proc": host / "proc",
        }
        self._script("mpi-worker.sh", places, host.name)
        os.mkfifo(host / "fifo")
        self.program("ssh-keygen", "")
        end = "for _ in $(seq 600); do sleep 0.1; done" if code is None else f"exit {code}"
        self.program("sshd", f"trap 'exit 0' TERM\necho begin >{host}/fifo\n{end}")
        environment = {**os.environ, "PATH": f"{self.root}/bin:{os.environ['PATH']}"}
        with subprocess.Popen([*shell.split(), str(host / "mpi-worker.sh")], env=environment) as worker:
            (host / "fifo").read_bytes()
            try:
                yield worker
            finally:
                worker.kill()

    @contextmanager
    def running(self, code: int, shell: str = "sh") -> Iterator[subprocess.Popen[bytes]]:
        """Start the launcher; mpirun ends with a code at the end of the block, or with 9 when it is told to."""
        os.mkfifo(self.root / "fifo")
        wait = f"until [ -e {self.root}/end ]; do sleep 0.1; done"
        self.program("mpirun", f"trap 'exit 9' TERM\necho begin >{self.root}/fifo\n{wait}\nexit {code}")
        environment = {**os.environ, "PATH": f"{self.root}/bin:{os.environ['PATH']}"}
        argv = [*shell.split(), str(self.root / "mpi-launcher.sh"), "openmpi", "all", "x"]
        with subprocess.Popen(argv, env=environment) as launcher:
            (self.root / "fifo").read_bytes()
            yield launcher
            (self.root / "end").touch()

    def end(self, code: int = 0) -> tuple[int, str, str]:
        """Let mpirun end; return the launcher's exit code, its stderr, and the message in the pod's status."""
        self.program("mpirun", f"exit {code}")
        environment = {**os.environ, "PATH": f"{self.root}/bin:{os.environ['PATH']}"}
        done = subprocess.run(
            ["sh", self.root / "mpi-launcher.sh", "openmpi", "all", "x"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stderr, self.status.read_text() if self.status.exists() else ""


SHELLS = pytest.mark.parametrize("shell", ["sh", pytest.param("busybox sh", marks=pytest.mark.thorough)])


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


@pytest.mark.parametrize("version", [1, 2])
def test_launcher_reports_workers_with_killed_processes(job: Job, version: int) -> None:
    for worker in (0, 1):
        job.count(worker, 0, version=version)
    job.begin(0, 1)
    job.count(1, 2, version=version)
    report = f"{SENTENCE} job-worker-1\n"
    assert job.end() == (0, f"mpi-launcher.sh: {report}", report)


def test_launcher_ignores_processes_killed_in_an_earlier_attempt(job: Job) -> None:
    job.count(0, 3)
    job.begin(0)
    assert job.end() == (0, "", "")


def test_failed_launcher_writes_no_status(job: Job) -> None:
    job.count(0, 0)
    job.begin(0, 1)
    job.count(0, 1)
    assert job.end(3) == (3, "", "")
    (job.root / job.hosts[1] / "joined").unlink()
    lost = f"mpi-launcher.sh: {job.hosts[1]} was lost on the way: what mpirun calls a success is none\n"
    assert job.end() == (1, f"{lost}mpi-launcher.sh: {SENTENCE} job-worker-0\n", "")


@pytest.mark.parametrize(("code", "expected"), [(1, 1), (0, 143)])
def test_launcher_that_is_stopped_lets_the_ranks_end(job: Job, code: int, expected: int) -> None:
    ranks = [job.rank(0, "OMPI_COMM_WORLD_RANK=0"), job.rank(1, "PMI_RANK=1")]
    other = job.rank(1, "NOT_PMI_RANK=1")
    job.begin(0, 1)
    with job.running(code) as launcher:
        launcher.terminate()
        assert [rank.wait(30) for rank in ranks] == [-signal.SIGTERM] * 2
        assert (launcher.poll(), other.poll()) == (None, None)
    assert launcher.returncode == expected
    other.kill()
    other.wait()


@SHELLS
def test_launcher_stopped_just_after_it_starts_mpirun_lets_the_ranks_end(job: Job, shell: str) -> None:
    shell = shell.replace("busybox", tools.require("busybox")) if "busybox" in shell else shell
    os.mkfifo(job.root / "begun")
    job.insert_after_mpirun(f"read -r _ <{job.root}/begun\nkill -TERM $$")
    rank = job.rank(0, "OMPI_COMM_WORLD_RANK=0")
    job.begin(0)
    with job.running(143, shell) as launcher:
        (job.root / "begun").write_text("begun\n")
        assert rank.wait(30) == -signal.SIGTERM
        assert launcher.poll() is None
    assert launcher.returncode == 143


def test_launcher_fails_if_ranks_of_a_stopped_worker_end_with_0(job: Job) -> None:
    job.begin(0, 1)
    rank = job.rank(0, "PMI_RANK=0")
    assert job.session(0, "stop") == 0
    assert rank.wait(30) == -signal.SIGTERM
    lost = f"mpi-launcher.sh: {job.hosts[0]} was lost on the way: what mpirun calls a success is none\n"
    assert job.end() == (1, lost, "")


@SHELLS
def test_worker_that_is_stopped_serves_until_ranks_and_mpirun_have_ended(job: Job, shell: str) -> None:
    shell = shell.replace("busybox", tools.require("busybox")) if "busybox" in shell else shell
    rank, daemon = job.rank(0, "OMPI_COMM_WORLD_RANK=0"), job.rank(0, "PATH=/")
    with job.serving(shell) as worker:
        worker.terminate()
        assert rank.wait(30) == -signal.SIGTERM
        job.forget(0, rank)
        assert (worker.poll(), daemon.poll(), job.session(0, "joined")) == (None, None, 1)
        job.forget(0, daemon)
        assert worker.wait(30) == 0


def test_worker_without_ranks_ends_at_once_when_it_is_stopped(job: Job) -> None:
    daemon = job.rank(0, "NOT_PMI_RANK=1")
    with job.serving() as worker:
        worker.terminate()
        assert worker.wait(30) == 0
    assert daemon.poll() is None
    job.forget(0, daemon)

"""Tests of the connection that replaces the code of a pod, with the pod's scripts on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import tarfile
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from io import BytesIO
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import ClusterError
from packager.cluster import devpods
from packager.cluster.devpods import _SCRIPT, Code, DevPod, LostError, PodSession, connected, dev_pod
from packager.cluster.supervisor import MARK, SCRIPT, STATE
from packager.kubernetes.kubectl.client import Kubectl
from tests import tools
from tests.cluster.test_supervisor import until
from tests.life import pod as pod_of_role

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW = datetime(2026, 11, 26, tzinfo=UTC)
KUBECTL = """#!/bin/bash
case " $* " in
*" get "*) echo '{"kind": "Pod", "metadata": {"name": "p"}, "status": {"phase": "Running"}}'; exit ;;
esac
while [ "$1" != -- ]; do shift; done
shift
[ ! -d "${0%/*}/tools" ] || export PATH=${0%/*}/tools
exec "$@"
"""
# The trap comes first: a shell reports a child that a signal has killed.
PROGRAM = 'trap "exit 4" TERM; cat "$0/line.txt"; while :; do sleep 0.1; done'


class Pod:
    """A pod on this machine: the script of `supervisor`, and what it has printed."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.code = home / "code"
        self.code.mkdir()
        kubectl = home / "kubectl"
        kubectl.write_text(KUBECTL, encoding="utf-8")
        kubectl.chmod(0o755)
        self.kubectl = Kubectl(str(kubectl))

    @contextmanager
    def running(self, program: str = PROGRAM) -> Iterator[None]:
        """Run the pod's main container."""
        argv = ["sh", "-c", SCRIPT.replace(STATE, f"{self.home}/dev"), MARK, "sh", "-c", program, str(self.code)]
        with (self.home / "log").open("wb") as log, subprocess.Popen(argv, stdout=log, stderr=log) as main:
            until((self.home / "dev/go").is_fifo)
            try:
                yield
            finally:
                main.terminate()
                main.wait(60)

    @contextmanager
    def session(self, owner: str = "ann@desk") -> Iterator[PodSession]:
        """Connect to the pod."""
        pod = DevPod("p", "1", "main", str(self.code), is_supervised=True)
        with connected(self.kubectl, pod, owner) as session:
            session.open()
            yield session

    def log(self) -> str:
        return (self.home / "log").read_text(encoding="utf-8")


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pod:
    monkeypatch.setattr(devpods, "_SCRIPT", _SCRIPT.replace(STATE, f"{tmp_path}/dev"))
    return Pod(tmp_path)


def code(line: str, **files: str) -> Code:
    return Code({"line.txt": f"{line}\n".encode(), **{name: text.encode() for name, text in files.items()}})


def run(session: PodSession, code: Code) -> None:
    """Replace the code of a pod, and start it."""
    session.put(code.archive(NOW))
    session.wait()
    session.start(code.digest)
    session.wait()


@pytest.mark.parametrize("programs", ["GNU", pytest.param("busybox", marks=pytest.mark.thorough)])
def test_code_is_replaced_as_a_whole_and_started_again(pod: Pod, programs: str) -> None:
    if programs == "busybox":
        busybox = tools.require("busybox")
        (pod.home / "tools").mkdir()
        for name in ("sh", "cat", "tar", "head", "mkdir", "rm", "sleep"):
            (pod.home / "tools" / name).symlink_to(busybox)
    with pod.running(), pod.session() as session:
        assert session.code == "none"
        run(session, code("first", **{"sub/old.py": "1"}))
        until(lambda: pod.log() == "first\n")
        (pod.code / "__pycache__").mkdir()
        run(session, code("second"))
        until(lambda: pod.log() == "first\nsecond\n")
        assert [path.name for path in pod.code.iterdir()] == ["line.txt"]
        assert os.access(pod.code / "line.txt", os.X_OK)
        session.look()
        session.wait()
    with pod.running(), pod.session() as session:
        assert session.code == code("second").digest


@pytest.mark.thorough
def test_program_that_ignores_signals_is_killed_with_its_children(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    own = _SCRIPT.replace(STATE, f"{pod.home}/dev").replace("-lt 10 ]", "-lt 1 ]")
    monkeypatch.setattr(devpods, "_SCRIPT", own)
    stubborn = 'trap "" TERM; echo begun; sleep 300'
    with pod.running(stubborn), pod.session() as session:
        run(session, code("first"))
        until(lambda: pod.log() == "begun\n")
        begin = time.monotonic()
        session.put(code("second").archive(NOW))
        session.wait()
        assert time.monotonic() - begin < 30
        assert "ended" not in pod.log()


def test_second_session_is_refused_until_the_first_ends(pod: Pod) -> None:
    with pod.running():
        with pod.session("bob@laptop \x1b[31m"), pytest.raises(ClusterError) as refused, pod.session():
            pytest.fail("there are two sessions")
        assert str(refused.value) == r"pod/p is used by 'bob@laptop \x1b[31m'; nothing was changed"
        with pod.session() as session:
            assert session.code == "none"


def test_killed_session_leaves_no_lock(pod: Pod) -> None:
    with pod.running():
        with pod.session() as session:
            os.kill(int((pod.home / "dev/lock/session").read_text()), signal.SIGKILL)
            with pytest.raises(LostError, match="pod/p: the connection ended"):
                session.wait()
        with pod.session():
            assert (pod.home / "dev/lock/owner").read_text() == "ann@desk\n"


def test_pod_without_the_script_is_left_unchanged(pod: Pod) -> None:
    (pod.code / "file").touch()
    with pytest.raises(ClusterError, match="pod/p was not deployed by `mlpack dev`"), pod.session():
        pytest.fail("there is a session")
    assert [path.name for path in pod.home.iterdir() if path.name != "kubectl"] == ["code"]


def test_dev_pod_is_a_running_pod_with_the_script_or_its_folder() -> None:
    plain = pod_of_role("p", "worker", 0)
    assert dev_pod(plain) is None
    plain["spec"]["containers"][0]["volumeMounts"] = [{"name": MARK, "mountPath": "/code"}]
    assert dev_pod(plain) == DevPod("p", plain["metadata"]["uid"], "worker", "/code", is_supervised=False)
    plain["metadata"]["deletionTimestamp"] = "2026-11-26T00:00:00Z"
    assert dev_pod(plain) is None


def test_code_reports_changes_and_is_one_archive() -> None:
    earlier, later = code("a", kept="1", removed="2"), code("b", kept="1", added="3")
    assert later.changes(earlier) == ["added", "line.txt", "removed"]
    assert later.digest != earlier.digest
    with tarfile.open(fileobj=BytesIO(later.archive(NOW))) as archive:
        members = archive.getmembers()
    assert [(member.name, member.mode, member.mtime) for member in members] == [
        (name, 0o755, NOW.timestamp()) for name in ("added", "kept", "line.txt")
    ]

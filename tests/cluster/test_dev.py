"""Tests of `packager.cluster.dev`: which workloads it deploys, uses and deletes, and what a session does."""

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from packager.base import process
from packager.base.errors import ClusterError, SpecError
from packager.cluster import dev
from packager.cluster.dev import ModelCode, PreparedDev
from packager.cluster.ownership import DEV
from packager.cluster.supervisor import MARK, SCRIPT, STATE
from packager.cluster.target import Target
from tests.cluster.test_supervisor import until
from tests.life import JOB, POD, Life

Open = Callable[..., Target]


SOURCE = Path("hello-mpi")
NOTHING = ModelCode(Path("none/spec.yaml"), (), (None, None))


def prepare(target: Target, code: ModelCode = NOTHING) -> PreparedDev:
    return dev.prepare(target, SOURCE, code)


def deployed(target: Target, code: ModelCode = NOTHING) -> PreparedDev:
    prepared = prepare(target, code)
    assert prepared.is_new
    dev.deploy(prepared)
    return prepared


def test_dev_deploys_once_and_then_uses_the_pods(target: Target, life: Life) -> None:
    deployed(target)
    job = life.find("MPIJob", JOB)
    assert job["metadata"]["annotations"][DEV].startswith("sha256:")
    launcher = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    assert launcher["command"][3] == MARK
    assert not prepare(target).is_new


def test_workload_of_an_ordinary_deploy_is_refused(target: Target, life: Life) -> None:
    life.deploy()
    with pytest.raises(ClusterError, match="was not deployed by `mlpack dev`") as refused:
        prepare(target)
    assert refused.value.hint == f"delete it first: mlpack delete {target.package.source} -n team"
    with pytest.raises(ClusterError, match="nothing was deleted"):
        dev.stop(target)
    assert life.find("MPIJob", JOB)


def test_workload_of_another_person_is_refused(opened: Open, life: Life) -> None:
    deployed(opened())
    other = opened(person="bob@laptop")
    for use in (prepare, dev.stop):
        with pytest.raises(ClusterError, match="belongs to a session of ann@desk; nothing was"):
            use(other)
    assert life.find("MPIJob", JOB)


def test_workload_with_another_spec_is_refused(target: Target, life: Life) -> None:
    deployed(target)
    life.find("MPIJob", JOB)["metadata"]["annotations"][DEV] = "sha256:0"
    with pytest.raises(ClusterError, match="differs from what would be deployed now in more than its code") as refused:
        prepare(target)
    assert refused.value.hint == "this deletes it: mlpack dev hello-mpi --stop -n team"


def test_workload_that_is_being_deleted_is_refused(target: Target, life: Life) -> None:
    deployed(target)
    life.find("MPIJob", JOB)["metadata"]["deletionTimestamp"] = "2026-11-26T00:00:00Z"
    with pytest.raises(ClusterError, match="is being deleted"):
        prepare(target)


def test_stop_deletes_workload_of_a_session(target: Target, life: Life) -> None:
    deployed(target)
    assert f"mpijob/{JOB}" in dev.stop(target).objects
    assert not [item for item in life.objects if item["kind"] == "MPIJob"]
    assert dev.stop(target).missing == (f"mpijob/{JOB}",)


SPEC = """\
name: code
title: Code
framework: sh
image: {name: a/b, tag: "1"}
files: [run.sh, src]
overlays: {one: {kind: Pod}}
variants:
  - {script: run.sh, mode: training}
  - {script: run.sh, mode: inference, files: [more.sh]}
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    (folder / "src").mkdir(parents=True)
    (folder / "spec.yaml").write_text(SPEC, encoding="utf-8")
    for name in ("run.sh", "more.sh"):
        (folder / name).write_text("#!/bin/sh\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    (folder / "src/a.py").write_text("a = 1\n", encoding="utf-8")
    return folder


def code_of(model: Path, mode: str = "training") -> ModelCode:
    return ModelCode(model / "spec.yaml", (), (None, mode))


def test_code_of_a_model_is_that_of_its_variant(model: Path) -> None:
    assert dict(code_of(model).read().files) == {"run.sh": b"#!/bin/sh\n", "src/a.py": b"a = 1\n"}
    assert sorted(code_of(model, "inference").read().files) == ["more.sh", "run.sh", "src/a.py"]
    with pytest.raises(SpecError, match="no longer the variant"):
        code_of(model, "serving").read()


def test_state_changes_with_every_change_of_code(model: Path) -> None:
    code = code_of(model)
    code.read()
    state = code.state()
    assert code.state() == state
    (model / "other.txt").write_text("not code", encoding="utf-8")  # only the folder's time
    for content in ("b", "cc", None):
        code.read()
        state = code.state()
        if content:
            (model / "src/b.py").write_text(content, encoding="utf-8")
        else:
            (model / "src/b.py").unlink()
        assert code.state() != state


def test_spec_that_becomes_valid_again_is_noticed(model: Path) -> None:
    code = code_of(model)
    code.read()
    (model / "run.sh").rename(model / "run.txt")
    with pytest.raises(SpecError):
        code.read()
    state = code.state()
    (model / "run.txt").rename(model / "run.sh")
    assert code.state() != state
    assert "run.sh" in code.read().files


def test_link_out_of_the_model_is_refused(model: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x", encoding="utf-8")
    (model / "src/b.py").symlink_to(tmp_path / "secret")
    with pytest.raises(SpecError) as refused:
        code_of(model).read()
    assert [problem.message for problem in refused.value.problems] == ["src/b.py is a link that leaves the folder"]


# The trap comes first: a shell reports a child that a signal has killed.
PROGRAM = 'trap "exit 4" TERM; cat "$0/line.txt"; while :; do sleep 0.1; done'


class Pod:
    """A pod on this machine: the script of `supervisor`, and what it has printed."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.code = home / "code"
        self.code.mkdir()

    @contextmanager
    def running(self, program: str = PROGRAM) -> Iterator[None]:
        """Run the pod's main container."""
        script = SCRIPT.replace(STATE, f"{self.home}/dev")
        argv = ["sh", "-c", script, MARK, "dev", "0", "0", "all", "sh", "-c", program, str(self.code)]
        with (self.home / "log").open("wb") as log, subprocess.Popen(argv, stdout=log, stderr=log) as main:
            until((self.home / "dev").is_dir)
            try:
                yield
            finally:
                main.terminate()
                main.wait(60)


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, life: Life) -> Pod:
    """The pod of the overlay single-node, whose commands run on this machine, and whose log is a file."""
    home = tmp_path / "pod"
    home.mkdir()
    for name in ("_PUT", "_START", "_CODE_OF"):
        monkeypatch.setattr(dev, name, getattr(dev, name).replace(STATE, f"{home}/dev"))
    monkeypatch.setattr(dev, "LOOK_SECONDS", 0.05)
    here = Pod(home)

    @contextmanager
    def stream(argv: Sequence[str], *, idle: Any, **_options: Any) -> Iterator[process.Running]:
        words = list(argv)
        command = words[words.index("--") + 1 :] if "exec" in words else []
        command = [str(here.code) if word.endswith("/quickstart/scripts") else word for word in command]
        if "exec" not in words:
            command = ["sh", "-c", f'tail -n+1 -f {home}/log | sed -u "s/^/2026-11-26T00:00:00.000000001Z /"']
        with process.stream(command, idle=idle, keep_stdin_open="exec" in words) as running:
            yield running

    monkeypatch.setattr(life, "stream", stream)
    return here


def run_pod(life: Life) -> None:
    containers = [{"name": "main", "image": "a:1", "state": {"running": {}}, "restartCount": 0}]
    life.find("Pod", POD)["status"] = {"phase": "Running", "containerStatuses": containers}


def read_until(parts: Iterator[bytes | str], text: str) -> list[str]:
    lines = []
    for part in parts:
        lines.append(part.decode() if isinstance(part, bytes) else part)
        if text in lines[-1]:
            return lines
    pytest.fail(f"no {text}")


@pytest.mark.thorough
def test_session_copies_changed_code_and_shows_the_log(opened: Open, life: Life, pod: Pod, model: Path) -> None:
    target, scripts = opened("single-node"), model
    (model / "spec.yaml").write_text(SPEC.replace("files: [run.sh, src]", "files: [run.sh, '*.txt']"), encoding="utf-8")
    (scripts / "line.txt").write_text("first\n", encoding="utf-8")
    prepared = deployed(target, code_of(model))
    life.moments = [lambda: None, lambda: run_pod(life)]
    with pod.running():
        parts = dev.DevLoop(prepared, 60).parts()
        assert read_until(parts, "first\n")[0] == f"waiting for the pods of pod/{POD}"
        (scripts / "line.txt").write_text("second\n", encoding="utf-8")
        lines = read_until(parts, "second\n")
        assert lines[0] == "changed: line.txt"
        assert lines[1].startswith("copied to 1 pod, and started in ")
        (scripts / "link.txt").symlink_to("/etc/passwd")
        read_until(parts, "not copied: ")
        (scripts / "link.txt").unlink()
        parts.close()  # type: ignore[attr-defined]  # as Ctrl-C does

        assert not prepare(target).is_new
        again = dev.DevLoop(prepare(target, code_of(model)), 60).parts()
        (scripts / "line.txt").write_text("third\n", encoding="utf-8")
        assert [line for line in read_until(again, "third\n") if "copied" in line] != []
        life.remove_all()
        life.seconds += dev.ASK_SECONDS
        with pytest.raises(ClusterError, match="no longer exists"):
            read_until(again, "fourth\n")

"""The verbs on a package with the new kind; `tests/workloads/test_workloads_new_kind.py` runs them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

import packager
from packager.cli.host import Host
from tests import demo, fake_cluster
from tests.fake_cluster import item, lease, node
from tests.files import replace
from tests.life import JOB, Life

if TYPE_CHECKING:
    from tests.conftest import Mlpack

SPEC = demo.changed(
    "name: demo => name: hello-mpi",
    "  single-node: {kind: Pod}\n => ",
    "{kind: MPIJob} => {kind: Sweep, trials: 3}",
    "{precision: fp32, mode: training, script: train.sh} => {script: train.sh}",
)
WHERE = ("hello-mpi", "-n", "team")
SHOWN = f"sweep/{JOB}"
MANIFEST = "hello-mpi/quickstart/k8s/mlops/multi-node/sweep.yaml"


@pytest.fixture(autouse=True)
def built(mlpack: Mlpack, tmp_path: Path) -> None:
    """A package whose only overlay is a Sweep, in the current folder; and its spec."""
    assert (Path(packager.__file__).parent / "workloads/sweep/life.py").is_file()
    demo.write(tmp_path / "spec", SPEC)
    done = mlpack("build", "./spec", "--format", "dir", "--with", "gpu")
    assert done.code == 0, done.stderr


@pytest.fixture
def life(mlpack: Mlpack, kubectl: Path, monkeypatch: pytest.MonkeyPatch) -> Life:
    """A made-up cluster in which sweep-operator is at work."""
    monkeypatch.setitem(fake_cluster._PLURALS, "Sweep", "sweeps")  # noqa: SLF001 - what the kind is called there
    monkeypatch.setitem(fake_cluster._KINDS, "sweeps", "Sweep")  # noqa: SLF001 - likewise
    done = mlpack("render", "./spec", "multi-node", "--with", "gpu", "--kubectl", kubectl)
    objects = list(yaml.safe_load_all(done.stdout))
    beating = {**lease(), "metadata": {**lease()["metadata"], "name": "sweep-operator", "namespace": "sweep-operator"}}
    life = Life(objects=[node(), beating], overlays={"multi-node": objects})
    life.served |= {"example.com/v1": ["Sweep"]}
    mlpack.host = Host(life)
    return life


def trial(number: int) -> fake_cluster.Object:
    """Return the pod of a trial, which runs."""
    metadata = {
        "labels": {"example.com/sweep": JOB},
        "ownerReferences": [{"kind": "Sweep", "name": JOB, "uid": f"Sweep-{JOB}"}],
        "creationTimestamp": f"2026-11-21T00:00:0{number}Z",
    }
    containers = [{"name": "main", "image": "a:1", "state": {"running": {}}, "restartCount": 0}]
    status = {"phase": "Running", "containerStatuses": containers}
    return item(
        "Pod", f"{JOB}-trial-{number}", metadata=metadata, spec={"containers": [{"name": "main"}]}, status=status
    )


def start(life: Life) -> None:
    life.objects += [trial(number) for number in range(3)]


def end(life: Life) -> None:
    life.find("Sweep", JOB)["status"] = {"phase": "Done"}


def test_build_lint_and_verify_accept_the_new_kind(mlpack: Mlpack, kubectl: Path) -> None:
    replace(Path("spec/spec.yaml"), "trials: 3", "trials: 0")
    assert "expected at least 1, found the number 0" in mlpack("lint", "./spec").stdout
    done = mlpack("verify", "-v", "hello-mpi", "--kubectl", kubectl)
    assert (done.code, done.stdout) == (0, "")
    assert "\nmulti-node: Pod Security restricted\n" in done.stderr
    replace(Path(MANIFEST), "trials: 3", "trials: 101\n  trails: 1")
    done = mlpack("verify", "hello-mpi", "--kubectl", kubectl)
    assert done.code == 5
    assert f"Sweep {JOB}: spec.trials: expected 1 to 100, found 101" in done.stdout
    assert f"Sweep {JOB}: spec.trails: unknown field 'trails' (did you mean 'trials'?)" in done.stdout
    readme = Path("hello-mpi/README.md").read_text()
    assert "## multi-node: a Sweep\n\n3 trials.\n" in readme


def test_option_changes_pods_of_the_new_kind(life: Life) -> None:
    [sweep] = [item for item in life.overlays["multi-node"] if item["kind"] == "Sweep"]
    assert sweep["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"


def test_doctor_deploy_and_delete_handle_the_new_kind(mlpack: Mlpack, life: Life) -> None:
    doctor = {finding["check"]: finding for finding in mlpack("doctor", *WHERE, "-o", "json").json["findings"]}
    assert doctor["operator"]["message"].startswith("sweep-operator is running")
    assert doctor["kinds"]["message"] == "ConfigMap (v1), Sweep (example.com/v1)"
    life.moments = [lambda: None, lambda: start(life), lambda: end(life)]
    done = mlpack("deploy", *WHERE)
    assert done.code == 0, done.stderr
    assert f"{SHOWN} has succeeded\n" in done.stderr
    [deployment] = mlpack("history", *WHERE, "-o", "json").json["deployments"]
    assert (deployment["workload"], deployment["ended"]) == (SHOWN, "succeeded")
    assert mlpack("delete", *WHERE, "-y").code == 0
    assert [each for each in life.objects if each["kind"] == "Sweep"] == []


def test_status_and_logs_handle_the_new_kind(mlpack: Mlpack, life: Life) -> None:
    mlpack("deploy", *WHERE, "--no-wait")
    start(life)
    assert mlpack("status", *WHERE).stdout.startswith(f"{SHOWN}  running: pods: 3 running\n")
    life.logs = {f"{JOB}-trial-2": "2026-11-21T00:00:01.000000000Z epoch 1\n"}
    assert mlpack("logs", *WHERE).stdout == "epoch 1\n"


def test_operator_of_the_new_kind_can_be_installed(mlpack: Mlpack) -> None:
    done = mlpack("operator", "install", "--help")
    assert "sweep" in done.stdout

"""The keys of a LeaderWorkerSet in a spec, and the manifests that a build makes of them."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager.builder.plan import Options, plan
from packager.builder.render import render
from packager.modelspec.load import load
from packager.modelspec.settings import parse_setting
from packager.package.tree import write
from tests import demo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

FOLDER = "quickstart/k8s/mlops/multi-node"
GROUPS = "{kind: MPIJob} => {kind: LeaderWorkerSet, size: 4, replicas: 2, ports: {http: {port: 8080}}}"


def built(folder: Path, *settings: str) -> dict[str, Any]:
    """Return the manifests that are written for the demo as a LeaderWorkerSet, by their files' names."""
    loaded = load(demo.write(folder, demo.changed(GROUPS)), [parse_setting(setting) for setting in settings])
    tree = render(plan(loaded, loaded.spec.variants[0], Options()))
    (folder / "package").mkdir()
    write(tree, folder / "package")
    return {
        path.name: yaml.safe_load(path.read_text())
        for path in (folder / "package" / FOLDER).glob("*.yaml")
        if path.name != "leaderworkerset-patch.yaml"
    }


def main(manifest: Any, role: str) -> Any:
    return manifest["spec"]["leaderWorkerTemplate"][f"{role}Template"]["spec"]["containers"][0]


def test_leader_serves_and_workers_do_not(tmp_path: Path) -> None:
    files = built(tmp_path)
    manifest = files["leaderworkerset.yaml"]
    leader, worker = main(manifest, "leader"), main(manifest, "worker")
    assert leader["ports"] == [{"name": "http", "containerPort": 8080}]
    assert leader["readinessProbe"]["tcpSocket"] == {"port": "http"}
    assert {"ports", "readinessProbe", "startupProbe", "livenessProbe", "lifecycle"} & set(worker) == set()
    assert worker == {key: value for key, value in leader.items() if key in worker}
    assert files["service.yaml"]["spec"]["selector"]["leaderworkerset.sigs.k8s.io/worker-index"] == "0"


def test_rollout_with_surge_stops_no_group_before_a_new_one_is_ready(tmp_path: Path) -> None:
    spec = built(tmp_path, "overlays.multi-node.surge=1")["leaderworkerset.yaml"]["spec"]
    assert spec["rolloutStrategy"]["rollingUpdateConfiguration"] == {"maxUnavailable": 0, "maxSurge": 1}


def test_leader_has_a_program_and_resources_of_its_own(tmp_path: Path) -> None:
    own = ("command.0=serve", "args.0=--group=$(LWS_GROUP_SIZE)", "resources.limits.memory=8Gi")
    settings = [f"overlays.multi-node.leader.{setting}" for setting in own]
    manifest = built(tmp_path, *settings, "overlays.multi-node.resources.limits.memory=1Gi")["leaderworkerset.yaml"]
    leader, worker = main(manifest, "leader"), main(manifest, "worker")
    assert (leader["command"], leader["args"]) == (["serve"], ["--group=$(LWS_GROUP_SIZE)"])
    assert worker["command"] == ["$(MODEL_DIR)/quickstart/scripts/train.sh"]
    assert [container["resources"]["limits"] for container in (leader, worker)] == [
        {"memory": "8Gi"},
        {"memory": "1Gi"},
    ]
    env = (tmp_path / "package" / FOLDER / "mlops.env").read_text()
    assert "\nREPLICAS=2\n" in env
    assert "\nGROUP_SIZE=4\n" in env
    assert "\nLEADER_MEMORY_LIMIT=8Gi\n" in env or "\nLEADER_MEMORY=8Gi\n" in env


def test_numbers_in_mlops_env_change_the_rendered_set(tmp_path: Path) -> None:
    built(tmp_path)
    env = tmp_path / "package" / FOLDER / "mlops.env"
    env.write_text(env.read_text().replace("GROUP_SIZE=4", "GROUP_SIZE=3").replace("REPLICAS=2", "REPLICAS=5"))
    done = subprocess.run(
        ["kubectl", "kustomize", tmp_path / "package" / FOLDER], stdout=subprocess.PIPE, text=True, check=True
    )
    workload = next(item for item in yaml.safe_load_all(done.stdout) if item["kind"] == "LeaderWorkerSet")
    assert (workload["spec"]["replicas"], workload["spec"]["leaderWorkerTemplate"]["size"]) == (5, 3)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("restart_policy: Always", "found 'Always'"),
        ("size: 0", "expected"),
        ("leader: {script: train.sh, command: [a]}", "the role runs the script 'train.sh' already"),
        ("ready: {port: grpc}", "port 'grpc' not found"),
    ],
)
def test_wrong_values_are_refused(tmp_path: Path, values: str, message: str) -> None:
    given = GROUPS.replace("size: 4, ", "" if values.startswith("size") else "size: 4, ")
    spec = demo.changed(given.removesuffix("}") + f", {values}}}")
    problems = demo.problems(demo.write(tmp_path, spec))
    assert any(message in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("autoscale", "it is for a Deployment, and demo-fp32-training has none"),
        ("gitops", "it is for work that runs to its end"),
    ],
)
def test_option_that_does_not_fit_is_refused(
    mlpack: Callable[..., Outcome], tmp_path: Path, option: str, reason: str
) -> None:
    only = demo.changed(GROUPS, "  single-node: {kind: Pod}\n => ")
    done = mlpack("build", demo.write(tmp_path, only), "--with", option)
    assert done.code == 2
    assert reason in done.stderr

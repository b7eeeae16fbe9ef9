"""Options change pods wherever a kind has them: in roles, in items of a list, in other roles for each overlay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager.base.values import replace
from packager.builder import render as rendering
from packager.builder.plan import Options, PlannedOverlay, plan
from packager.builder.selection import Selection
from packager.kubernetes.kubectl.kustomize import kustomize
from packager.modelspec.load import load
from packager.package import tree
from packager.package.options import BY_NAME, offered
from packager.workloads.jobset.values import JobSet, JobSetRole
from packager.workloads.mpijob.values import MPIJob
from packager.workloads.pod.values import Pod
from packager.workloads.program import Run
from tests import demo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Build = Callable[..., dict[str, dict[str, Any]]]

REST = [option.name for option in offered(()) if not option.places and not option.needs]


def jobset(*roles: str) -> JobSet:
    return JobSet(rendezvous="none", roles=dict.fromkeys(roles, JobSetRole()), success=["trainer"])


@pytest.fixture
def build(tmp_path: Path, kubectl: Path) -> Build:
    """Builds the demo with other overlays, and returns the workload of each, as kubectl renders it."""
    loaded = load(demo.write(tmp_path / "model"))

    def run(overlays: dict[str, Any], *names: str) -> dict[str, dict[str, Any]]:
        values = {key.name: key.example for name in names for key in BY_NAME[name].keys}
        script = Run(("train.sh",))
        decided = plan(loaded, loaded.spec.variants[0], Options(site=Selection(names, values=values)))
        planned = tuple(
            PlannedOverlay(name, values, script, values.program(script), decided.variables, image="demo:1.0")
            for name, values in overlays.items()
        )
        package = tmp_path / "-".join(overlays)
        package.mkdir()
        tree.write(rendering.render(replace(decided, overlays=planned)), package)
        folder = package / "quickstart/k8s/mlops"
        return {name: workload(kustomize(folder / name, program=str(kubectl)).manifests) for name in overlays}

    return run


def workload(manifests: str) -> dict[str, Any]:
    [manifest] = [item for item in yaml.safe_load_all(manifests) if item["kind"] not in ("ConfigMap", "PodTemplate")]
    return dict(manifest)


def specs(jobset: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the PodSpec of each role."""
    jobs = jobset["spec"]["replicatedJobs"]
    return {job["name"]: job["template"]["spec"]["template"]["spec"] for job in jobs}


def test_options_change_every_role_in_a_list(build: Build) -> None:
    overlays = {"one": jobset("trainer"), "two": jobset("evaluator", "trainer")}
    for name, workload in build(overlays, *REST, "pvc").items():
        assert workload["metadata"]["labels"]["mlpack/overlay"] == name
        assert list(specs(workload)) == list(overlays[name].roles)
        for spec in specs(workload).values():
            [main] = spec["containers"]
            assert main["image"] == "docker.io/demo:1.0"
            assert main["resources"]["limits"]["nvidia.com/gpu"] == "1"
            assert spec["serviceAccountName"] == BY_NAME["service-account"].keys[0].example
            assert spec["hostNetwork"] is True
            assert spec["nodeSelector"] == {"kubernetes.io/os": "linux"}
            assert "capabilities" not in main["securityContext"]
            assert spec["volumes"][0] != {"name": "output", "emptyDir": {}}
            assert {"name": "shm", "mountPath": "/dev/shm"} in main["volumeMounts"]


@pytest.mark.thorough
def test_options_change_overlay_in_a_mixed_package_as_if_alone(build: Build) -> None:
    one, two = jobset("trainer"), jobset("evaluator", "trainer")
    names = (*REST, "nfs")
    mixed = build({"one": one, "two": two}, *names)
    for name, values in (("one", one), ("two", two)):
        [alone] = build({name: values}, *names).values()
        assert "mlpack/overlay" not in alone["metadata"]["labels"]
        del mixed[name]["metadata"]["labels"]["mlpack/overlay"]
        assert mixed[name] == alone


@pytest.mark.thorough
def test_overlays_with_the_same_roles_have_no_overlay_label(build: Build) -> None:
    overlays = {"few": MPIJob(workers=2), "many": MPIJob(workers=8), "one": Pod()}
    for manifest in build(overlays, *REST).values():
        assert "mlpack/overlay" not in manifest["metadata"]["labels"]

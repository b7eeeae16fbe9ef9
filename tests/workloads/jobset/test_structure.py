"""The manifest of a JobSet: as built, and the findings of `verify` in an edited one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from packager.builder.plan import Options, plan
from packager.builder.render import render
from packager.modelspec.load import load
from packager.verify.objects import check_kinds
from packager.workloads.structures import pods
from tests import demo, written

if TYPE_CHECKING:
    from pathlib import Path

DISRUPTION = {
    "name": "disruption",
    "action": "RestartJobSetAndIgnoreMaxRestarts",
    "onJobFailureReasons": ["PodFailurePolicy"],
    "onJobFailureMessagePatterns": ["has condition DisruptionTarget matching FailJob rule"],
}
DRAINED = {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def built(folder: Path, values: str) -> dict[str, Any]:
    """Return the manifest that is written for the demo as a JobSet."""
    loaded = load(demo.write(folder, demo.changed(f"{{kind: MPIJob}} => {{kind: JobSet, {values}}}")))
    entries = {entry.path: entry.content for entry in render(plan(loaded, loaded.spec.variants[0], Options())).entries}
    content = entries["quickstart/k8s/mlops/multi-node/jobset.yaml"]
    assert isinstance(content, bytes)
    return dict(yaml.safe_load(content))


def test_jobset_has_limits_of_the_spec(tmp_path: Path) -> None:
    spec = built(tmp_path, "rendezvous: torch, roles: {node: {}}, retries: 2, deadline: 600, ttl: 60")["spec"]
    assert spec["failurePolicy"] == {
        "maxRestarts": 2,
        "restartStrategy": "BlockingRecreate",
        "rules": [DISRUPTION],
    }
    assert spec["ttlSecondsAfterFinished"] == 60
    assert spec["replicatedJobs"][0]["template"]["spec"]["activeDeadlineSeconds"] == 600


def test_permanent_exit_codes_become_failure_policies(tmp_path: Path) -> None:
    values = "rendezvous: dmlc, roles: {scheduler: {}, server: {}, worker: {}}, retries: 2, permanent_exit_codes: 1-127"
    manifest = built(tmp_path, values)
    assert manifest["spec"]["failurePolicy"]["rules"] == [
        DISRUPTION,
        {"name": "permanentExitCodes", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]},
    ]
    for job in manifest["spec"]["replicatedJobs"]:
        codes = {"containerName": job["name"], "operator": "In", "values": list(range(1, 128))}
        rules = [DRAINED, {"action": "FailJob", "onExitCodes": codes}]
        assert job["template"]["spec"]["podFailurePolicy"] == {"rules": rules}
    assert list(check_kinds(written.overlay(yaml.safe_dump(manifest)))) == []


def test_pods_of_each_role_have_count_and_purpose(tmp_path: Path) -> None:
    manifest = built(tmp_path, "rendezvous: dmlc, roles: {scheduler: {}, server: {replicas: 2}, worker: {replicas: 3}}")
    groups = pods(written.overlay(yaml.safe_dump(manifest)).manifests[0])
    assert [(one.role, one.count, one.computes, one.stores, one.main) for one in groups] == [
        ("scheduler", 1, False, False, False),
        ("server", 2, False, True, False),
        ("worker", 3, True, True, True),
    ]
    assert groups[2].labels == (("jobset.sigs.k8s.io/replicatedjob-name", "worker"),)
    assert groups[2].workload_label == "jobset.sigs.k8s.io/jobset-name"

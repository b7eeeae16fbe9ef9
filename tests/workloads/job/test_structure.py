"""The manifest of a Job, as built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager.builder.plan import Options, plan
from packager.builder.render import render
from packager.modelspec.load import load
from packager.modelspec.settings import parse_setting
from packager.workloads.structures import pods
from tests import demo, kinds, written

if TYPE_CHECKING:
    from pathlib import Path

JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: a}
spec:
  template:
    spec: {containers: [{name: main}]}
"""


def built(folder: Path, *settings: str) -> dict[str, Any]:
    """Return the manifest that is written for the demo as a Job."""
    parsed = [parse_setting(setting) for setting in (*kinds.SET, *settings)]
    files = {"train.py": "#!/usr/bin/env python3\n"}
    loaded = load(demo.write(folder, demo.changed("files: [train.sh] => files: [train.sh, train.py]"), files), parsed)
    entries = {entry.path: entry.content for entry in render(plan(loaded, loaded.spec.variants[0], Options())).entries}
    content = entries["quickstart/k8s/mlops/one-job/job.yaml"]
    assert isinstance(content, bytes)
    return dict(yaml.safe_load(content))


def test_job_without_retries_runs_once(tmp_path: Path) -> None:
    spec = built(tmp_path)["spec"]
    assert sorted(spec) == ["backoffLimit", "podFailurePolicy", "template"]
    assert (spec["backoffLimit"], spec["template"]["spec"]["restartPolicy"]) == (0, "Never")
    assert spec["template"]["metadata"]["annotations"] == {
        "kubectl.kubernetes.io/default-container": "main",
        "sidecar.istio.io/inject": "false",
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        "karpenter.sh/do-not-disrupt": "true",
    }


def test_job_has_limits_of_the_spec(tmp_path: Path) -> None:
    keys = ("retries=3", "deadline=600", "ttl=60")
    spec = built(tmp_path, *(f"overlays.one-job.{key}" for key in keys))["spec"]
    drained = {"type": "DisruptionTarget", "status": "True"}
    assert {key: value for key, value in spec.items() if key != "template"} == {
        "backoffLimit": 3,
        "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [drained]}]},
        "activeDeadlineSeconds": 600,
        "ttlSecondsAfterFinished": 60,
    }


@pytest.mark.parametrize(
    ("processes", "start"),
    [(None, []), ("2", ["torchrun", "--standalone", "--nproc_per_node=2"])],
)
def test_torchrun_starts_processes_of_a_job(tmp_path: Path, processes: str | None, start: list[str]) -> None:
    settings = [f"overlays.one-job.processes={processes}"] if processes else []
    job = built(tmp_path, "variants.0.script=train.py", *settings)
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert container["command"] == [*start, "$(MODEL_DIR)/quickstart/scripts/train.py"]


def test_pods_of_a_job_are_counted_by_parallelism() -> None:
    for parallelism, count in [("", 1), ("  parallelism: 3\n", 3), ("  parallelism: x\n", 1)]:
        manifest = written.overlay(JOB + parallelism).manifests[0]
        assert [(group.count, group.computes, group.main, group.field_path) for group in pods(manifest)] == [
            (count, True, True, "spec.template.spec")
        ]

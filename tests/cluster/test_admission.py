"""Tests of the list of fields that admission changes."""

from __future__ import annotations

from typing import Any

from packager.cluster.admission import Trial, object_changes, pod_changes
from packager.kubernetes.manifest import Manifest
from packager.workloads.pods import Pods


def trial(role: str, **answered: Any) -> Trial:
    """Return the trial of a pod in which a webhook has set fields of the spec."""
    sent: dict[str, Any] = {"kind": "Pod", "spec": {"restartPolicy": "Never", "schedulerName": "gang"}}
    answer = {**sent, "spec": {**sent["spec"], **answered}}
    return Trial(Pods(Manifest({"kind": "Job"}), (), role), sent, answer)


def test_pod_changes_of_several_roles_are_merged_into_one() -> None:
    changed = {"schedulerName": "other", "nodeSelector": {"added": "is not listed"}}
    (change,) = pod_changes([trial(role, **changed) for role in ("launcher", "worker")])
    assert str(change) == "the cluster changes the pods of launcher and worker: spec.schedulerName: gang -> other"


def test_object_changes_list_changed_fields_of_sent_objects() -> None:
    sent = {"kind": "Job", "metadata": {"name": "train"}, "spec": {"parallelism": 1}}
    planned = {**sent, "spec": {"parallelism": 2, "suspend": True}}
    other = {"kind": "Job", "metadata": {"name": "other"}}
    (change,) = object_changes([sent], [planned, other])
    assert str(change) == "the cluster changes job/train: spec.parallelism: 1 -> 2"

from __future__ import annotations

from typing import Any

from packager.cluster.admission import object_changes, pod_changes
from packager.cluster.dry_run import Trial
from packager.kubernetes.manifest import Manifest
from packager.workloads.pods import Pods

IMAGE = "docker.io/team/train:1"


def trial(path: str, value: Any, *, role: str = "worker") -> Trial:
    """Return the trial of a pod in which a webhook has set the value at a path; None removes it."""
    sent: dict[str, Any] = {
        "kind": "Pod",
        "metadata": {"labels": {"job-name": "train", "team": "a"}},
        "spec": {"restartPolicy": "Never", "containers": {"image": IMAGE}},
    }
    part, key = path.split("/")
    answer = {**sent, "metadata": {"labels": {**sent["metadata"]["labels"]}}, "spec": {**sent["spec"]}}
    place = answer["metadata"]["labels"] if part == "labels" else answer["spec"]
    place[key] = value
    if value is None:
        del place[key]
    for pod in (sent, answer):
        image = pod["spec"].pop("image", IMAGE)
        pod["spec"]["containers"] = [{"name": "main", "image": image}] if image else []
    return Trial(Pods(Manifest({"kind": "Job"}), (), role), sent, frozenset({"job-name"}), answer)


def test_pod_changes_report_harm_to_labels_containers_and_restart_policy() -> None:
    for path, value, harm in [
        ("labels/job-name", "other", "the pods are found by this label"),
        ("labels/job-name", None, "the pods are found by this label"),
        ("labels/team", "b", None),
        ("labels/new", "b", None),
        ("spec/image", "docker.io/evil/train:1", "this is not the package's image"),
        ("spec/image", "docker.io/team/train:2", "this is not the package's image"),
        ("spec/image", "mirror.example:5000/team/train:1", None),
        ("spec/image", "", "the package needs this container"),
        ("spec/restartPolicy", "Always", "pods that are started again and again do not end"),
        ("spec/restartPolicy", "OnFailure", None),
        ("spec/schedulerName", "other", None),
    ]:
        (change,) = pod_changes([trial(path, value)])
        assert change.harm == harm
        assert str(change).startswith("the cluster changes the pods of worker: ")


def test_pod_changes_of_several_roles_are_merged_into_one() -> None:
    trials = [trial("spec/schedulerName", "other", role=role) for role in ("launcher", "worker")]
    (change,) = pod_changes(trials)
    assert str(change) == "the cluster changes the pods of launcher and worker: spec.schedulerName: nothing -> other"


def test_object_changes_leave_out_fields_added_to_an_existing_object() -> None:
    sent = {"kind": "Job", "metadata": {"name": "train"}, "spec": {"parallelism": 1}}
    planned = {**sent, "spec": {"parallelism": 2, "suspend": True}}
    lines = [change.difference.path for change in object_changes([sent], [planned], {("Job", "train")})]
    assert lines == ["spec.parallelism"]
    assert len(list(object_changes([sent], [planned], {}))) == 2

"""Findings about pods that webhooks and policies have changed."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

from packager.diagnosis.diagnose import changed_images
from packager.kubernetes.snapshot import Snapshot
from packager.kubernetes.verdict import Phase
from tests.diagnosis.test_diagnose import recorded, verdict

IMAGE = "docker.io/mpioperator/mpi-pi:openmpi"


def test_changed_images_are_named_during_the_run_and_after_it() -> None:
    ended = recorded("mpijob-succeeded")
    running = replace(ended, workload={**ended.workload, "status": {}}, children=())
    for snapshot in (running, ended):
        assert list(changed_images(snapshot)) == []
        pods = deepcopy(snapshot.pods)
        pods[0]["spec"]["containers"][0]["image"] = "mirror.example/other"
        findings = [one for one in verdict(replace(snapshot, pods=pods)).findings if one.reason == "ImageChanged"]
        container = pods[0]["spec"]["containers"][0]["name"]
        message = f"the cluster has changed the image of container {container}: {IMAGE} -> mirror.example/other"
        assert [(one.message, one.blocks) for one in findings] == [(message, False)]


def test_image_that_a_user_has_changed_is_not_blamed_on_the_cluster() -> None:
    snapshot = recorded("job-retried")
    pods = deepcopy(snapshot.pods)
    pods[0]["spec"]["containers"][0]["image"] = "mine"
    edited = {
        **snapshot.events[0],
        "reason": "Killing",
        "message": "Container main definition changed, will be restarted",
        "involvedObject": {"kind": "Pod", "name": pods[0]["metadata"]["name"], "uid": pods[0]["metadata"]["uid"]},
    }
    job, *_ = changed_images(replace(snapshot, pods=pods, events=(*snapshot.events, edited)))
    assert (job.message.partition(":")[0], job.remedy) == ("a user has changed the image of container main", None)
    alone = Snapshot({**pods[0], "kind": "Pod", "apiVersion": "v1"}, (), (pods[0],), (edited,))
    (of_pod,) = changed_images(alone)
    assert of_pod.message == "a user has changed the definition of container main since it was deployed"


def test_container_that_a_webhook_has_added_gets_no_hint_about_values() -> None:
    snapshot = recorded("job-image")
    assert any("mlops.env" in (one.hint or "") for one in verdict(snapshot).findings)
    workload = deepcopy(snapshot.workload)
    for container in workload["spec"]["template"]["spec"]["containers"]:
        container["name"] = "other"
    findings = verdict(replace(snapshot, workload=workload, children=())).findings
    assert not any("mlops.env" in (one.hint or "") for one in findings)


def test_namespace_that_is_being_deleted_explains_a_failure() -> None:
    snapshot = recorded("job-retried")
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
    workload = {**snapshot.workload, "status": {**snapshot.workload["status"], "conditions": [failed]}}
    namespace = {"metadata": {"name": "team", "deletionTimestamp": "2026-11-24T20:55:00Z"}}
    told = verdict(replace(snapshot, workload=workload, namespace=namespace))
    assert (told.phase, told.summary) == (Phase.FAILED, "its namespace team is being deleted")


def test_images_of_an_earlier_rollout_and_of_sidecars_are_not_changed_ones() -> None:
    def spec(image: str, *more: str) -> dict[str, object]:
        return {"containers": [{"name": "main", "image": image}, *({"name": name, "image": "x"} for name in more)]}

    metadata = {"name": "serve", "uid": "d"}
    template = {"spec": {"template": {"spec": spec("new")}}}
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, **template}
    replica_set = {"kind": "ReplicaSet", "metadata": metadata, "spec": {"template": {"spec": spec("old")}}}
    pods = tuple(
        {"kind": "Pod", "metadata": metadata, "spec": spec(image, "sidecar")} for image in ("old", "new", "evil")
    )
    messages = [one.message for one in changed_images(Snapshot(workload, (replica_set,), pods))]
    assert messages == ["the cluster has changed the image of container main: new or old -> evil"]

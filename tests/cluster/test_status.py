"""Tests of the use case `packager.cluster.status`."""

from collections.abc import Callable
from typing import Any

from packager.cluster.status import Status, status
from packager.cluster.target import Target
from packager.kubernetes.verdict import Phase, Verdict
from tests.fake_cluster import item
from tests.life import JOB, Life

MPIJOB = f"mpijob/{JOB}"
BEGAN, ENDED = "2026-11-21T00:00:01Z", "2026-11-21T00:00:09Z"


def test_status_of_missing_workload_is_absent(target: Target) -> None:
    absent = status(target)
    assert absent == Status(MPIJOB, Verdict(Phase.ABSENT, "not found"))
    assert absent.as_json() == {
        "workload": MPIJOB,
        "namespace": None,
        "phase": "absent",
        "summary": "not found",
        "digest": None,
        "version": None,
        "note": None,
        "deployedBy": None,
        "pods": [],
        "findings": [],
        "unseen": None,
        "beside": [],
        "curves": None,
    }


def node(index: int, **terminated: Any) -> Any:
    """Return a failed pod of a JobSet, whose container's `terminated` has these further fields."""
    labels = {"jobset.sigs.k8s.io/jobset-name": JOB, "jobset.sigs.k8s.io/replicatedjob-name": "node"}
    annotations = {"batch.kubernetes.io/job-completion-index": str(index)}
    owners = [{"kind": "JobSet", "name": JOB, "uid": f"JobSet-{JOB}"}]
    state = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": ENDED, **terminated}}
    return item(
        "Pod",
        f"{JOB}-node-0-{index}-abcde",
        metadata={"labels": labels, "annotations": annotations, "ownerReferences": owners, "creationTimestamp": BEGAN},
        spec={"containers": [{"name": "main"}]},
        status={"phase": "Failed", "containerStatuses": [{"name": "main", "state": state, "restartCount": 0}]},
    )


def test_status_identifies_first_failed_pod_by_logs(opened: Callable[..., Target], life: Life) -> None:
    pods = {"spec": {"containers": [{"name": "main", "image": "a:1"}]}}
    role = {"name": "node", "template": {"spec": {"parallelism": 2, "template": pods}}}
    jobset = item("JobSet", JOB, spec={"replicatedJobs": [role]})
    life.overlays["multi-node"] = [{**jobset, "apiVersion": "jobset.x-k8s.io/v1alpha2"}]
    target = opened()
    condition = {"type": "Failed", "status": "True", "reason": "FailedJobs", "message": "jobset failed"}
    metadata = {"namespace": "team", "uid": f"JobSet-{JOB}", "creationTimestamp": BEGAN}
    life.objects = [
        {**jobset, "metadata": {**jobset["metadata"], **metadata}, "status": {"conditions": [condition]}},
        node(0, message="the end of a long report"),
        node(1, message="the end of a long report"),
    ]
    life.logs = {
        f"{JOB}-node-0-0-abcde": "step 2\nConnection closed by peer\nthe end of a long report\n",
        f"{JOB}-node-0-1-abcde": "step 2\nthe end of a long report\n",
    }
    failed = status(target)
    assert failed.verdict.summary == "node 1: container main ended with exit code 1"
    assert failed.verdict.findings[0].log == ("step 2", "the end of a long report")

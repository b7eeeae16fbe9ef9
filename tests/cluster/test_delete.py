"""Tests of the use case `packager.cluster.delete`."""

from packager.cluster.delete import delete, prepare
from packager.cluster.status import status
from packager.cluster.target import Target
from packager.kubernetes.pods import RELEASED
from packager.kubernetes.verdict import Phase
from tests.fake_cluster import item
from tests.life import JOB, Life

MPIJOB = f"mpijob/{JOB}"


def test_delete_returns_deleted_objects_as_value(target: Target, life: Life) -> None:
    life.deploy()
    prepared = prepare(target)
    assert (prepared.remark, prepared.kept) == (None, ())
    assert life.objects != []
    deleted = delete(prepared, timeout=60)
    assert deleted.as_json() == {
        "workload": MPIJOB,
        "objects": [MPIJOB, *(f"configmap/hello-mpi-{name}-multi-node" for name in ("env", "runtime", "scripts"))],
        "kept": [],
        "others": [],
        "gone": True,
        "missing": [],
        "released": [],
    }
    assert life.objects == []


def test_delete_names_pods_that_their_controller_has_released(target: Target, life: Life) -> None:
    """A controller takes its reference from a pod whose labels a policy has changed; so nothing deletes the pod."""
    life.deploy()
    launcher = f"{JOB}-launcher-x2x9p"
    owned = {"generateName": f"{JOB}-launcher-", "ownerReferences": [{"uid": "other"}]}
    pods = {
        launcher: {"generateName": f"{JOB}-launcher-"},
        f"{JOB}-launcher-abcd2": owned,
        f"{JOB}-launcher-abcd3": {},
        "others-launcher-abcd4": {"generateName": "others-launcher-"},
    }
    life.objects += [item("Pod", pod, metadata=metadata) for pod, metadata in pods.items()]
    deleted = delete(prepare(target), timeout=60)
    assert deleted.as_json()["released"] == [f"pod/{launcher}"]
    assert {f"pod/{pod}" for pod in pods} == {f"pod/{obj['metadata']['name']}" for obj in life.objects}
    answer = status(target)
    assert (answer.verdict.phase, answer.verdict.summary) == (Phase.ABSENT, "not found")
    assert [(finding.reason, finding.subject, finding.message) for finding in answer.verdict.findings] == [
        ("Relabelled", f"pod/{launcher}", RELEASED)
    ]

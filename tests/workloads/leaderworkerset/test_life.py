"""The verdicts on a LeaderWorkerSet: whether it serves, and the reason if it does not."""

from __future__ import annotations

from typing import Any

from packager.cluster.observe import observe
from packager.diagnosis.diagnose import diagnose
from packager.diagnosis.past import Past
from packager.kubernetes.kubectl.client import Kubectl
from packager.kubernetes.snapshot import Snapshot
from packager.kubernetes.verdict import Phase, Verdict
from packager.workloads.leaderworkerset.life import LeaderWorkerSet
from tests.fake_cluster import FakeCluster, Object, item

NAME = "chat-serving"
KIND = LeaderWorkerSet()
BEGIN = "2026-11-21T00:00:00+00:00"
LABEL = "leaderworkerset.sigs.k8s.io/"
AVAILABLE = {"type": "Available", "status": "True", "reason": "AllGroupsReady"}
ROLLING = {"type": "UpdateInProgress", "status": "True", "reason": "GroupsUpdating"}


def workload(*conditions: Object, seen: int = 1, **counts: int) -> Object:
    """Return the set of two groups, of which the controller has seen a generation."""
    status = {"observedGeneration": seen, "conditions": list(conditions), **counts} if seen else {}
    metadata = {"creationTimestamp": BEGIN, "generation": 1}
    spec = {"replicas": 2, "leaderWorkerTemplate": {"size": 2}}
    return item("LeaderWorkerSet", NAME, metadata=metadata, spec=spec, status=status)


def stateful_set(name: str = NAME, owner: str = f"LeaderWorkerSet-{NAME}", made: int = 2, hash_: str = "1") -> Object:
    metadata = {
        "creationTimestamp": BEGIN,
        "labels": {f"{LABEL}name": NAME, f"{LABEL}template-revision-hash": hash_},
        "ownerReferences": [{"uid": owner}],
    }
    return item("StatefulSet", name, metadata=metadata, spec={"replicas": 2}, status={"replicas": made})


def pod(group: int, worker: int = 0, *, is_ready: bool = True, hash_: str = "1", **metadata: Any) -> Object:
    """Return a running pod."""
    owner = f"StatefulSet-{NAME}-{group}" if worker else f"StatefulSet-{NAME}"
    labels = {
        f"{LABEL}name": NAME,
        f"{LABEL}group-index": str(group),
        f"{LABEL}worker-index": str(worker),
        f"{LABEL}template-revision-hash": hash_,
    }
    own = {"creationTimestamp": BEGIN, "labels": labels, "ownerReferences": [{"uid": owner}], **metadata}
    state = {"name": "main", "image": "a:1", "state": {"running": {}}, "restartCount": 0}
    ready = {"type": "Ready", "status": "True" if is_ready else "False"}
    return item(
        "Pod",
        f"{NAME}-{group}-{worker}" if worker else f"{NAME}-{group}",
        metadata=own,
        spec={"restartPolicy": "Always", "containers": [{"name": "main", "image": "a:1"}]},
        status={"phase": "Running", "conditions": [ready], "containerStatuses": [state]},
    )


def event(subject: Object, reason: str, message: str) -> Object:
    about = {key: subject["metadata"][key] for key in ("name", "uid")} | {"kind": subject["kind"]}
    metadata = {"name": "event", "creationTimestamp": BEGIN}
    return {"reason": reason, "type": "Warning", "message": message, "involvedObject": about, "metadata": metadata}


def judged(
    item_: Object, *pods: Object, events: tuple[Object, ...] = (), children: tuple[Object, ...] | None = None
) -> Verdict:
    children = (stateful_set(),) if children is None else children
    return diagnose(KIND, Snapshot(item_, children, pods, events, 30), Past())


def test_set_serves_when_all_groups_are_ready_and_of_the_newest_templates() -> None:
    whole = workload(AVAILABLE, replicas=2, readyReplicas=2, updatedReplicas=2)
    assert judged(whole, pod(0), pod(1)) == Verdict(Phase.SERVING, "2 of 2 groups serve")


def test_set_runs_before_all_groups_serve() -> None:
    for given, summary in [
        (workload(replicas=2, readyReplicas=1, updatedReplicas=2), "1 of 2 groups serve"),
        (workload(AVAILABLE, seen=0), "0 of 2 groups serve"),
        (workload(ROLLING, readyReplicas=2, updatedReplicas=1), "2 of 2 groups serve, 1 of 2 are up to date"),
    ]:
        assert judged(given, pod(0), pod(1)) == Verdict(Phase.RUNNING, summary)


def test_unready_leader_is_reported_with_its_probe() -> None:
    late = pod(0, is_ready=False)
    found = judged(workload(), late, events=(event(late, "Unhealthy", "Readiness probe failed: 503"),)).findings
    assert [str(finding) for finding in found] == [f"pod/{NAME}-0: it is not ready: Readiness probe failed: 503"]


def test_refused_pods_of_the_workers_are_reported() -> None:
    workers = stateful_set(f"{NAME}-0", f"Pod-{NAME}-0", made=0)
    refused = event(workers, "FailedCreate", 'create Pod failed: pods "x" is forbidden: exceeded quota: small')
    verdict = judged(workload(), pod(0), events=(refused,), children=(stateful_set(), workers))
    assert verdict.phase is Phase.STUCK
    assert "exceeded quota: small" in verdict.summary
    again = stateful_set(f"{NAME}-0", f"Pod-{NAME}-0")
    verdict = judged(workload(), pod(0), events=(refused,), children=(stateful_set(), again))
    assert verdict.phase is Phase.RUNNING


def test_statefulset_of_workers_that_cannot_be_made_is_reported_while_it_is_missing() -> None:
    failed = event(
        workload(), "FailedCreate", f"Failed to create worker statefulset for leader pod {NAME}-0: quota is used up"
    )
    verdict = judged(workload(), pod(0), events=(failed,))
    assert (verdict.phase, "quota is used up" in verdict.summary) == (Phase.STUCK, True)
    made = (stateful_set(), stateful_set(f"{NAME}-0", f"Pod-{NAME}-0"))
    assert judged(workload(), pod(0), events=(failed,), children=made).phase is Phase.RUNNING


def test_pods_of_earlier_templates_block_nothing() -> None:
    old = pod(0, hash_="0")
    assert KIND.is_superseded(old, Snapshot(workload(), (stateful_set(),), (old,)))
    assert not KIND.is_superseded(pod(0), Snapshot(workload(), (stateful_set(),), (pod(0),)))


def test_first_leader_is_the_main_pod() -> None:
    pods = [pod(1, 1), pod(0, 1), pod(1), pod(0)]
    assert KIND.main(pods) is pods[3]
    assert KIND.workers(pods) == [pods[1], pods[2], pods[0]]
    assert [KIND.role(NAME, name) for name in (f"{NAME}-0", f"{NAME}-0-1", f"{NAME}-x", NAME)] == [
        "main",
        "worker",
        None,
        None,
    ]


def test_workers_are_found_by_the_leader_that_owns_their_statefulset() -> None:
    workers = stateful_set(f"{NAME}-0", f"Pod-{NAME}-0")
    stranger = stateful_set("other", "Pod-other")
    cluster = FakeCluster()
    cluster.objects += [workload(), stateful_set(), pod(0), workers, pod(0, 1), stranger]
    snapshot = observe(Kubectl(runner=cluster), KIND, NAME)
    assert snapshot is not None
    assert [one["metadata"]["name"] for one in snapshot.pods] == [f"{NAME}-0", f"{NAME}-0-1"]

from __future__ import annotations

from typing import Any

from packager.workloads import kueue


def test_put_labels_and_suspends_a_workload_for_kueue() -> None:
    for kind, spec in [
        ("Job", {"suspend": True}),
        ("JobSet", {"suspend": True}),
        ("MPIJob", {"runPolicy": {"suspend": True}}),
        ("Pod", {}),
    ]:
        workload: dict[str, Any] = {"kind": kind, "metadata": {"name": "a", "labels": {"a": "b"}}, "spec": {}}
        assert kueue.of(workload) is None
        kueue.put(workload, "gpus")
        assert kueue.of(workload) == "gpus"
        assert workload["metadata"]["labels"] == {"a": "b", "kueue.x-k8s.io/queue-name": "gpus"}
        assert workload["spec"] == spec
        assert kueue.is_held(workload) == (kind != "Pod")


def test_pod_is_held_by_the_scheduling_gate_of_kueue() -> None:
    pod: dict[str, Any] = {"kind": "Pod", "metadata": {}, "spec": {}}
    assert not kueue.is_held(pod)
    pod["spec"] = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
    assert kueue.is_held(pod)


def test_workload_that_cannot_be_suspended_is_held_while_a_pod_of_it_is() -> None:
    for kind in ["LeaderWorkerSet", "Deployment"]:
        workload: dict[str, Any] = {"kind": kind, "metadata": {}, "spec": {}}
        gated = {"kind": "Pod", "metadata": {}, "spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}}
        other = {"kind": "Pod", "metadata": {}, "spec": {"schedulingGates": [{"name": "example.com/gate"}]}}
        assert not kueue.is_held(workload, [other])
        assert kueue.is_held(workload, [other, gated])

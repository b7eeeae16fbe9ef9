"""Tests of the lines that `status` prints for the objects beside a workload that serves."""

from __future__ import annotations

from packager.cluster.status import state_beside
from tests.fake_cluster import item

AT = {"loadBalancer": {"ingress": [{"ip": "203.0.113.7"}, {"hostname": "lb.example.org"}]}}
NO_METRICS = {"conditions": [{"type": "ScalingActive", "status": "False", "message": "no metrics"}]}


def test_state_describes_objects_beside_a_workload() -> None:
    for obj, text in [
        (None, "not found"),
        (item("Service", "a", spec={}), "exists"),
        (item("Service", "a", spec={"type": "LoadBalancer"}, status={}), "no address yet"),
        (item("Service", "a", spec={"type": "LoadBalancer"}, status=AT), "at 203.0.113.7, lb.example.org"),
        (item("Ingress", "a", spec={}), "no address yet"),
        (item("HorizontalPodAutoscaler", "a", spec={}, status=NO_METRICS), "no metrics"),
        (item("PodGroup", "a", status={"phase": "Pending"}), "Pending"),
    ]:
        assert state_beside(obj) == text

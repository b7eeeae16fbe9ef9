"""Tests of the lines that `status` prints for the objects beside a workload that serves."""

from __future__ import annotations

from typing import Any

from packager.cluster.status import state_beside
from tests.fake_cluster import item

PORT = {"name": "http", "port": 8080}
AT = {"loadBalancer": {"ingress": [{"ip": "203.0.113.7"}, {"hostname": "lb.example.org"}]}}
INGRESS = {"ingressClassName": "nginx", "rules": [{"host": "a.example.org"}]}
SCALES = {"minReplicas": 2, "maxReplicas": 5}


def inability(kind: str, message: str) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": "False", "message": message}], "desiredReplicas": 2}


def test_state_describes_objects_beside_a_workload() -> None:
    for obj, text in [
        (None, "not found"),
        (item("Service", "a", spec={"ports": [PORT]}), "ClusterIP: http 8080"),
        (
            item("Service", "a", spec={"type": "NodePort", "ports": [{**PORT, "nodePort": 30123}]}),
            "NodePort: http 8080, 30123 of each node",
        ),
        (
            item("Service", "a", spec={"type": "LoadBalancer", "ports": [PORT]}, status={}),
            "LoadBalancer: http 8080; no address yet",
        ),
        (
            item("Service", "a", spec={"type": "LoadBalancer", "ports": [PORT]}, status=AT),
            "LoadBalancer: http 8080; at 203.0.113.7, lb.example.org",
        ),
        (item("Ingress", "a", spec=INGRESS), "a.example.org; class nginx; no address yet"),
        (item("Ingress", "a", spec=INGRESS, status=AT), "a.example.org; class nginx; at 203.0.113.7, lb.example.org"),
        (item("Ingress", "a", spec={"rules": [{}]}), "any host; class by default; no address yet"),
        (item("HorizontalPodAutoscaler", "a", spec=SCALES, status={"desiredReplicas": 3}), "2 to 5 pods, 3 are needed"),
        (
            item("HorizontalPodAutoscaler", "a", spec=SCALES, status=inability("ScalingActive", "no metrics")),
            "2 to 5 pods, 2 are needed; no metrics",
        ),
        (item("PodDisruptionBudget", "a", status={"disruptionsAllowed": 1}), "1 pod may be evicted now"),
        (item("ConfigMap", "a"), "exists"),
    ]:
        assert state_beside(obj) == text

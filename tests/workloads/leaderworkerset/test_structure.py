"""The findings of `verify` in the manifests of a LeaderWorkerSet and its Service."""

from __future__ import annotations

from packager.verify import objects, runnable
from packager.verify.objects import check_kinds
from packager.workloads.program import LWS_VARIABLES
from packager.workloads.structures import added_variables, pods, reserved
from tests import written

APPLIED = """\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: a}
spec:
  replicas: 2
  networkConfig: {subdomainPolicy: UniquePerReplica}
  rolloutStrategy: {type: RollingUpdate, rollingUpdateConfiguration: {maxUnavailable: 1, maxSurge: 0}}
  leaderWorkerTemplate:
    size: 3
    restartPolicy: RecreateGroupOnPodRestart
    leaderTemplate:
      metadata: {labels: {app.kubernetes.io/instance: a}}
      spec:
        containers:
        - name: main
          image: a:1
          ports: [{name: http, containerPort: 8080}]
          readinessProbe: {tcpSocket: {port: http}}
    workerTemplate:
      metadata: {labels: {app.kubernetes.io/instance: a}}
      spec: {containers: [{name: main, image: 'a:1'}]}
---
apiVersion: v1
kind: Service
metadata: {name: a}
spec:
  selector: {app.kubernetes.io/instance: a, leaderworkerset.sigs.k8s.io/worker-index: "0"}
  ports: [{port: 8080, targetPort: http}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: a}
spec: {maxUnavailable: 1, selector: {matchLabels: {app.kubernetes.io/instance: a}}}
"""


def problems(*changes: str) -> list[str]:
    """Return the problems after `old => new` is replaced in the applied manifests."""
    text = APPLIED
    for change in changes:
        old, _, new = change.partition(" => ")
        assert old in text
        text = text.replace(old, new)
    overlay = written.overlay(text)
    found = (*objects.check(overlay, frozenset()), *check_kinds(overlay), *runnable.check(overlay))
    return [str(problem) for problem in found]


def test_built_manifests_have_no_problem() -> None:
    assert problems() == []


def test_leaders_and_workers_are_counted_over_all_groups() -> None:
    (workload, *_) = written.overlay(APPLIED).manifests
    assert [(entry.role, entry.count, entry.main) for entry in pods(workload)] == [
        ("leader", 2, True),
        ("worker", 4, False),
    ]


def test_variables_of_leaderworkerset_are_listed_and_reserved() -> None:
    (workload, *_) = written.overlay(APPLIED).manifests
    assert added_variables(workload) == LWS_VARIABLES
    assert {reserved(workload, key) for key in LWS_VARIABLES} == {"LeaderWorkerSet sets it, in every container"}
    assert reserved(workload, "LWS_OTHER") is None

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.service.api.conftest import Service

TEMPLATE = """
apiVersion: batch/v1
kind: Job
metadata: {name: "{{ global.release }}"}
spec:
  template:
    spec:
      containers:
        - {name: main, image: "registry.example.com/x:1", volumeMounts: [{name: data, mountPath: /data}]}
      volumes: [{name: data, persistentVolumeClaim: {claimName: "{{ process.train.claim }}"}}]
"""
DEFINITION = {
    "name": "reader",
    "task_template_name": "reader-task",
    "user_values_description": "process:\n  train:\n    claim: (Required:string) The claim",
    "user_values_example": "taskDef: reader\nprocess:\n  train:\n    claim: data",
}


def test_job_with_a_missing_claim_is_refused_and_a_dry_run_warns(service: Service) -> None:
    """Otherwise, a job could wait for a claim for ever."""
    assert service.post("/v1/templates", {"name": "reader-task", "template": TEMPLATE}).status_code == 201
    assert service.post("/v1/definitions", DEFINITION).status_code == 201
    filled = {"taskDef": "reader", "process": {"train": {"claim": "data"}}}
    warning = "the PersistentVolumeClaim data does not exist in the namespace tests"
    assert service.post("/v1/jobs?dry_run=true", filled).json()["warnings"] == [warning]
    refused = service.post("/v1/jobs", filled)
    assert [error["detail"] for error in refused.json()["errors"]] == [warning]
    service.cluster.put({"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "tests"}})
    assert service.post("/v1/jobs", filled).status_code == 201

"""Jobs of one project that name an object of another project in a shared namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from packager.service.access.tokens import create
from packager.service.config import ProjectConfig
from packager.service.jobs.apply import ObjectReference, of_objects
from tests.service import bodies
from tests.service.api.conftest import Service

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
PULLING = TEMPLATE.replace("      containers:", "      imagePullSecrets: [{name: regcred}]\n      containers:")
DEFINITION = {
    "name": "reader",
    "task_template_name": "reader-task",
    "user_values_description": "process:\n  train:\n    claim: (Required:string) The claim",
    "user_values_example": "taskDef: reader\nprocess:\n  train:\n    claim: data",
}


class Shared(Service):
    """A server with the projects `research` and `vision` in one namespace, and a developer in each."""

    def __init__(self, path: Path) -> None:
        projects = {name: ProjectConfig() for name in ("research", "vision")}
        allow = ["pod.spec.imagePullSecrets"]
        super().__init__(path, projects=projects, unsafe_shared_namespaces=True, allow=allow)
        for project in projects:
            self.tokens[project] = create(self.server.store, project, "developer", None, project)[1]

    def fill(self) -> str:
        """Register the definitions, run a job of `research` with a claim, and return its release."""
        for body in (bodies.TEMPLATE, TEMPLATE, PULLING):
            name = {bodies.TEMPLATE: "digits-task", TEMPLATE: "reader-task"}.get(body, "pulling-task")
            assert self.post("/v1/templates", {"name": name, "template": body}).status_code == 201
        for made in (
            bodies.definition(),
            DEFINITION,
            {**DEFINITION, "name": "p", "task_template_name": "pulling-task"},
        ):
            answer = self.post("/v1/definitions", made)
            assert answer.status_code == 201, answer.text
        answer = self.post("/v1/jobs", {**bodies.filled(), "project": "research", "creator": "research"}, "research")
        assert answer.status_code == 201, answer.text
        release = str(answer.json()["release"])
        self.until(lambda: ("Job", release) in self.cluster.objects, "the Job")
        return release

    def read(self, claim: str, project: str, query: str = "", definition: str = "reader") -> Any:
        """Create a job that mounts a claim, and return the response."""
        filled = {"taskDef": definition, "project": project, "process": {"train": {"claim": claim}}}
        return self.post(f"/v1/jobs{query}", filled, project)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Shared]:
    service = Shared(tmp_path / "server.db")
    with service.client:
        yield service


@pytest.mark.parametrize("query", [""])
def test_job_with_a_claim_of_another_project_is_refused_before_it_creates_objects(service: Shared, query: str) -> None:
    release = service.fill()
    objects = set(service.cluster.objects)
    refused = service.read(release, "vision", query)
    assert (refused.status_code, refused.json()["type"]) == (422, "urn:mlpack:problem:policy")
    detail = f"the PersistentVolumeClaim {release} belongs to another project"
    assert [error["detail"] for error in refused.json()["errors"]] == [detail]
    assert set(service.cluster.objects) == objects
    assert service.read(release, "research", query).status_code in (200, 201)


@pytest.mark.parametrize(
    ("labels", "vision"),
    [
        ({}, 201),
        ({"mlpack.dev/project": "vision", "mlpack.dev/server": "default"}, 201),
        ({"mlpack.dev/project": "research", "mlpack.dev/server": "default"}, 422),
        ({"mlpack.dev/job": "gone-abc123", "mlpack.dev/server": "default"}, 422),
    ],
)
def test_claim_labels_determine_its_project(service: Shared, labels: dict[str, str], vision: int) -> None:
    service.fill()
    item = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "tests", "labels": labels}}
    service.cluster.put(item)
    assert service.read("data", "vision").status_code == vision


def test_claim_of_a_job_without_project_label_is_refused_in_every_project(service: Shared) -> None:
    """The server writes both labels, so somebody else has removed the one."""
    release = service.fill()
    del service.cluster.objects["PersistentVolumeClaim", release]["metadata"]["labels"]["mlpack.dev/project"]
    assert service.read(release, "vision").status_code == 422
    assert service.read(release, "research").status_code == 422


def test_job_with_a_missing_claim_is_refused_and_a_dry_run_warns(service: Shared) -> None:
    """Otherwise, a job could wait for a claim that a job of another project will create."""
    service.fill()
    warning = "the PersistentVolumeClaim later does not exist in the namespace tests"
    assert service.read("later", "vision", "?dry_run=true").json()["warnings"] == [warning]
    refused = service.read("later", "vision")
    assert [error["detail"] for error in refused.json()["errors"]] == [warning]


def test_job_with_a_pull_secret_of_a_shared_namespace_is_refused(service: Shared) -> None:
    """The server may not read Secrets, so it cannot determine the project of the Secret."""
    service.fill()
    refused = service.read("data", "vision", definition="p")
    assert refused.json()["errors"][0]["detail"] == (
        "the Secret regcred may belong to another project of the namespace tests"
    )


def test_references_are_found_in_every_field_of_a_pod_that_names_objects() -> None:
    spec = {
        "imagePullSecrets": [{"name": "pull"}],
        "containers": [
            {
                "envFrom": [{"configMapRef": {"name": "c1"}}, {"secretRef": {"name": "s1"}}],
                "env": [
                    {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c2", "key": "k"}}},
                    {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s2", "key": "k"}}},
                ],
            }
        ],
        "volumes": [
            {"name": "a", "persistentVolumeClaim": {"claimName": "p1"}},
            {"name": "b", "configMap": {"name": "own"}},
            {"name": "c", "secret": {"secretName": "s3"}},
            {"name": "d", "projected": {"sources": [{"secret": {"name": "s4"}}, {"configMap": {"name": "c3"}}]}},
            {"name": "e", "csi": {"driver": "x", "nodePublishSecretRef": {"name": "s5"}}},
            {
                "name": "f",
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "spec": {"dataSource": {"kind": "PersistentVolumeClaim", "name": "p2"}, "volumeName": "v"}
                    }
                },
            },
        ],
    }
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": spec}}}
    own = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "own"}}
    names = {"Secret": "pull s1 s2 s3 s4 s5", "ConfigMap": "c1 c2 c3", "PersistentVolumeClaim": "p1 p2"}
    expected = {ObjectReference(kind, name) for kind, text in names.items() for name in text.split()}
    assert set(of_objects([own, job])) == expected

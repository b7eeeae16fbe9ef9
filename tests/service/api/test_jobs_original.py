"""Bodies and templates of the original service are accepted unchanged and make the same objects."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.service import original
from tests.service.original import objects

if TYPE_CHECKING:
    from tests.service.api.conftest import Service

AS_JSON = {"Content-Type": "application/json"}


def register(service: Service, template: str, text: str) -> None:
    """Register a template of the original as the next revision of our template of the same name."""
    answer = service.call("PUT", f"/v1/templates/{template}", json={"name": template, "template": text})
    assert (answer.status_code, answer.json()["revision"]) == (200, 2), answer.text


def send(service: Service, path: str, body: bytes, status: int = 201) -> Any:
    answer = service.post(path, content=body, headers=AS_JSON)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.mark.parametrize("whose", ["ours", "the original's"])
def test_bodies_of_the_original_make_the_objects_of_the_original(service: Service, whose: str) -> None:
    if whose == "the original's":
        register(service, "non-distributed-task", original.NON_DISTRIBUTED)
    registered = send(service, "/v1/definitions", original.DEFINITION)
    assert (registered["name"], registered["revision"], registered["warnings"]) == (original.NAME, 1, [])
    sent = json.loads(original.DEFINITION)
    assert {key: registered[key] for key in sent} == sent
    job = send(service, "/v1/jobs", original.FILLED)
    release = job["release"]
    assert release.startswith("mnist-softmax-cpu-demo-")
    assert (job["status"], job["creator"], job["application"]) == ("pending", "ducta", "demo")
    assert job["values"]["endpoints"][1]["headers"] == {"x-api-key": "***"}
    service.until(lambda: ("Job", release) in service.cluster.objects, "the Job")
    items = {key[0]: item for key, item in service.cluster.objects.items() if key[1] == release}
    assert items.keys() == {"ConfigMap", "PersistentVolumeClaim", "Job"}
    assert "123qweasd" not in json.dumps(list(service.cluster.objects.values()))
    objects.check_config(items["ConfigMap"], release)
    claim = items["PersistentVolumeClaim"]["spec"]
    original_claim = {"storageClassName": "shared", "accessModes": ["ReadWriteMany"]}
    of_storage = original_claim if whose == "the original's" else {"accessModes": ["ReadWriteOnce"]}
    assert claim == {**of_storage, "resources": {"requests": {"storage": "10Gi"}}}
    objects.check_job(items["Job"], release)


def test_single_gpu_template_of_the_original_requests_one_gpu(service: Service) -> None:
    register(service, "single-gpu-task", original.single_gpu())
    sent = {**json.loads(original.DEFINITION), "task_template_name": "single-gpu-task"}
    send(service, "/v1/definitions", json.dumps(sent).encode())
    preview = send(service, "/v1/jobs?dry_run=true", original.FILLED, 200)
    spec = preview["manifests"][-1]["spec"]["template"]["spec"]
    assert spec["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": 1}}
    assert spec["nodeSelector"] == {"kops.k8s.io/dl-instance": "true"}


def test_countdown_template_of_the_original_makes_its_command(service: Service) -> None:
    register(service, "countdown-task", original.COUNTDOWN)
    release = service.created(process={"train": {"number": 5}})
    job = service.cluster.objects["Job", release]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["bin/bash", "-c", "for i in $(seq 5 -1 1); do echo $i ; done"]
    assert (container["name"], container["tty"]) == ("counter", True)

"""The task service on a real cluster: filled values become objects, run, and are followed to their end."""

from __future__ import annotations

import json
import re
import subprocess
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.e2e.site import MPI_IMAGE
from tests.service import bodies

if TYPE_CHECKING:
    from collections.abc import Iterator
    from email.message import Message
    from pathlib import Path

    from tests.e2e.site import Site

pytestmark = pytest.mark.usefixtures("mpi_image")

PROGRAM = """\
      - name: main
        command: ["sh", "-c", 'echo "$GLOBALCFG"; echo "$DATASETCFG"; echo "$PROCESSCFG"; touch "$STORAGE/done"']
"""


class Hooks(ThreadingHTTPServer):
    """A receiver of callbacks; attribute: the headers and the body of each."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Hook)
        self.got: list[tuple[Message, dict[str, Any]]] = []

    @property
    def endpoint(self) -> dict[str, Any]:
        """The endpoint in filled values, with the headers of the original's example."""
        url = f"http://127.0.0.1:{self.server_port}/v1/ml/train/callback"
        return {"endpoint": url, "type": "event", "headers": {"x-api-key": "123qweasd"}}


class Hook(BaseHTTPRequestHandler):
    """One request to Hooks."""

    def do_POST(self) -> None:
        assert isinstance(self.server, Hooks)
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append((self.headers, json.loads(body)))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        return


@contextmanager
def hooked() -> Iterator[Hooks]:
    """Yield a receiver of callbacks."""
    with Hooks() as hooks:
        thread = Thread(target=hooks.serve_forever)
        thread.start()
        try:
            yield hooks
        finally:
            hooks.shutdown()
            thread.join()


@contextmanager
def served(site: Site, config: Path) -> Iterator[httpx.Client]:
    """Run `mlpack serve` as a person starts it, and yield a client."""
    argv = ["mlpack", "serve", "--config", str(config), "--database", "server.db", "--listen", "127.0.0.1:18080"]
    token = site.run("mlpack serve token ada --role admin --database server.db").strip()
    log = site.folder / "serve.log"
    with log.open("w", encoding="utf-8") as errors:
        server = subprocess.Popen(argv, cwd=site.folder, env=site.environment, stderr=errors)
    try:
        headers = {"x-api-key": token}
        with httpx.Client(base_url="http://127.0.0.1:18080", headers=headers, timeout=30) as client:
            site.until(lambda: _answers(client), "the server to answer")
            yield client
    finally:
        server.terminate()
        server.wait(30)
        assert "Traceback" not in log.read_text(encoding="utf-8")


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/readyz").status_code == 200
    except httpx.TransportError:
        return False


def template() -> str:
    """Return the template of `bodies` with a program that reads its configs, and without a GPU."""
    text = bodies.TEMPLATE.replace("      - name: main\n", PROGRAM).replace("{nvidia.com/gpu: 1}", "{cpu: 200m}")
    variable = re.compile(r"        - name: PROCESSCFG\n          valueFrom: .*\n")
    match = variable.search(text)
    assert match
    all_three = "".join(
        match[0].replace("PROCESSCFG", f"{name.upper()}CFG").replace("processCfg", f"{name}Cfg")
        for name in ("global", "dataset", "process")
    )
    return text.replace(match[0], all_three)


def claim_volume(site: Site) -> None:
    """Provide the storage class of the template, with one volume of it."""
    name = f"aws-efs-{site.namespace}"
    site.apply(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": "kubernetes.io/no-provisioner",
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                "storageClassName": name,
                "capacity": {"storage": "10Gi"},
                "accessModes": ["ReadWriteMany"],
                "hostPath": {"path": "/tmp", "type": "Directory"},
            },
        },
    )


def test_filled_values_run_as_a_job(site: Site, tmp_path: Path) -> None:
    claim_volume(site)
    selectors: dict[str, dict[str, str]] = {"kops.k8s.io/ml-instance=true": {}}
    config = tmp_path / "server.yaml"
    classes = {"aws-efs": f"aws-efs-{site.namespace}"}
    settings = {"storage_classes": classes, "node_selectors": selectors, "callbacks": {"allow": ["127.0.0.1"]}}
    config.write_text(json.dumps(settings), encoding="utf-8")
    repository, _, tag = MPI_IMAGE.rpartition(":")
    system = f"image:\n  repository: {repository}\n  tag: {tag}\n  pullPolicy: IfNotPresent\n"
    try:
        with hooked() as hooks, served(site, config) as client:
            registered = client.post("/v1/templates", json={"name": "digits-task", "template": template()})
            assert registered.status_code == 201, registered.text
            registered = client.post("/v1/definitions", json=bodies.definition(system_values=system))
            assert (registered.status_code, registered.json()["warnings"]) == (201, []), registered.text
            endpoints = [*bodies.filled()["endpoints"][:1], hooks.endpoint]
            made = client.post("/v1/jobs", json=bodies.filled(endpoints=endpoints))
            assert made.status_code == 201, made.text
            release = made.json()["release"]
            job = site.until(lambda: _ended(client, release), "the end of the job")
            assert (job["status"], job["reason"]) == ("succeeded", None), job
            site.until(lambda: len(hooks.got) == 2, "two callbacks")
            assert [headers["x-api-key"] for headers, _ in hooks.got] == ["123qweasd"] * 2
            keys = ("status", "task_id", "task_def", "creator")
            assert [tuple(body[key] for key in keys) for _, body in hooks.got] == [
                ("pending", release, "digits", "ada"),
                ("succeeded", release, "digits", "ada"),
            ]
            log = client.get(f"/v1/jobs/{release}/logs").text.splitlines()
            of_all, data, process = map(json.loads, log)
            assert (of_all["release"], of_all["creator"], of_all["application"]) == (release, "ada", "demo")
            assert data == {"endpoints": [{"endpoint": "s3://bucket/digits/", "type": "dataset"}]}
            assert process == bodies.filled()["process"]
            site.run(f"kubectl delete pod --selector mlpack.dev/job={release}")
            kept = client.get(f"/v1/jobs/{release}/logs")
            assert (kept.text.splitlines(), kept.headers.get("x-mlpack-log")) == (log, "archived")
            _check_objects(site, release)
            events = client.get(f"/v1/jobs/{release}/events").json()["items"]
            assert [event["status"] for event in events][:: max(len(events) - 1, 1)] == ["pending", "succeeded"]
            assert client.delete(f"/v1/jobs/{release}?storage=delete").status_code == 202
            site.until(lambda: client.get(f"/v1/jobs/{release}").status_code == 404, "the record to be deleted")
            refused = client.post("/v1/jobs", json=bodies.filled(resources={"storage": "lots"}))
            assert (refused.status_code, refused.headers["content-type"]) == (422, "application/problem+json")
    finally:
        site.run(f"kubectl delete pv,storageclass aws-efs-{site.namespace} --wait=false")


def _ended(client: httpx.Client, release: str) -> dict[str, Any] | None:
    job: dict[str, Any] = client.get(f"/v1/jobs/{release}").json()
    return job if job["ended"] else None


def _check_objects(site: Site, release: str) -> None:
    """The objects have the names, labels, environment and mounts of the template."""
    items = {item["kind"]: item for item in site.get(f"configmap/{release} pvc/{release} job/{release}")["items"]}
    assert items.keys() == {"ConfigMap", "PersistentVolumeClaim", "Job"}
    labels = items["Job"]["metadata"]["labels"]
    expected = {"taskDef": "digits", "release": release, "application": "demo", "creator": "ada", "mltask": "mltask"}
    assert {key: labels[key] for key in expected} == expected
    assert items["ConfigMap"]["metadata"]["ownerReferences"][0]["uid"] == items["Job"]["metadata"]["uid"]
    container = items["Job"]["spec"]["template"]["spec"]["containers"][0]
    assert container["env"][0] == {"name": "STORAGE", "value": f"/mount/{release}/"}
    assert container["volumeMounts"] == [{"name": "work", "mountPath": f"/mount/{release}/"}]

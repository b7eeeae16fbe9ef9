"""Tests of the task service on a real cluster: submitted values become objects, which are followed to their end."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml

from tests.e2e.site import MPI_IMAGE, create_later
from tests.e2e.storage import storage_class
from tests.service import original
from tests.service.original import objects

if TYPE_CHECKING:
    from collections.abc import Iterator
    from email.message import Message

    from tests.e2e.site import Images, Site

# The image of the original's definition; its program prints its three configs.
DOCKERFILE = """\
FROM docker.io/library/debian:trixie-slim
USER 1000:1000
CMD ["sh", "-c", "for name in GLOBALCFG DATASETCFG PROCESSCFG; do printenv $name; done; touch $STORAGE/done"]
"""

# A JobSet of two pods that wait for a file; the first ends with the given exit code, the second with 0.
SET = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: "{{ global.release }}"}
spec:
  failurePolicy: {maxRestarts: 0}
  replicatedJobs:
  - name: node
    template:
      spec:
        completionMode: Indexed
        completions: 2
        parallelism: 2
        backoffLimit: 0
        template:
          spec:
            restartPolicy: Never
            containers:
            - name: main
              image: "{{ image.repository }}:{{ image.tag }}"
              command:
              - bash
              - -c
              - |
                until test -e /tmp/go; do sleep 1; done
                test $JOB_COMPLETION_INDEX = 1 || exit {{ process.train.code | int }}
"""


class Hooks(ThreadingHTTPServer):
    """A receiver of callbacks.

    Attributes:
        got: The headers and the body of each callback.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Hook)
        self.got: list[tuple[Message, dict[str, Any]]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


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
def served(site: Site, **settings: Any) -> Iterator[httpx.Client]:
    """Run `mlpack serve` with settings, and yield a client."""
    (site.folder / "server.yaml").write_text(json.dumps({**settings, "callbacks": {"allow": ["127.0.0.1"]}}))
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    argv = ["mlpack", "serve", "--config", "server.yaml", "--database", "server.db", "--listen", address]
    token = site.run("mlpack serve token ada --role admin --database server.db").strip()
    log = site.folder / "serve.log"
    with log.open("w", encoding="utf-8") as errors:
        server = subprocess.Popen(argv, cwd=site.folder, env=site.environment, stderr=errors)
    try:
        headers = {"x-api-key": token}
        with httpx.Client(base_url=f"http://{address}", headers=headers, timeout=60) as client:
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


def send(client: httpx.Client, path: str, body: bytes) -> Any:
    """Send a body, assert that the answer is 201, and return its JSON."""
    answer = client.post(path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 201, answer.text
    return answer.json()


def job_of(client: httpx.Client, release: str) -> dict[str, Any]:
    job: dict[str, Any] = client.get(f"/v1/jobs/{release}").json()
    return job


def ended(client: httpx.Client, release: str) -> dict[str, Any] | None:
    job = job_of(client, release)
    return job if job["ended"] else None


def test_request_bodies_of_the_original_run_as_a_job(site: Site, images: Images, tmp_path: Path) -> None:
    """The bodies are those of the original's users, except for the pull policy and the callback address."""
    (tmp_path / "image").mkdir()
    (tmp_path / "image/Dockerfile").write_text(DOCKERFILE, encoding="utf-8")
    assert images.build(tmp_path / "image", original.IMAGE) == original.IMAGE
    selectors: dict[str, dict[str, str]] = {"kops.k8s.io/ml-instance=true": {}}
    with storage_class(site, "/tmp", "ReadWriteMany") as name, hooked() as hooks:
        classes = {"aws-efs": name}
        with served(site, storage_classes=classes, node_selectors=selectors) as client:
            template = {"name": "non-distributed-task", "template": original.NON_DISTRIBUTED}
            assert client.put("/v1/templates/non-distributed-task", json=template).status_code == 200
            definition = original.DEFINITION.replace(b"pullPolicy: Always", b"pullPolicy: IfNotPresent")
            assert send(client, "/v1/definitions", definition)["warnings"] == []
            filled = original.FILLED.replace(b"https://hooks.example.com", hooks.address.encode())
            release = send(client, "/v1/jobs", filled)["release"]
            job = site.until(lambda: ended(client, release), "the end of the job")
            assert (job["status"], job["reason"]) == ("succeeded", None), job
            site.until(lambda: len(hooks.got) == 2, "two callbacks")
            assert [headers["x-api-key"] for headers, _ in hooks.got] == ["123qweasd"] * 2
            keys = ("status", "task_id", "task_def", "creator")
            assert [tuple(body[key] for key in keys) for _, body in hooks.got] == [
                ("pending", release, "mnist_softmax_cpu", "ducta"),
                ("succeeded", release, "mnist_softmax_cpu", "ducta"),
            ]
            check_objects(site, client, release)
            events = client.get(f"/v1/jobs/{release}/events").json()["items"]
            assert [event["status"] for event in events][:: max(len(events) - 1, 1)] == ["pending", "succeeded"]
            assert client.delete(f"/v1/jobs/{release}?storage=delete").status_code == 202
            site.until(lambda: client.get(f"/v1/jobs/{release}").status_code == 404, "the record to be deleted")
            refused = client.post("/v1/jobs", content=filled.replace(b'"512Mi"', b'"lots"'))
            assert refused.status_code == 415, refused.text
            of_json = {"Content-Type": "application/json"}
            refused = client.post("/v1/jobs", content=filled.replace(b'"512Mi"', b'"lots"'), headers=of_json)
            assert (refused.status_code, refused.headers["content-type"]) == (422, "application/problem+json")


def check_objects(site: Site, client: httpx.Client, release: str) -> None:
    """Check that the objects are those of the original's template, and that the program has read its three configs."""
    items = {item["kind"]: item for item in site.get(f"configmap/{release} pvc/{release} job/{release}")["items"]}
    objects.check_config(items["ConfigMap"], release)
    objects.check_job(items["Job"], release, "IfNotPresent")
    claim = items["PersistentVolumeClaim"]
    assert (claim["status"]["phase"], claim["spec"]["accessModes"]) == ("Bound", ["ReadWriteMany"])
    assert claim["spec"]["resources"] == {"requests": {"storage": "10Gi"}}
    assert items["ConfigMap"]["metadata"]["ownerReferences"][0]["uid"] == items["Job"]["metadata"]["uid"]
    assert "ownerReferences" not in claim["metadata"]
    log = client.get(f"/v1/jobs/{release}/logs").text.splitlines()
    keys = ("globalCfg", "datasetCfg", "processCfg")
    assert list(map(json.loads, log)) == [json.loads(items["ConfigMap"]["data"][key]) for key in keys]
    site.run(f"kubectl delete pod --selector mlpack.dev/job={release}")
    kept = client.get(f"/v1/jobs/{release}/logs")
    assert kept.text.splitlines() == log


@pytest.mark.usefixtures("mpi_image")
def test_workloads_of_operators_are_followed(site: Site) -> None:
    """The workloads are a package's MPIJob, and JobSets whose Jobs only the operator has labelled."""
    with served(site) as client:
        send(client, "/v1/templates", json.dumps({"name": "set", "template": SET}).encode())
        values = {"user_values_description": "process:\n  train:\n    code: (Required:integer) Exit code\n"}
        values["system_values"] = "image:\n  repository: {}\n  tag: {}\n".format(*MPI_IMAGE.rsplit(":", 1))
        example = "taskDef: set\nprocess:\n  train:\n    code: 0\n"
        body = {"name": "set", "task_template_name": "set", "user_values_example": example, **values}
        send(client, "/v1/definitions", json.dumps(body).encode())
        package = site.build("hello-mpi")
        exported = site.run(f"mlpack task export {package.name} --overlay multi-node --name hello --to {site.folder}")
        for kind, file in zip(("templates", "definitions"), exported.split(), strict=True):
            send(client, f"/v1/{kind}", json.dumps(yaml.safe_load(Path(file).read_text(encoding="utf-8"))).encode())

        def create(filled: dict[str, Any]) -> str:
            return str(send(client, "/v1/jobs", json.dumps(filled).encode())["release"])

        hello = create({"taskDef": "hello", "env": {"OUTPUT_DIR": "/results of {{7*7}} $(HOME)"}})
        good, bad = (create({"taskDef": "set", "process": {"train": {"code": code}}}) for code in (0, 3))
        for release in (good, bad):
            site.until(lambda: job_of(client, release)["status"] == "running", "the set to run")  # noqa: B023
            site.until(lambda: len(job_of(client, release)["pods"]) == 2, "both pods")  # noqa: B023
            for pod in site.run(f"kubectl get pods --selector mlpack.dev/job={release} -o name").split():
                # Retried: a job is running once its first pod is.
                go = f"kubectl exec {pod} -- sh -c {shlex.quote(create_later('/tmp/go'))}"
                # A pod that fails ends its set, and Kubernetes may then delete the other before it is told.
                told_or_ended = lambda: site.shell(go).returncode == 0 or ended(client, release)  # noqa: B023, E731
                site.until(told_or_ended, "a container that runs commands, or the end")
        jobs = {release: site.until(lambda: ended(client, release), "the end") for release in (hello, good, bad)}  # noqa: B023
        assert {release: job["status"] for release, job in jobs.items()} == {
            hello: "succeeded",
            good: "succeeded",
            bad: "failed",
        }
        assert [job["attempts"] for job in jobs.values()] == [1, 1, 1]
        assert "exit code 3" in json.dumps(jobs[bad])
        told = [event["status"] for event in client.get(f"/v1/jobs/{hello}/events").json()["items"]]
        assert (told[0], "running" in told, told[-1]) == ("pending", True, "succeeded")
        log = client.get(f"/v1/jobs/{hello}/logs").text
        assert "rank 1 of 2: host " in log
        assert "rank 1: OUTPUT_DIR=/results\\ of\\ \\{\\{7\\*7\\}\\}\\ \\$\\(HOME\\)" in log

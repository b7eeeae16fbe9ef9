"""Tests of the use case `packager.builder.init`."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import UsageError
from packager.builder.init import init
from packager.modelspec.catalog import Lint, lint

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("rendezvous", ["torch", "dmlc", "jax", "xgboost", "none", None])
def test_init_creates_jobset_model_that_lints(tmp_path: Path, rendezvous: str | None) -> None:
    made = init("trial", tmp_path, "JobSet", rendezvous)
    assert {path.name for path in made} == {"Dockerfile", "spec.schema.json", "spec.yaml", "train.py"}
    assert lint(["trial"], [tmp_path], tell=pytest.fail) == Lint(())
    compile((tmp_path / "trial/train.py").read_text(), "train.py", "exec")


def test_init_creates_deployment_model_that_lints(tmp_path: Path) -> None:
    made = init("trial", tmp_path, "Deployment")
    assert {path.name for path in made} == {"Dockerfile", "spec.schema.json", "spec.yaml", "serve.py"}
    assert lint(["trial"], [tmp_path], tell=pytest.fail) == Lint(())


def test_deployment_program_answers_requests_until_terminated(tmp_path: Path) -> None:
    init("trial", tmp_path, "Deployment")
    program = tmp_path / "trial/serve.py"
    program.write_text(program.read_text().replace("8080", "0").replace('("", 0)', '("127.0.0.1", 0)'))
    program.write_text(program.read_text().replace("port 0", "port {server.server_port}"))
    environment = {**os.environ, "GREETING": "good day"}
    with subprocess.Popen([sys.executable, program], env=environment, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout
        port = int(running.stdout.readline().rpartition(" ")[2])
        answers = []
        for path in ("/healthz", "/", "/other"):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
            connection.request("GET", path)
            answer = connection.getresponse()
            answers.append((answer.status, json.loads(answer.read())))
            connection.close()
        running.terminate()
        assert (running.stdout.read(), running.wait()) == ("stopped\n", 0)
    assert [status for status, _ in answers] == [200, 200, 404]
    assert (answers[0][1], answers[1][1]["greeting"]) == ({"status": "ok"}, "good day")


@pytest.mark.thorough
def test_jobset_program_writes_each_line_in_one_call(tmp_path: Path) -> None:
    """A pipe with O_DIRECT returns the bytes of each write separately (pipe(2))."""
    init("trial", tmp_path, "JobSet", "none")
    reading, writing = os.pipe2(os.O_DIRECT)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "JOB_COMPLETION_INDEX": "1"}
    subprocess.run([sys.executable, tmp_path / "trial/train.py"], stdout=writing, env=environment, check=True)
    os.close(writing)
    written = list(iter(lambda: os.read(reading, 65_536), b""))
    os.close(reading)
    host = socket.gethostname()
    steps = [f"rank 1 on {host}: step {step}\n".encode() for step in (1, 2, 3)]
    assert written[1:] == [*steps, f'{{"rank": 1, "host": "{host}"}}\n'.encode()]


@pytest.mark.parametrize(
    ("kind", "rendezvous", "message"),
    [
        ("Jobset", None, "--kind Jobset: expected MPIJob, JobSet, Deployment or LeaderWorkerSet"),
        ("MPIJob", "torch", "--rendezvous is for --kind JobSet"),
        ("JobSet", "pytorch", "--rendezvous pytorch: expected one of torch, dmlc, jax, tensorflow, xgboost, none"),
    ],
)
def test_init_refuses_unknown_kind_and_rendezvous(
    tmp_path: Path, kind: str, rendezvous: str | None, message: str
) -> None:
    with pytest.raises(UsageError) as error:
        init("trial", tmp_path, kind, rendezvous)
    assert str(error.value) == message
    assert list(tmp_path.iterdir()) == []

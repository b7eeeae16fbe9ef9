from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from packager.app.init import init
from packager.app.lint import Lint, lint
from packager.base.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def test_a_new_model_is_good_as_it_is(tmp_path: Path) -> None:
    made = init("trial", tmp_path)
    assert set(made) == set((tmp_path / "trial").iterdir())
    assert lint(["trial"], [tmp_path], tell=pytest.fail) == Lint(())


def test_a_name_that_no_model_has(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="found 'No Name'"):
        init("No Name", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("rendezvous", ["torch", "dmlc", "jax", "xgboost", "none", None])
def test_a_new_model_of_a_jobset_is_good_as_it_is(tmp_path: Path, rendezvous: str | None) -> None:
    made = init("trial", tmp_path, "JobSet", rendezvous)
    assert {path.name for path in made} == {"Dockerfile", "spec.schema.json", "spec.yaml", "train.py"}
    assert lint(["trial"], [tmp_path], tell=pytest.fail) == Lint(())
    compile((tmp_path / "trial/train.py").read_text(), "train.py", "exec")


def test_a_new_model_of_a_deployment_is_good_as_it_is(tmp_path: Path) -> None:
    made = init("trial", tmp_path, "Deployment")
    assert {path.name for path in made} == {"Dockerfile", "spec.schema.json", "spec.yaml", "serve.py"}
    assert lint(["trial"], [tmp_path], tell=pytest.fail) == Lint(())


def test_the_program_of_a_new_deployment_answers_until_it_is_told_to_stop(tmp_path: Path) -> None:
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


def test_the_lines_of_two_processes_do_not_mix(tmp_path: Path) -> None:
    """What a process writes at once, such a pipe keeps apart from what it writes next (pipe(2), O_DIRECT)."""
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
        ("Jobset", None, "--kind Jobset: expected MPIJob, JobSet or Deployment"),
        ("MPIJob", "torch", "--rendezvous is for --kind JobSet"),
        ("JobSet", "pytorch", "--rendezvous pytorch: expected one of torch, dmlc, jax, xgboost, none"),
    ],
)
def test_a_kind_that_there_is_not(tmp_path: Path, kind: str, rendezvous: str | None, message: str) -> None:
    with pytest.raises(UsageError) as error:
        init("trial", tmp_path, kind, rendezvous)
    assert str(error.value) == message
    assert list(tmp_path.iterdir()) == []

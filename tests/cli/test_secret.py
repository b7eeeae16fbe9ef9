"""Tests of `mlpack secret create`: no value of a secret is printed or passed in a command's arguments."""

from __future__ import annotations

import base64
import json
import os
import pty
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from packager.cli.host import Host
from tests import demo
from tests.fake_cluster import KUBECONFIG, FakeCluster, item

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Mlpack

SPEC = demo.changed("secrets: {HF_TOKEN: {description: A token of huggingface.co.}, WANDB_API_KEY: {}}")
VALUES = "HF_TOKEN=hf_geheim=\n\nWANDB_API_KEY=0123 4567\n"


@pytest.fixture
def cluster(mlpack: Mlpack, tmp_path: Path) -> FakeCluster:
    """A cluster without objects; the current folder contains a package of a model with two secrets."""
    assert mlpack("build", demo.write(tmp_path / "demo", SPEC), "--format", "dir").code == 0
    cluster = FakeCluster()
    mlpack.host = Host(cluster)
    return cluster


def create(mlpack: Mlpack, *arguments: str) -> tuple[int, str, str]:
    done = mlpack("secret", "create", "demo-fp32-training", "-n", "team", *arguments)
    assert "geheim" not in done.stdout + done.stderr
    return done.code, done.stdout, done.stderr


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "secrets.env"
    path.write_text(VALUES, encoding="utf-8")
    return str(path)


def test_secret_create_stores_values_of_env_file(mlpack: Mlpack, cluster: FakeCluster, file: str) -> None:
    done = create(mlpack, "--from-env-file", file, "-v")
    assert done[:2] == (0, "secret/demo\n")
    assert "created in team with HF_TOKEN, WANDB_API_KEY\n" in done[2]
    assert "kubectl --namespace=team create --filename=- --output=name\n" in done[2]
    secret = json.loads(cluster.stdin)
    decoded = {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}
    assert decoded == {"HF_TOKEN": "hf_geheim=", "WANDB_API_KEY": "0123 4567"}
    assert (secret["kind"], secret["metadata"], secret["type"]) == ("Secret", {"name": "demo"}, "Opaque")
    assert not any("geheim" in call or secret["data"]["HF_TOKEN"] in call for call in cluster.calls)


def test_secret_create_replaces_existing_secret_only_with_force(
    mlpack: Mlpack, cluster: FakeCluster, file: str
) -> None:
    cluster.objects.append(item("Secret", "demo", data={"HF_TOKEN": "b2xk", "OTHER": "b3RoZXI="}))
    code, stdout, stderr = create(mlpack, "--from-env-file", file)
    assert (code, stdout) == (7, "")
    assert stderr == ("error: the Secret demo already exists\nhint: --force replaces its keys that the package reads\n")
    assert create(mlpack, "--from-env-file", file, "--force")[0] == 0
    assert "apply --server-side --force-conflicts" in cluster.calls[-1]
    (secret,) = cluster.objects
    assert secret["data"]["OTHER"] == "b3RoZXI="
    assert base64.b64decode(secret["data"]["HF_TOKEN"]) == b"hf_geheim="


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("HF_TOKEN=a\n", ["there is no line for WANDB_API_KEY"]),
        (
            "hf_geheim\nx=geheim\n",
            ["1:1: expected KEY=value", "2:1: expected a key of the package's secrets: HF_TOKEN"],
        ),
        ("HF_TOKEN='geheim'\n", ["1:1: the quotes would be part of the value of HF_TOKEN: remove them"]),
        ("HF_TOKEN=geheim\nHF_TOKEN=geheim\n", ["2:1: HF_TOKEN is set twice"]),
        (f"HF_TOKEN={'geheim' * 200_000}\n", ["is larger than 1 MiB, the limit of a Secret"]),
    ],
)
def test_secret_create_lists_problems_of_env_file_without_values(
    mlpack: Mlpack, cluster: FakeCluster, file: str, text: str, problems: list[str]
) -> None:
    with open(file, "w", encoding="utf-8") as stream:  # noqa: PTH123 - the fixture gives a text
        stream.write(text)
    code, stdout, stderr = create(mlpack, "--from-env-file", file)
    assert (code, stdout) == (2, "")
    assert [problem for problem in problems if problem not in stderr] == []
    assert cluster.calls == []


def test_secret_create_masks_values_in_cluster_error(mlpack: Mlpack, cluster: FakeCluster, file: str) -> None:
    value = base64.b64encode(b"hf_geheim=").decode()
    cluster.refused["create secret"] = f"Error from server: denied: {value}, that is hf_geheim= and 0123 4567\n"
    code, _, stderr = create(mlpack, "--from-env-file", file)
    assert (code, stderr) == (7, "error: denied: ***, that is *** and ***\n")


@pytest.mark.thorough
def test_secret_create_does_not_echo_typed_values(cluster: FakeCluster, tmp_path: Path) -> None:
    """The test types on a pseudo-terminal; its kubectl writes its stdin and its arguments to files."""
    del cluster
    program = tmp_path / "kubectl"
    view = f"""case "$*" in *view*) echo '{json.dumps(KUBECONFIG)}' ;; *) cat >{tmp_path}/given ;; esac"""
    program.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/arguments\n{view}\n')
    program.chmod(0o755)
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "packager", "secret", "create", "demo-fp32-training", "--kubectl", str(program)]
    environment = {**os.environ, "PYTHONPATH": str(demo.CHECKOUT), "TERM": "xterm"}
    with subprocess.Popen(command, stdin=terminal, stdout=subprocess.PIPE, stderr=terminal, env=environment) as child:
        shown = ""
        for question, answer in (
            ("HF_TOKEN (A token of huggingface.co): ", "\n"),
            ("HF_TOKEN (A token of huggingface.co): ", "hf_geheim\n"),
            ("WANDB_API_KEY: ", "noch-geheimer\n"),
        ):
            end = time.monotonic() + 60
            while not shown.endswith(question):
                assert time.monotonic() < end, shown
                shown += os.read(controller, 4096).decode()
            os.write(controller, answer.encode())
            shown += "|"
        assert child.stdout is not None
        assert child.stdout.read() == b"secret/demo\n"
    os.close(terminal)
    shown += os.read(controller, 4096).decode()
    os.close(controller)
    assert child.returncode == 0
    assert "geheim" not in shown
    assert "the value is empty" in shown
    assert "geheim" not in (tmp_path / "arguments").read_text()
    data = json.loads((tmp_path / "given").read_text())["data"]
    assert base64.b64decode(data["WANDB_API_KEY"]) == b"noch-geheimer"

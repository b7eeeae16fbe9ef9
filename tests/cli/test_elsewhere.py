"""Tests that no verb fetches a remote reference of a package's kustomizations: a server counts the requests."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from packager.base import process
from tests.conftest import Mlpack
from tests.elsewhere import CASES, FETCHED, KUSTOMIZATION, SINGLE, Server, server

ADDRESS = next(case for case in CASES if case.fetches)


@pytest.fixture
def package(full_package: Path) -> Path:
    """hello-mpi with one overlay, single-node, and all options."""
    shutil.rmtree(full_package / "quickstart/k8s/mlops/multi-node")
    return full_package


@pytest.fixture
def counting() -> Iterator[Server]:
    with server() as serving:
        yield serving


def test_verify_refuses_remote_reference_with_its_position(
    mlpack: Mlpack, package: Path, kubectl: Path, counting: Server
) -> None:
    for case in CASES:
        paths = [package / path for path in (KUSTOMIZATION, *case.others)]
        delivered = {path: path.read_bytes() for path in paths if path.exists()}
        place = case.put_in(package, counting.address)
        done = mlpack("verify", package, "--kubectl", kubectl)
        assert done.code == 5, case.name
        message = f"{package}/{place}: {case.message.replace('URL', counting.address)}"
        assert message in done.stdout.splitlines(), case.name
        for path in paths:
            path.unlink()
        for path, content in delivered.items():
            path.write_bytes(content)
    assert counting.hits == 0


def test_verbs_fetch_nothing_for_package(
    mlpack: Mlpack, package: Path, kubectl: Path, counting: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECTL", str(kubectl))
    place = ADDRESS.put_in(package, counting.address)
    for arguments in (
        ("verify", "hello-mpi", "--server"),
        ("deploy", "hello-mpi"),
        ("deploy", "hello-mpi", "--no-verify"),
        ("deploy", "hello-mpi", "--dry-run=server"),
        ("run", "hello-mpi", "--no-verify"),
        ("status", "hello-mpi"),
        ("doctor", "hello-mpi"),
        ("logs", "hello-mpi"),
        ("delete", "hello-mpi"),
        ("results", "hello-mpi", "out"),
        ("image", "build", "hello-mpi"),
    ):
        done = mlpack(*arguments)
        assert done.code == 5, arguments
        message = f"hello-mpi/{place}: {counting.address}/x.yaml {FETCHED}\n"
        assert message in done.stdout + done.stderr, arguments
    mlpack("configure", "hello-mpi", "--root", "/nfs")  # it renders nothing
    assert counting.hits == 0


def test_kubectl_renders_copy_of_referenced_files_only(mlpack: Mlpack, package: Path, tmp_path: Path) -> None:
    spy = tmp_path / "spy"
    spy.write_text(f'#!/bin/sh\ncd "$2"/../../../.. && find . -type f | sort >{tmp_path}/seen\n')
    spy.chmod(0o755)
    (package / SINGLE / "more.yaml").write_text("kind: A\n")
    mlpack("verify", package, "--kubectl", spy)
    seen = (tmp_path / "seen").read_text().splitlines()
    assert f"./{KUSTOMIZATION}" in seen
    assert "./quickstart/scripts/hello.sh" in seen
    assert not {"./manifest.json", "./README.md", f"./{SINGLE}/more.yaml"} & set(seen)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit the memory of programs")
def test_program_has_limited_memory() -> None:
    allocate = [sys.executable, "-c", "import time; time.sleep(0.3); bytearray(256 << 20)"]
    done = process.run(allocate, memory=256 << 20)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "MemoryError")
    assert process.run(allocate).returncode == 0

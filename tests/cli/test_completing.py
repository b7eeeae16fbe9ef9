from __future__ import annotations

import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Mlpack

_KUBECTL = """#!/bin/sh
case "$*" in
"--context=lab get namespaces -o name") printf 'namespace/default\\nnamespace/team\\n' ;;
"config get-contexts -o name") printf 'lab\\nproduction\\n' ;;
*) exit 1 ;;
esac
"""


@pytest.fixture
def kubectl(tmp_path: Path, mlpack: Mlpack) -> Path:
    """A kubectl that knows two contexts and two namespaces, beside the package hello-mpi."""
    assert mlpack("build", "hello-mpi", "--format", "dir").code == 0
    path = tmp_path / "kubectl"
    path.write_text(_KUBECTL, encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("typed", "proposed"),
    [
        ("build hel", ["hello-mpi"]),
        ("show absent", []),
        ("deploy hello-mpi --overlay ", ["multi-node", "single-node"]),
        ("deploy --overlay m", []),
        ("deploy absent --overlay ", []),
        ("render hello-mpi s", ["single-node"]),
        ("configure hello-mpi --overlay s", ["single-node"]),
        ("configure hello-mpi --set WORK", ["WORKERS="]),
        ("configure hello-mpi --site NFS_S", ["NFS_SERVER="]),
        ("configure hello-mpi --set TOL", ["TOLERATIONS="]),
        ("build hello-mpi --site NODE_", ["NODE_SELECTOR="]),
        ("configure hello-mpi --with nf", ["nfs"]),
        ("configure hello-mpi --without nf", ["nfs"]),
        ("configure hello-mpi --storage p", ["pvc", "package-volume"]),
        ("build hello-mpi --with host-p", ["host-path"]),
        ("build llm-finetune --set environment.LO", ["environment.LORA_RANK=", "environment.LOG_EVERY="]),
        ("build resnet50 --precision b", ["bf16"]),
        ("build resnet50 --mode t", ["training"]),
        ("build absent --mode t", []),
        ("dev hello", ["hello-mpi"]),
        ("verify hello-mpi --pod-security r", ["restricted"]),
        ("inspect hello-mpi --kubectl ./kubectl -n t", []),
        ("deploy --pod", ["--pod-security"]),
        ("run --pod", ["--pod-security"]),
        ("deploy hello-mpi --kubectl ./kubectl --context p", ["production"]),
        ("deploy hello-mpi --kubectl ./kubectl --context lab -n t", ["team"]),
        ("deploy hello-mpi --kubectl ./kubectl -n t", []),
        ("deploy hello-mpi --kubectl ./absent -n t", []),
    ],
)
def test_shell_completes_values(kubectl: Path, typed: str, proposed: list[str]) -> None:
    words = ["mlpack", *shlex.split(typed), *([""] if typed.endswith(" ") else [])]
    program = "import sys; sys.argv = ['mlpack']; from packager.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=kubectl.parent,
        env={
            "_MLPACK_COMPLETE": "complete_bash",
            "COMP_WORDS": f"mlpack {typed}",
            "COMP_CWORD": str(len(words) - 1),
            "PATH": "/usr/bin:/bin",
        },
    )
    assert (done.stdout.split(), done.stderr) == (proposed, "")

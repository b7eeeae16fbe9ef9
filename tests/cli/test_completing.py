from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Mlpack

_KUBECTL = """#!/bin/sh
case "$*" in
"--context=lab get namespaces -o name") printf 'namespace/default\\nnamespace/team\\n' ;;
"config get-contexts -o name") printf 'lab\\nproduction\\n' ;;
*) exit 1 ;;
esac
"""


CASES = {
    "bu": ["build", "bundle"],
    "build --for": ["--format", "--force"],
    "build hel": ["hello-mpi"],
    "show absent": [],
    "deploy hello-mpi --overlay ": ["multi-node", "single-node"],
    "deploy --overlay m": [],
    "deploy absent --overlay ": [],
    "render hello-mpi s": ["single-node"],
    "configure hello-mpi --overlay s": ["single-node"],
    "configure hello-mpi --set WORK": ["WORKERS="],
    "configure hello-mpi --site NFS_S": ["NFS_SERVER="],
    "configure hello-mpi --with nf": ["nfs"],
    "configure hello-mpi --without nf": ["nfs"],
    "configure hello-mpi --storage p": ["pvc", "package-volume"],
    "build hello-mpi --with host-p": ["host-path"],
    "build llm-finetune --set environment.LO": ["environment.LORA_RANK=", "environment.LOG_EVERY="],
    "build resnet50 --precision b": ["bf16"],
    "build resnet50 --mode t": ["training"],
    "build absent --mode t": [],
    "dev hello": ["hello-mpi"],
    "verify hello-mpi --pod-security r": ["restricted"],
    "inspect hello-mpi --kubectl ./kubectl -n t": [],
    "run --pod": ["--pod-security"],
    "deploy hello-mpi --kubectl ./kubectl --context p": ["production"],
    "deploy hello-mpi --kubectl ./kubectl --context lab -n t": ["team"],
    "deploy hello-mpi --kubectl ./kubectl -n t": [],
    "deploy hello-mpi --kubectl ./absent -n t": [],
}


@pytest.fixture
def completed(mlpack: Mlpack, package: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """A function that completes a line beside the package hello-mpi, where kubectl has contexts and namespaces."""
    program = package.with_name("kubectl")
    program.write_text(_KUBECTL, encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("_MLPACK_COMPLETE", "complete_bash")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")

    def complete(typed: str) -> list[str]:
        monkeypatch.setenv("COMP_WORDS", f"mlpack {typed}")
        monkeypatch.setenv("COMP_CWORD", str(len(shlex.split(typed)) + typed.endswith(" ")))
        done = mlpack()
        assert done.stderr == ""
        return done.stdout.split()

    return complete


def test_shell_completes_values(completed: Callable[[str], list[str]]) -> None:
    assert {typed: completed(typed) for typed in CASES} == CASES

"""Tests that messages name the archive that the user named, not the temporary folder that it was unpacked to."""

from __future__ import annotations

import re
import shutil
import tempfile
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome
    from tests.life import Life

OVERLAY = "quickstart/k8s/mlops/multi-node"
VERBS = (
    ("verify", "-v"),
    ("configure", "-y"),
    ("diff",),
    ("deploy", "-v"),
    ("run", "-v"),
    ("status", "-v"),
    ("image push", "--with", "true"),
)


def assert_named(done: Outcome) -> None:
    assert not re.search(rf"{tempfile.gettempdir()}/\.?mlpack-", done.stdout + done.stderr)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("manifest.json", "{"),
        (f"{OVERLAY}/kustomization.yaml", "a: b: c"),
        (f"{OVERLAY}/mlops-job-patch.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: absent}}"),
    ],
)
def test_messages_about_broken_archive_name_no_temporary_folder(
    path: str, content: str, package: Path, mlpack: Callable[..., Outcome], kubectl: Path
) -> None:
    (package / path).write_text(content)
    shutil.make_archive(str(package.with_name("broken")), "gztar", package.parent, package.name)
    for verb in VERBS:
        arguments = [*verb[0].split(), "broken.tar.gz", *verb[1:]]
        done = mlpack(*arguments, *([] if verb[0] in ("configure", "diff") else ["--kubectl", kubectl]))
        assert_named(done)


@pytest.mark.thorough
def test_verbose_commands_name_no_temporary_folder(life: Life, mlpack: Callable[..., Outcome]) -> None:
    assert mlpack("build", "hello-mpi").code == 0
    life.refused["apply"] = "refused"
    for verb in ("deploy", "run", "doctor", "status", "history", "delete"):
        done = mlpack(verb, "hello-mpi.tar.gz", "-v")
        assert "+ kubectl " in done.stderr
        assert_named(done)
    done = mlpack("deploy", "hello-mpi.tar.gz", "-v")
    assert "+ kubectl kustomize hello-mpi.tar.gz:quickstart/k8s/mlops/multi-node\n" in done.stderr
    assert "+ kubectl apply --filename=- --server-side " in done.stderr

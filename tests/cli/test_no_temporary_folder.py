"""Tests that messages name the archive that the user named, not the temporary folder that it was unpacked to."""

from __future__ import annotations

import re
import subprocess
import tempfile
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome
    from tests.life import Life

OVERLAY = "quickstart/k8s/mlops/multi-node"
BREAKS: dict[str, Callable[[Path], object]] = {
    "no inventory": lambda package: (package / "manifest.json").unlink(),
    "no JSON": lambda package: (package / "manifest.json").write_text("{"),
    "no YAML": lambda package: (package / OVERLAY / "kustomization.yaml").write_text("a: b: c"),
    "a patch that is none": lambda package: (package / OVERLAY / "mlops-job-patch.yaml").write_text("a: b: c"),
    "a patch of nothing": lambda package: (package / OVERLAY / "mlops-job-patch.yaml").write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: absent}}"
    ),
    "a file that is missing": lambda package: (package / OVERLAY / "mpi-job.yaml").unlink(),
    "values that are missing": lambda package: (package / OVERLAY / "mlops.env").unlink(),
    "an id that is none": lambda package: (package / OVERLAY / "mlops-job-patch.yaml").write_text(
        (package / OVERLAY / "mlops-job-patch.yaml").read_text().replace("1000", "abc")
    ),
}
VERBS = (
    ("verify", "-v"),
    ("configure", "-y"),
    ("diff",),
    ("doctor", "-v"),
    ("deploy", "-v"),
    ("run", "-v"),
    ("status", "-v"),
    ("history", "-v"),
    ("delete", "-v"),
    ("image push", "--with", "true"),
    ("image build", "--with", "true"),
)


def assert_named(done: Outcome) -> None:
    assert not re.search(rf"{tempfile.gettempdir()}/\.?mlpack-", done.stdout + done.stderr)


@pytest.fixture(params=list(BREAKS.values()), ids=list(BREAKS))
def broken(request: pytest.FixtureRequest, mlpack: Callable[..., Outcome], tmp_path: Path) -> str:
    """An archive of a package with one of the faults of BREAKS; returns its name."""
    assert mlpack("build", "hello-mpi", "--format", "dir").code == 0
    request.param(tmp_path / "hello-mpi")
    subprocess.run(["tar", "-czf", "broken.tar.gz", "hello-mpi"], check=True, cwd=tmp_path)
    return "broken.tar.gz"


def test_messages_about_broken_archive_name_no_temporary_folder(
    broken: str, mlpack: Callable[..., Outcome], kubectl: Path
) -> None:
    for verb in VERBS:
        arguments = [*verb[0].split(), broken, *verb[1:]]
        done = mlpack(*arguments, *([] if verb[0] in ("configure", "diff") else ["--kubectl", kubectl]))
        assert_named(done)


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

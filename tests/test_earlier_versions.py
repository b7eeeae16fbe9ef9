"""Packages and databases of earlier versions are accepted, as docs/policy.md promises."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.service.store.store import Store
from tests.released import MODELS, RELEASES, TOKEN, differing, keep
from tests.service.api.conftest import Service

if TYPE_CHECKING:
    from tests.conftest import Mlpack

PACKAGES = sorted(RELEASES.glob("*/*.tar.gz"))
DATABASES = sorted(RELEASES.glob("*/server.sql"))


QUICK = next(path for path in PACKAGES if path.name == "hello-mpi.tar.gz")
"""The smallest package of the oldest version."""


@pytest.mark.parametrize(
    "source",
    [pytest.param(path, marks=() if path == QUICK else pytest.mark.thorough) for path in PACKAGES],
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_package_of_an_earlier_version_is_verified_configured_and_upgraded(
    mlpack: Mlpack, source: Path, tmp_path: Path, kubectl: Path
) -> None:
    package = Path(shutil.copy(source, tmp_path))
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert (done.code, done.stdout) == (0, "")
    done = mlpack("configure", package, "--registry", "registry.example.com/team", "--uid", "1234", "-d", "new.tar.gz")
    assert (done.code, done.stdout) == (0, "new.tar.gz\n"), done.stderr
    assert mlpack("verify", "new.tar.gz", "--kubectl", kubectl).code == 0
    name = package.name.removesuffix(".tar.gz")
    subprocess.run(["tar", "xzf", package, "-C", tmp_path], check=True)
    spec = json.loads((tmp_path / name / "manifest.json").read_text())["spec"]
    variant = [text for key in ("precision", "mode") if spec[key] for text in (f"--{key}", spec[key])]
    assert mlpack("configure", name, "--uid", "1234").code == 0
    assert mlpack("build", spec["name"], *variant, "-d", "newer").code == 0
    done = mlpack("upgrade", name, f"newer/{package.name}", "--kubectl", kubectl)
    assert done.code == 0, done.stderr
    assert "1234" in mlpack("verify", "-v", name, "--kubectl", kubectl).stderr


@pytest.mark.parametrize("dump", DATABASES, ids=lambda path: path.parent.name)
def test_database_of_an_earlier_version_is_migrated_and_served(dump: Path, tmp_path: Path) -> None:
    path = tmp_path / "server.db"
    connection = sqlite3.connect(path)
    connection.executescript(dump.read_text(encoding="utf-8"))
    connection.close()
    Store(path).close()
    service = Service(path, roles={"admin": TOKEN})
    with service.client:
        (job,) = service.get("/v1/jobs").json()["items"]
        assert (job["definition"], job["creator"]) == ({"name": "countdown", "revision": 1}, "admin")
        assert (
            service.post("/v1/jobs", {"taskDef": "countdown", "process": {"train": {"number": 1}}}).status_code == 201
        )


@pytest.mark.release
def test_packages_of_this_version_are_kept_for_later_ones(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    assert len(differing(kept)) == len(MODELS)
    keep(kept)
    assert differing(kept) == []
    (kept / "hello-mpi.tar.gz").write_bytes((PACKAGES[0].parent / "hello-mpi.tar.gz").read_bytes())
    assert differing(kept) == ["hello-mpi.tar.gz"]
    assert (kept / "server.sql").read_text(encoding="utf-8").count('INSERT INTO "jobs"') == 1


def test_every_earlier_version_has_packages_and_a_database() -> None:
    versions = {path.name for path in RELEASES.iterdir() if path.is_dir()}
    assert versions == {path.parent.name for path in PACKAGES} == {path.parent.name for path in DATABASES}
    assert versions

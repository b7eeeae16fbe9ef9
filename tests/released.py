"""Keeps packages and a database of this version, with which the tests of later versions begin: `make fixtures`."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from packager import __version__
from packager.package.opened import opened
from packager.service.store.store import Store
from tests.service.api.conftest import COUNTDOWN, FILLED, Service

RELEASES = Path(__file__).parent / "releases"

TOKEN = "mlp_QkfJlbtsXjzQWpNQhpnoGB82E2au31GfWGrUcXf2dN8"  # noqa: S105 - of the databases of tests
"""The token of the admin in each database."""

MODELS = (
    ("hello-mpi",),
    ("llm-finetune",),
    ("jax-gpt",),
    ("llm-serving",),
    ("cifar10-mxnet",),
    ("resnet50", "--precision", "fp32", "--mode", "training"),
    ("resnet50-pytorch", "--precision", "fp32", "--mode", "training"),
    ("xgboost-tabular",),
)
"""The arguments of `mlpack build` for a package of each bundled model."""


def keep(folder: Path) -> None:
    """Write packages and a database of this version into a folder, in place of what is in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for words in MODELS:
        command = [sys.executable, "-m", "packager", "-q", "build", *words, "-d", str(folder)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (folder / "server.sql").write_text(_database(), encoding="utf-8")


def _database() -> str:
    """Return the statements that make a database with a definition and a job."""
    with tempfile.TemporaryDirectory() as work:
        path = Path(work, "server.db")
        service = Service(path)
        with service.client:
            for address, body in (("/v1/definitions", COUNTDOWN), ("/v1/jobs", FILLED)):
                answer = service.post(address, body)
                assert answer.status_code == 201, answer.text
        Store(path).close()
        connection = sqlite3.connect(path)
        digest = hashlib.sha256(TOKEN.encode()).hexdigest()
        connection.execute("update tokens set digest = ? where name = 'admin'", (digest,))
        connection.commit()
        text = "\n".join(connection.iterdump()) + "\n"
        connection.close()
        return text


def differing(folder: Path) -> list[str]:
    """Return the names of the packages in a folder that this version builds otherwise, and of those it lacks."""
    with tempfile.TemporaryDirectory() as work:
        keep(Path(work, "new"))
        return [
            path.name for path in sorted(Path(work, "new").glob("*.tar.gz")) if not _alike(path, folder / path.name)
        ]


def _alike(one: Path, other: Path) -> bool:
    if not other.exists():
        return False
    with opened(one) as new, opened(other) as kept:
        return new.digest == kept.digest


if __name__ == "__main__":
    keep(RELEASES / __version__)

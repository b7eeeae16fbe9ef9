"""Test that changed code runs in the same pods of a JobSet within seconds, under "restricted"."""

from __future__ import annotations

import shutil
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.e2e.site import CHECKOUT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.site import Site

pytestmark = pytest.mark.usefixtures("mpi_image")

NODES = "jobset/dev-nodes"


def start(site: Site, out: Path) -> subprocess.Popen[bytes]:
    with out.open("wb") as stream:
        argv = ["mlpack", "dev", "./model"]
        return subprocess.Popen(argv, cwd=site.folder, env=site.environment, stdout=stream, stderr=subprocess.STDOUT)


def test_changed_code_runs_in_the_same_pods(site: Site, tmp_path: Path) -> None:
    site.environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    model = shutil.copytree(CHECKOUT / "tests/e2e/specs/dev", site.folder / "model")
    (site.folder / "mlpack-site.yaml").write_text("ids: {uid: 12345, gid: 12345, fsGroup: 12345}\n")
    out = tmp_path / "out"

    def shows(*texts: str) -> None:
        site.until(lambda: all(text in out.read_text() for text in texts), f"{texts}")

    session = start(site, out)
    try:
        shows("] node 0: first\n", "] node 1: first\n", "] heard first\n")
        pods = site.run("kubectl get pods -o name")
        (model / "steps/line.txt").write_text("second\n")
        shows("changed: steps/line.txt\n", "] node 0: second\n", "] node 1: second\n")
        (model / "steps/line.txt").write_text("end\n")
        shows("] mlpack: the program has ended with exit code 3\n")
    finally:
        session.send_signal(signal.SIGINT)
        assert session.wait(timeout=60) == 130
    shows(f"detached; the pods of {NODES} stay for the next `mlpack dev`\n")
    assert site.run("kubectl get pods -o name") == pods

    (model / "steps/line.txt").write_text("third\n")
    session = start(site, out)
    try:
        shows("] node 0: third\n", "] node 1: third\n")
    finally:
        session.send_signal(signal.SIGINT)
        session.wait(timeout=60)
    assert site.run("kubectl get pods -o name") == pods
    stopped = site.shell("mlpack dev ./model --stop")
    assert (stopped.returncode, stopped.stderr) == (0, f"{NODES} is deleted\n")
    assert site.left() == []

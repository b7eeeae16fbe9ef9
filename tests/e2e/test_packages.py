"""Test of a package as a definition of the task service: registered with curl, run by the client on a real cluster."""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.site import Site

pytestmark = pytest.mark.usefixtures("mpi_image")

ADDRESS = "127.0.0.1:18083"


@contextmanager
def served(site: Site) -> Iterator[None]:
    """Run `mlpack serve`, and set its address and a token in the site's environment."""
    site.environment["MLPACK_TOKEN"] = site.run("mlpack serve token ada --role developer --database s.db").strip()
    site.environment["MLPACK_SERVER"] = f"http://{ADDRESS}"
    log = site.folder / "serve.log"
    argv = ["mlpack", "serve", "--database", "s.db", "--listen", ADDRESS]
    with log.open("w", encoding="utf-8") as errors:
        server = subprocess.Popen(argv, cwd=site.folder, env=site.environment, stderr=errors)
    try:
        site.until(lambda: site.shell(f"curl -sf http://{ADDRESS}/readyz").returncode == 0, "the server to answer")
        yield
    finally:
        server.terminate()
        server.wait(30)
        assert "Traceback" not in log.read_text(encoding="utf-8")


def test_bundled_package_runs_as_a_task_with_values_for_its_keys(site: Site) -> None:
    definition = {"name": "hello", "package": {"source": "hello-mpi", "overlay": "multi-node"}}
    (site.folder / "definition.json").write_text(json.dumps(definition), encoding="utf-8")
    with served(site):
        headers = '-H "Authorization: Bearer $MLPACK_TOKEN" -H "Content-Type: application/json"'
        answer = site.run(f"curl -sS --fail-with-body {headers} -d @definition.json $MLPACK_SERVER/v1/definitions")
        assert json.loads(answer)["origin"]["name"] == "hello-mpi"
        value = "env.OUTPUT_DIR='/results of {{7*7}} $(HOME)'"
        job = json.loads(site.run(f"mlpack task create hello --set {value} --wait --timeout 4m -o json"))
        assert (job["status"], job["workload"]["kind"]) == ("succeeded", "MPIJob"), job
        release = job["release"]
        log = site.run(f"mlpack task logs {release}")
        assert {line.partition("host ")[2].partition(",")[0] for line in log.splitlines() if " of 2: " in line} == {
            f"{release}-worker-0",
            f"{release}-worker-1",
        }
        assert "rank 1: OUTPUT_DIR=/results\\ of\\ \\{\\{7\\*7\\}\\}\\ \\$\\(HOME\\)" in log
        site.run(f"mlpack task delete -y {release}")
        site.until(lambda: not site.run("kubectl get mpijob,configmap -l mlpack.dev/job -o name"), "its objects to go")

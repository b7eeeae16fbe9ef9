"""Tests of the option `gang` with real gang schedulers: all pods that compute start, or none does."""

from __future__ import annotations

import json
import os
import re
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.faults import Faulty
from tests.e2e.site import Site
from tests.e2e.test_jobset import SPEC
from tests.testbed import builds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.testbed.builds import Build

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.usefixtures("mpi_image"),
    pytest.mark.skipif("MLPACK_E2E_CONTEXT" in os.environ, reason="another cluster may have no such scheduler"),
]

TOO_MUCH = "1500m"
"""The CPUs of a pod of which the test cluster's node, which has 2, can run one and not two."""
VOLCANO = """\
actions: "enqueue, allocate, backfill"
tiers:
  - plugins:
      - name: priority
      - name: gang
      - name: predicates
      - name: proportion
      - name: nodeorder
"""


@pytest.fixture
def coscheduling(kubeconfig: Path, tmp_path: Path) -> Iterator[None]:
    """Run the scheduler of scheduler-plugins beside the cluster's, as its administrator."""
    plugins: dict[str, Any] = {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}}
    plugins["queueSort"] = {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]}
    waiting = {"name": "Coscheduling", "args": {"permitWaitingTimeSeconds": 5}}
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "profiles": [{"schedulerName": "scheduler-plugins-scheduler", "plugins": plugins, "pluginConfig": [waiting]}],
    }
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps(configuration))
    flags = (f"--config={file}", "--secure-port=0")
    with _running(kubeconfig, tmp_path, builds.SCHEDULING, "scheduling.x-k8s.io_podgroups.yaml", flags):
        yield


@pytest.fixture
def volcano(kubeconfig: Path, tmp_path: Path) -> Iterator[None]:
    """Run the scheduler of Volcano, and open the queue that it creates, which is otherwise done by its controller."""
    file = tmp_path / "scheduler.yaml"
    file.write_text(VOLCANO)
    flags = (f"--kubeconfig={kubeconfig}", f"--scheduler-conf={file}", "--leader-elect=false")
    with _running(kubeconfig, tmp_path, builds.VOLCANO, "bases", (*flags, "--cache-dumper=false")):
        queue = "queues.scheduling.volcano.sh/default"
        _kubectl(kubeconfig, "wait", "--for=create", "--timeout=60s", queue)
        is_open = json.dumps({"status": {"state": "Open"}})
        _kubectl(kubeconfig, "patch", queue, "--subresource=status", "--type=merge", f"--patch={is_open}")
        yield


@contextmanager
def _running(kubeconfig: Path, folder: Path, build: Build, crds: str, flags: Sequence[str]) -> Iterator[None]:
    """Build a scheduler, apply its CRDs, run it, and delete the CRDs; fail if the scheduler ended by itself."""
    builds.build_all((build,))
    path = build.entry / crds
    _kubectl(kubeconfig, "apply", "--server-side", f"--filename={path}")
    _kubectl(kubeconfig, "wait", "--for=condition=Established", "--timeout=60s", f"--filename={path}")
    argv = [str(build.entry / "scheduler"), *flags]
    with (folder / "log").open("wb") as log, subprocess.Popen(argv, stdout=log, stderr=log, cwd=folder) as scheduler:
        try:
            yield
            ended = scheduler.poll()
        finally:
            scheduler.terminate()  # leaving the block waits for its end
    _kubectl(kubeconfig, "delete", f"--filename={path}")
    assert ended is None, (folder / "log").read_text()


def _kubectl(kubeconfig: Path, *arguments: str) -> None:
    subprocess.run([Site.kubectl(), f"--kubeconfig={kubeconfig}", *arguments], check=True)


@pytest.mark.parametrize("gang", ["coscheduling", "volcano"])
def test_pods_of_a_jobset_start_only_when_all_fit(site: Site, gang: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(gang)
    package = Faulty(
        site, site.build(str(SPEC), f"--set environment.FAULT=none --with gang --site GANG={gang}"), "nodes"
    )
    site.run(f"mlpack configure {package.folder} --cpu {TOO_MUCH}")
    deploy = package.run("deploy", "--timeout=20s")
    assert deploy.code != 0
    assert [pod["spec"].get("nodeName") for pod in site.get("pods")["items"]] == [None, None]
    pattern = (
        r"is still stuck after 20 s: no node can run it: (the only node has too little cpu left|there is no room .*)\n"
    )
    assert re.search(pattern, deploy.err), deploy.err
    package.delete()
    site.run(f"mlpack configure {package.folder} --cpu 10m")
    deploy = package.run("deploy")
    assert (deploy.code, "jobset/peers-nodes has succeeded\n" in deploy.err) == (0, True), deploy.err

"""Compactions of etcd, and an API server that knows no earlier version: watches have to begin again (410 Gone)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests import testbed
from tests.e2e.faults import component, faulty

if TYPE_CHECKING:
    from tests.e2e.site import Site

pytestmark = [pytest.mark.usefixtures("mpi_image"), pytest.mark.alone, pytest.mark.thorough]

# Of etcd's JSON gateway for gRPC (etcd.io/docs, API reference): KV.Put makes a new revision, KV.Compact removes all
# earlier ones. The gateway listens in the network namespace of the node only.
COMPACTION = """\
import json, urllib.request

def call(method, **body):
    request = urllib.request.Request(f"http://127.0.0.1:2379/v3/kv/{method}", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)

revision = call("put", key="dGVzdA==", value="")["header"]["revision"]
call("compaction", revision=revision, physical=True)
print(revision)
"""


@pytest.fixture(autouse=True)
def own_cluster() -> None:
    if "MLPACK_E2E_CONTEXT" in os.environ:
        pytest.skip("only the cluster of tests/testbed may be broken")


def compact() -> int:
    """Remove all earlier revisions from etcd, and return the newest one."""
    etcd = testbed.status()["etcd"]
    argv = ["nsenter", f"--target={etcd}", "--net", sys.executable, "-c", COMPACTION]
    return int(subprocess.run(argv, stdout=subprocess.PIPE, check=True, timeout=60).stdout)


def restart_after_compaction(seconds_between: float = 0) -> None:
    """Compact etcd, and start the API server again, whose cache then has no version before the current one."""
    compact()
    component("stop", "kube-apiserver")
    time.sleep(seconds_between)
    component("start", "kube-apiserver")


def test_deploy_survives_compactions_and_a_restart_of_the_api_server(site: Site) -> None:
    package = faulty(site, "sleep:30")
    with package.running("deploy", "--follow") as deploy:
        package.until_running()
        revisions: list[int] = []
        while deploy.poll() is None and len(revisions) < 5:
            revisions.append(compact())
            time.sleep(1)
        restart_after_compaction(12)
        out, stderr = deploy.communicate(timeout=120)
    assert revisions == sorted(set(revisions))
    assert deploy.returncode == 0, stderr
    assert "the cluster does not answer" in stderr
    assert "the cluster is reachable again" in stderr
    assert sorted(line for line in out.splitlines() if line.endswith("slept")) == ["rank 0: slept", "rank 1: slept"]
    package.delete()

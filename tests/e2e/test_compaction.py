"""Compactions of etcd, and an API server that knows no earlier version: watches have to begin again (410 Gone)."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.service.jobs.kube import Cluster, ExpiredError
from tests import testbed
from tests.e2e.faults import component, faulty
from tests.e2e.network import line
from tests.e2e.test_service import ended, hooked, job_of, register, served

if TYPE_CHECKING:
    from tests.e2e.site import Site

pytestmark = [pytest.mark.usefixtures("mpi_image"), pytest.mark.alone]

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


def restart_after_compaction() -> None:
    """Compact etcd, and start the API server again, whose cache then has no version before the current one."""
    compact()
    component("stop", "kube-apiserver")
    component("start", "kube-apiserver")


def test_deploy_ends_right_while_etcd_is_compacted(site: Site) -> None:
    package = faulty(site, "sleep:20")
    with package.running("deploy", "--follow") as deploy:
        package.until_running()
        revisions: list[int] = []
        while deploy.poll() is None and len(revisions) < 5:
            revisions.append(compact())
            time.sleep(1)
        restart_after_compaction()
        out, stderr = deploy.communicate(timeout=120)
    assert revisions == sorted(set(revisions))
    assert deploy.returncode == 0, stderr
    assert sorted(line for line in out.splitlines() if line.endswith("slept")) == ["rank 0: slept", "rank 1: slept"]
    package.delete()


def test_watch_of_a_compacted_version_has_expired(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mirror of the service lists the objects again then, see `tests/service/jobs/test_kube_compaction.py`."""
    monkeypatch.setenv("KUBECONFIG", site.environment["KUBECONFIG"])

    async def watch() -> None:
        cluster = Cluster.connect()
        try:
            _, version = await cluster.list("Job", site.namespace)
            await asyncio.to_thread(restart_after_compaction)
            with pytest.raises(ExpiredError, match="too old resource version"):
                await anext(cluster.watch("Job", site.namespace, version))
            _, newer = await cluster.list("Job", site.namespace)
            assert int(newer) > int(version)
        finally:
            await cluster.close()

    asyncio.run(watch())


def test_service_reports_ends_of_jobs_after_a_compaction(site: Site) -> None:
    own = Path(site.environment["KUBECONFIG"])
    direct = f"kubectl --kubeconfig={shutil.copy(own, site.folder / 'direct')}"
    with line(own) as connection, hooked() as hooks, served(site) as client:
        register(client)
        endpoint = {"endpoint": f"{hooks.address}/", "type": "event", "events": ["running", "succeeded", "failed"]}

        def created(code: int) -> str:
            train = {"steps": 2, "code": code, "file": "/tmp/go"}
            body = {"taskDef": "learning", "process": {"train": train}, "endpoints": [endpoint]}
            return str(client.post("/v1/jobs", json=body).json()["release"])

        good, bad, late = created(0), created(3), created(0)
        old = (good, bad, late)
        site.until(lambda: {job_of(client, release)["status"] for release in old} == {"running"}, "all to run")
        connection.is_cut = True
        for release in (good, bad):
            site.let_end(f"job/{release}", "/tmp/go", direct)
            site.until(
                lambda release=release: (
                    "True" in site.run(f"{direct} get job {release} -o jsonpath={{.status.conditions}}")
                ),
                "the Job to end without the server",
            )
        restart_after_compaction()
        connection.is_cut = False
        for release, status in {good: "succeeded", bad: "failed"}.items():
            job = site.until(lambda release=release: ended(client, release), f"the end that is {status}")
            assert job["status"] == status, job
        assert job_of(client, late)["status"] == "running"
        site.let_end(f"job/{late}", "/tmp/go", direct)
        assert site.until(lambda: ended(client, late), "the end")["status"] == "succeeded"
        for release, status in {good: "succeeded", bad: "failed", late: "succeeded"}.items():
            site.until(lambda release=release: len(hooks.told(release)) == 2, "callbacks")
            assert hooks.told(release) == ["running", status]

"""Tests that stopped pods have failed whatever their exit code is, and that the cause is reported."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.e2e.faults import faulty

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.faults import Faulty
    from tests.e2e.site import Site

pytestmark = pytest.mark.usefixtures("mpi_image")


def evict(site: Site, pod: str) -> None:
    """Evict a pod as a drain of its node does."""
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": site.namespace},
    }
    path = f"/api/v1/namespaces/{site.namespace}/pods/{pod}/eviction"
    site.run(f"echo '{json.dumps(eviction)}' | kubectl create --raw {path} -f -")


def delete(site: Site, pod: str) -> None:
    site.run(f"kubectl delete pod {pod} --wait=false")


STOPPED = ("which stopped it", "it was deleted")
"""The possible messages; a pod that ends at once may vanish between two polls."""


def stop(package: Faulty, how: Callable[[Site, str], None], pod: str) -> str:
    """Deploy, stop a pod once the ranks sleep, assert the exit code 7, and return stderr."""
    with package.running("deploy") as deploy:
        package.until_running()
        main = package.site.launcher() if package.overlay == "multi-node" else pod
        package.site.until(lambda: "sleeps" in package.site.shell(f"kubectl logs {main}").stdout, "the ranks to sleep")
        how(package.site, pod or main)
        _, stderr = deploy.communicate(timeout=180)
    assert deploy.returncode == 7, stderr
    return stderr


def test_stopped_pod_has_failed_even_with_exit_code_0(site: Site) -> None:
    package = faulty(site, "checkpoint:120", overlay="single-node")
    stderr = stop(package, evict, "fault-single-node")
    assert "has succeeded" not in stderr
    assert any(words in stderr.splitlines()[-2] for words in STOPPED), stderr
    package.delete()


def test_stopped_launcher_is_reported_as_cause_of_failure(site: Site) -> None:
    package = faulty(site, "checkpoint:120")
    stderr = stop(package, delete, "")
    end = stderr.splitlines()[-2]
    assert "has failed: pod/fault-multi-node-launcher-" in end
    assert "it was evicted" in end or "it was deleted" in end
    assert package.run("status").out.startswith("mpijob/fault-multi-node  failed: pod/fault-multi-node-launcher-")
    package.delete()


def test_stopped_worker_is_reported_as_cause_by_deploy_and_status(site: Site) -> None:
    package = faulty(site, "sleep:120")
    stderr = stop(package, evict, "fault-multi-node-worker-1")
    assert "has failed: pod/fault-multi-node-worker-1: " in stderr
    assert "while the job was running" in stderr
    status = package.run("status")
    assert status.code == 7
    assert status.out.startswith("mpijob/fault-multi-node  failed: pod/fault-multi-node-worker-1: ")
    package.delete()


@pytest.mark.thorough
def test_deploy_reports_processes_killed_for_memory_on_workers_of_a_successful_job(site: Site) -> None:
    package = faulty(site, "child-memory")
    deployed = package.run("deploy")
    assert deployed.code == 0, deployed.err
    most = "more memory than the limit of 64Mi"
    told = f"a process in it was killed for using {most}, and the job still ended with exit code 0"
    assert f"pod/fault-multi-node-worker-0 (and 1 more): {told}\n" in deployed.err

    def findings() -> list[tuple[str, str, int]]:
        found = json.loads(package.run("status", "-o", "json").out)["findings"]
        return [(finding["reason"], finding["message"], finding["others"]) for finding in found]

    # The workers are stopped one after the other, and the first to end has a finding of its own at first.
    site.until(lambda: findings() == [("OOMKilled", told, 1)], "one finding for both workers", 60)
    sentence = "processes were killed for taking more memory than their worker may, in:"
    assert f"{sentence} fault-multi-node-worker-0 fault-multi-node-worker-1\n" in package.run("logs").out
    package.delete()

"""All that goes wrong in a cluster: the right verdict and exit code, in seconds, and nothing left behind."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.faults import component, faulty
from tests.e2e.network import line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.site import Site

pytestmark = pytest.mark.usefixtures("mpi_image")

BOTH = pytest.mark.parametrize("overlay", ["multi-node", "single-node"])


@pytest.fixture
def outage() -> Iterator[Callable[[str], None]]:
    """Stops parts of the cluster; all of them run again when the test is over."""
    if "MLPACK_E2E_CONTEXT" in os.environ:
        pytest.skip("only the cluster of tests/testbed may be broken")
    stopped = []

    def stop(name: str) -> None:
        stopped.append(name)
        component("stop", name)

    yield stop
    for name in stopped:
        component("start", name)


@BOTH
def test_a_script_that_fails(site: Site, overlay: str) -> None:
    package = faulty(site, "exit:3", overlay=overlay)
    failed = package.run("deploy")
    assert failed.code == 7
    assert "ended with exit code 3" in failed.err
    assert "  | rank 0: this script ends with 3" in failed.err
    assert package.run("status").code == 7
    package.delete()


def test_no_rank_ends_before_its_daemon_knows_of_it(site: Site) -> None:
    """With threads to start ranks in, one job of short ranks in twelve never ended on a machine that was busy."""
    package = faulty(site, "threads")
    deployed = package.run("deploy", "--follow")
    assert deployed.code == 0, deployed.err
    threads = [int(count) for count in re.findall(r"started by a process of (\d+) threads", deployed.out)]
    assert len(threads) == 2
    assert max(threads) < 16, "these are the threads that Open MPI 5 starts ranks in"
    package.delete()


@BOTH
def test_a_pod_that_is_killed_for_its_memory(site: Site, overlay: str) -> None:
    package = faulty(site, "memory", overlay=overlay)
    failed = package.run("deploy")
    assert failed.code == 7
    assert "memory" in failed.err
    assert "64Mi" in failed.err
    package.delete()


@BOTH
def test_an_image_that_does_not_exist(site: Site, overlay: str) -> None:
    package = faulty(site, "none", "image.tag=nope", overlay=overlay)
    failed = package.run("deploy")
    assert failed.code == 7
    assert failed.seen_after("the image docker.io/mpioperator/mpi-pi:nope cannot be pulled") <= 20
    assert failed.seconds < 60
    package.delete()


@BOTH
def test_a_node_that_is_too_small(site: Site, overlay: str) -> None:
    package = faulty(site, "none", f"overlays.{overlay}.resources.requests.cpu=999", overlay=overlay)
    failed = package.run("deploy", "--patience", "5s")
    assert failed.code == 7
    assert failed.seen_after("Insufficient cpu") <= 20
    package.delete()


def test_a_full_quota_refuses_a_pod_and_leaves_nothing(site: Site) -> None:
    site.run("kubectl create quota full --hard=pods=0")
    package = faulty(site, "none", overlay="single-node")
    failed = package.run("deploy")
    assert failed.code == 7
    assert "the quota full of the namespace does not allow another pod" in failed.err
    assert site.left() == []


def test_a_full_quota_keeps_an_mpijob_waiting_until_there_is_room(site: Site) -> None:
    site.run("kubectl create quota full --hard=pods=1")
    package = faulty(site, "none")
    failed = package.run("deploy", "--patience", "5s")
    assert failed.code == 7
    assert failed.seen_after("the quota full of the namespace does not allow another pod") <= 20
    site.run("kubectl delete quota full")
    assert package.run("deploy").code == 0
    package.delete()


@BOTH
def test_a_namespace_that_forbids(site: Site, overlay: str) -> None:
    package = faulty(site, "none", overlay=overlay)
    manifest = "mpi-job.yaml" if overlay == "multi-node" else "pod.yaml"
    package.edit(manifest, "allowPrivilegeEscalation: false", "privileged: true")
    failed = package.run("deploy", "--no-verify")
    assert failed.code == 7
    assert "the namespace enforces Pod Security restricted" in failed.err
    assert failed.seconds < 30
    if overlay == "single-node":
        assert site.left() == []
    package.delete()


def test_a_job_that_the_operator_rejects_in_an_event_only(site: Site) -> None:
    package = faulty(site, "none")
    package.edit("mpi-job.yaml", "cleanPodPolicy: Running", "cleanPodPolicy: Sometimes")
    failed = package.run("deploy", "--no-verify")
    assert failed.code == 7
    assert "mpi-operator rejects the job" in failed.err
    assert "Sometimes" in failed.err
    assert failed.seconds < 30
    package.delete()


def test_a_config_map_that_is_missing(site: Site) -> None:
    package = faulty(site, "none", overlay="single-node")
    package.edit("pod.yaml", "envFrom:\n", "envFrom:\n        - configMapRef:\n            name: nowhere\n")
    failed = package.run("deploy", "--no-verify")
    assert failed.code == 7
    assert "create the configmap nowhere in this namespace" in failed.err
    assert failed.seconds < 60
    package.delete()


def test_a_launcher_that_fails_twice_before_it_succeeds(site: Site) -> None:
    package = faulty(site, "flaky:2", "overlays.multi-node.retries=2")
    deployed = package.run("deploy", "--follow")
    assert deployed.code == 0, deployed.err
    assert "attempt 1 of 3" in deployed.err
    assert "attempt 2 of 3" in deployed.err
    for attempt in (1, 2, 3):
        assert f"rank 0: attempt {attempt}" in deployed.out
    package.delete()


@pytest.mark.parametrize("how", ["delete", "evict"])
def test_a_worker_that_is_taken_away(site: Site, how: str) -> None:
    package = faulty(site, "sleep:30")
    with package.running("deploy") as deploy:
        # A worker that goes before it has ranks is waited for, and the job runs to its end on the one in its place.
        site.until_both_ranks_say("sleeps")
        worker = "fault-multi-node-worker-1"
        if how == "delete":
            site.run(f"kubectl delete pod {worker} --grace-period=1")
        else:
            meta = f'"metadata":{{"name":"{worker}","namespace":"{site.namespace}"}}'
            body = f'{{"apiVersion":"policy/v1","kind":"Eviction",{meta}}}'
            site.run(
                f"echo '{body}' | kubectl create --raw /api/v1/namespaces/{site.namespace}/pods/{worker}/eviction -f -"
            )
        _, stderr = deploy.communicate(timeout=120)
    assert deploy.returncode == 7, stderr
    assert "has failed" in stderr
    package.delete()


@pytest.mark.alone
def test_the_api_server_killed_and_restarted(site: Site, outage: Callable[[str], None]) -> None:
    package = faulty(site, "sleep:25")
    with package.running("deploy", "--follow") as deploy:
        package.until_running()
        outage("kube-apiserver")
        time.sleep(12)
        component("start", "kube-apiserver")
        out, stderr = deploy.communicate(timeout=120)
    assert deploy.returncode == 0, stderr
    assert "the cluster does not answer" in stderr
    assert "the cluster is reachable again" in stderr
    assert sorted(line for line in out.splitlines() if line.endswith("slept")) == ["rank 0: slept", "rank 1: slept"]
    package.delete()


def test_the_connection_lost_for_20_seconds(site: Site) -> None:
    package = faulty(site, "sleep:30")
    with line(Path(site.environment["KUBECONFIG"])) as connection:
        with package.running("deploy", "--follow") as deploy:
            package.until_running()
            connection.whole.clear()
            time.sleep(20)
            connection.whole.set()
            out, stderr = deploy.communicate(timeout=120)
        assert deploy.returncode == 0, stderr
        assert sorted(line for line in out.splitlines() if line.endswith("slept")) == ["rank 0: slept", "rank 1: slept"]
        package.delete()


@pytest.mark.alone
def test_the_operator_stopped_and_back(site: Site, outage: Callable[[str], None]) -> None:
    package = faulty(site, "none")
    outage("mpi-operator")
    with package.running("deploy") as deploy:
        time.sleep(20)
        component("start", "mpi-operator")
        _, stderr = deploy.communicate(timeout=120)
    assert deploy.returncode == 0, stderr
    assert "mpi-operator is not running" in stderr
    package.delete()


@pytest.mark.alone
@pytest.mark.parametrize(
    ("part", "away"),
    [
        ("mpi-operator", "the launcher has ended (Complete), but mpi-operator has not updated the job yet"),
        ("kube-controller-manager", "the launcher has ended (Succeeded), but its Job is not updated yet"),
    ],
)
def test_an_end_that_nobody_sees_is_the_verdict_after_patience(
    site: Site, outage: Callable[[str], None], part: str, away: str
) -> None:
    package = faulty(site, "sleep:10")
    with package.running("deploy", "--patience", "5s") as deploy:
        site.until_both_ranks_say("sleeps")
        outage(part)
        _, stderr = deploy.communicate(timeout=60)
    assert deploy.returncode == 0, stderr
    assert f"{package.workload} has succeeded\n{package.workload}: {away}\n" in stderr
    component("start", part)
    assert site.end_of(package.workload.partition("/")[2], timeout=120) == "Succeeded"
    package.delete()

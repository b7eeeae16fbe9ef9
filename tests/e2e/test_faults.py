"""Tests of faults in a cluster: verdict and exit code are right within seconds, and no objects are left."""

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
    from collections.abc import Callable, Iterator

    from tests.e2e.site import Site

pytestmark = pytest.mark.usefixtures("mpi_image")

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


@pytest.fixture
def outage() -> Iterator[Callable[[str], None]]:
    """Yield a function that stops a part of the cluster; all parts are started again after the test."""
    if "MLPACK_E2E_CONTEXT" in os.environ:
        pytest.skip("only the cluster of tests/testbed may be broken")
    stopped = []

    def stop(name: str) -> None:
        stopped.append(name)
        component("stop", name)

    yield stop
    for name in stopped:
        component("start", name)


def compact() -> int:
    """Remove all earlier revisions from etcd, and return the newest one."""
    etcd = testbed.status()["etcd"]
    argv = ["nsenter", f"--target={etcd}", "--net", sys.executable, "-c", COMPACTION]
    return int(subprocess.run(argv, stdout=subprocess.PIPE, check=True, timeout=60).stdout)


def test_deploy_and_kubectl_show_exit_code_and_last_lines_of_a_failed_script(site: Site) -> None:
    package = faulty(site, "exit:3")
    failed = package.run("deploy")
    assert failed.code == 7
    assert "ended with exit code 3" in failed.err
    assert "  | rank 0: this script ends with 3" in failed.err
    launcher = site.get(f"pod {site.launcher()}")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert launcher["exitCode"] == 3
    assert "rank 0: this script ends with 3" in launcher["message"]
    assert package.run("status").code == 7
    package.delete()


def test_deploy_reports_the_memory_limit_of_a_killed_pod(site: Site) -> None:
    package = faulty(site, "memory", overlay="single-node")
    failed = package.run("deploy")
    assert failed.code == 7
    assert "memory" in failed.err
    assert "64Mi" in failed.err
    package.delete()


def test_deploy_reports_a_missing_image_within_20_seconds(site: Site) -> None:
    package = faulty(site, "none", "image.tag=nope")
    failed = package.run("deploy")
    assert failed.code == 7
    assert failed.seen_after("the image docker.io/mpioperator/mpi-pi:nope cannot be pulled") <= 20
    assert failed.seconds < 60
    package.delete()


def test_deploy_reports_insufficient_cpu_within_20_seconds(site: Site) -> None:
    package = faulty(site, "none", "overlays.single-node.resources.requests.cpu=999", overlay="single-node")
    failed = package.run("deploy", "--patience", "5s")
    assert failed.code == 7
    assert failed.seen_after("too little cpu left") <= 20
    package.delete()


def test_deploy_reports_the_pod_security_level_that_refuses_pods(site: Site) -> None:
    package = faulty(site, "none")
    package.edit("mpi-job.yaml", "allowPrivilegeEscalation: false", "privileged: true")
    failed = package.run("deploy", "--no-verify")
    assert failed.code == 7
    assert "the namespace enforces Pod Security restricted" in failed.err
    assert failed.seconds < 30
    package.delete()


def test_deploy_reports_a_rejection_that_is_only_in_an_event(site: Site) -> None:
    package = faulty(site, "none")
    package.edit("mpi-job.yaml", "cleanPodPolicy: Running", "cleanPodPolicy: Sometimes")
    failed = package.run("deploy", "--no-verify")
    assert failed.code == 7
    assert "mpi-operator rejects the job" in failed.err
    assert "Sometimes" in failed.err
    assert failed.seconds < 30
    package.delete()


def test_deploy_follows_a_launcher_that_fails_twice_and_then_succeeds(site: Site) -> None:
    package = faulty(site, "flaky:2", "overlays.multi-node.retries=2")
    deployed = package.run("deploy", "--follow")
    assert deployed.code == 0, deployed.err
    assert "attempt 1 of 3" in deployed.err
    assert "attempt 2 of 3" in deployed.err
    for attempt in (1, 2, 3):
        assert f"rank 0: attempt {attempt}" in deployed.out
    package.delete()


@pytest.mark.thorough
@pytest.mark.alone
def test_deploy_survives_compactions_and_a_restart_of_the_api_server(site: Site, outage: Callable[[str], None]) -> None:
    """Watches have to begin again (410 Gone): etcd is compacted, and the new server's cache has no earlier version."""
    package = faulty(site, "sleep:30")
    with package.running("deploy", "--follow") as deploy:
        package.until_running()
        revisions: list[int] = []
        while deploy.poll() is None and len(revisions) < 5:
            revisions.append(compact())
            time.sleep(1)
        outage("kube-apiserver")
        time.sleep(12)
        component("start", "kube-apiserver")
        out, stderr = deploy.communicate(timeout=120)
    assert revisions == sorted(set(revisions))
    assert deploy.returncode == 0, stderr
    assert "the cluster does not answer" in stderr
    assert "the cluster is reachable again" in stderr
    assert sorted(line for line in out.splitlines() if line.endswith("slept")) == ["rank 0: slept", "rank 1: slept"]
    package.delete()


@pytest.mark.thorough
@pytest.mark.alone
def test_end_missed_by_the_operator_becomes_the_verdict_after_patience(
    site: Site, outage: Callable[[str], None]
) -> None:
    package = faulty(site, "sleep:10")
    with package.running("deploy", "--patience", "5s") as deploy:
        site.until_both_ranks_say("sleeps")
        outage("mpi-operator")
        _, stderr = deploy.communicate(timeout=60)
    assert deploy.returncode == 0, stderr
    away = "the launcher has ended (Complete), but mpi-operator has not updated the job yet"
    assert f"{package.workload} has succeeded\n{package.workload}: {away}\n" in stderr
    component("start", "mpi-operator")
    assert site.end_of(package.workload.partition("/")[2], timeout=120) == "Succeeded"
    package.delete()

"""Tests of a Job on a real cluster, and of the output of the verbs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests import kinds
from tests.e2e.faults import faulty
from tests.e2e.test_truth_verdicts import evict

if TYPE_CHECKING:
    from tests.e2e.faults import Faulty
    from tests.e2e.site import Site

pytestmark = pytest.mark.usefixtures("mpi_image")

SHOWN = "job/fault-one-job"


def job(site: Site, fault: str, *settings: str) -> Faulty:
    """Build a package with a fault, to run as a Job."""
    memory = ("overlays.one-job.resources.requests.memory=32Mi", "overlays.one-job.resources.limits.memory=64Mi")
    return faulty(site, fault, *kinds.SET, *memory, *settings, overlay="one-job")


def pod_of(site: Site) -> str:
    return site.run("kubectl get pods --selector=job-name=fault-one-job -o name").strip()


def test_job_is_deployed_listed_and_deleted(site: Site) -> None:
    package = job(site, "none", "overlays.one-job.ttl=600")
    site.run(f"mlpack verify {package.folder}")
    doctor = package.run("doctor")
    assert (doctor.code, "fails" in doctor.out) == (0, False), doctor.out
    deploy = package.run("deploy")
    assert (deploy.code, deploy.out) == (0, ""), deploy.err
    assert f"{SHOWN} has succeeded\n" in deploy.err
    status = package.run("status")
    assert (status.code, status.out.splitlines()[0]) == (0, f"{SHOWN}  succeeded: the pod has succeeded")
    assert package.run("logs").out == "rank 0: done\n"
    assert SHOWN in site.run("mlpack status")
    package.delete()


def test_job_is_retried_and_every_attempt_is_reported(site: Site) -> None:
    package = job(site, "exit:3", "overlays.one-job.retries=1")
    deploy = package.run("deploy")
    assert deploy.code == 7, deploy.err
    assert f"{SHOWN} has failed: the pod has failed in each of 2 attempts" in deploy.err
    assert "attempt 1 of 2: container main ended with exit code 3" in deploy.err
    answer = json.loads(package.run("status", "-o", "json").out)
    assert [finding["reason"] for finding in answer["findings"]] == ["Error", "Retried"]
    package.delete()


def test_job_ends_well_after_two_drains_and_its_results_are_read_while_it_runs(site: Site) -> None:
    package = job(site, "results-until-told")
    with package.running("deploy") as deploy:
        drained: set[str] = set()
        here = site.folder / "results"
        for _ in range(3):
            site.until(lambda: set(pod_of(site).split()) - drained, "another pod", 300)
            [pod] = set(pod_of(site).split()) - drained
            site.until(lambda pod=pod: "wrote" in site.shell(f"kubectl logs {pod}").stdout, "its results", 60)
            if len(drained) < 2:
                evict(site, pod.removeprefix("pod/"))
            else:
                assert package.run("results", str(here)).code == 0
                assert site.run(f"kubectl exec {pod} -- id -u") == "1000\n"
                site.let_end(pod, "$OUTPUT_DIR/enough")
            drained.add(pod)
        _, stderr = deploy.communicate(timeout=120)
    assert (deploy.returncode, f"{SHOWN} has succeeded\n" in stderr) == (0, True), stderr
    assert "the pod was started again twice after a drain" in stderr
    assert (here / "deep/rank-0.bin").stat().st_size == 300_000
    gone = package.run("results", str(here))
    assert (gone.code, "its results were deleted then" in gone.err) == (7, True), gone.err
    package.delete()

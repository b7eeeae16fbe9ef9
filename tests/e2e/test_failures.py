"""Tests that failures are visible to a user with kubectl alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.site import ENDS

if TYPE_CHECKING:
    from tests.e2e.site import Site

pytestmark = pytest.mark.usefixtures("mpi_image")

SPEC = Path(__file__).parent / "specs" / "faults"


def apply(site: Site, mode: str, *options: str, overlay: str = "multi-node") -> str:
    """Build and apply a package that fails, and return the name of its workload."""
    package = site.build(str(SPEC), "--mode", mode, *options)
    site.run(f"kubectl -k quickstart/k8s/mlops/{overlay} apply", cwd=package)
    return f"faults-{mode}-{overlay}"


def terminated(site: Site, pod: str) -> dict[str, Any]:
    state: dict[str, Any] = site.get(f"pod {pod}")["status"]["containerStatuses"][0]["state"]["terminated"]
    return state


def test_launcher_status_shows_the_exit_code_and_message_of_a_failed_script(site: Site) -> None:
    job = apply(site, "exit")
    assert site.end_of(job) == "Failed"
    state = terminated(site, site.launcher())
    assert state["exitCode"] == 3
    assert "the learning rate is not a number" in state["message"]


def test_pod_status_shows_the_exit_code_and_message_of_a_failed_script(site: Site) -> None:
    pod = apply(site, "exit", overlay="single-node")
    assert site.end_of_pod(pod) == "Failed"
    state = terminated(site, pod)
    assert (state["exitCode"], state["message"].strip()) == (3, "the learning rate is not a number")


@pytest.mark.thorough
def test_launcher_status_shows_the_signal_of_a_killed_rank(site: Site) -> None:
    job = apply(site, "linger")
    site.until_both_ranks_say("works")
    site.run(f"kubectl exec {job}-worker-1 -- sh -c 'kill -9 $(pidof sleep)'")
    assert site.end_of(job, timeout=60) == "Failed"
    state = terminated(site, site.launcher())
    assert state["exitCode"] != 0
    assert "signal 9" in state["message"], state["message"]


@pytest.mark.thorough
def test_launcher_status_names_a_deleted_worker(site: Site) -> None:
    job = apply(site, "linger")
    site.until_both_ranks_say("works")
    site.run(f"kubectl delete pod {job}-worker-1 --grace-period=1")
    assert site.end_of(job, timeout=90) == "Failed"
    state = terminated(site, site.launcher())
    assert state["exitCode"] != 0
    assert f"{job}-worker-1" in state["message"], state["message"]


@pytest.mark.thorough
def test_missing_image_is_shown_by_pods_and_does_not_end_the_job(site: Site) -> None:
    job = apply(site, "exit", "--set image.tag=none")

    def reasons() -> set[str]:
        pods = site.get("pods")["items"]
        statuses = [one for pod in pods for one in pod["status"].get("initContainerStatuses", [])]
        return {one["state"].get("waiting", {}).get("reason") for one in statuses}

    site.until(lambda: reasons() & {"ErrImagePull", "ImagePullBackOff"}, "the kubelet's word on the image")
    assert not ENDS.intersection(site.conditions(job))


@pytest.mark.thorough
def test_exhausted_quota_is_named_in_events(site: Site) -> None:
    site.run("kubectl create quota small --hard=requests.cpu=25m,limits.cpu=9,requests.memory=1Gi,limits.memory=9Gi")
    job = apply(site, "exit")

    def refused() -> bool:
        return "exceeded quota: small" in site.run(f"kubectl describe mpijob {job}; kubectl get events")

    site.until(refused, "the quota's word in the events")
    assert "Succeeded" not in site.conditions(job)

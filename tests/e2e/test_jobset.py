"""A JobSet on a real cluster: its pods find each other, and what is said when one of them fails."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.e2e.faults import Faulty
from tests.e2e.site import CHECKOUT

if TYPE_CHECKING:
    from tests.e2e.site import Site

pytestmark = pytest.mark.usefixtures("mpi_image")

SPEC = CHECKOUT / "tests/e2e/specs/peers"
SHOWN = "jobset/peers-nodes"
PERMANENT = "overlays.nodes.permanent_exit_codes=1-127"


def peers(site: Site, fault: str, *settings: str) -> Faulty:
    """Build the package whose pods do what `fault` says, as a user that no image knows."""
    given = " ".join(f"--set '{setting}'" for setting in (f"environment.FAULT={fault}", *settings))
    package = Faulty(site, site.build(str(SPEC), given), "nodes")
    site.run(f"mlpack configure {package.folder} --uid 12345 --gid 12345 --fs-group 12345")
    return package


def pod_of(site: Site, index: int) -> str:
    label = f"--selector=batch.kubernetes.io/job-completion-index={index}"
    return site.run(f"kubectl get pods {label} -o name").strip()


def test_its_pods_find_each_other_by_name(site: Site) -> None:
    package = peers(site, "none")
    deploy = package.run("deploy")
    assert (deploy.code, f"{SHOWN} has succeeded\n" in deploy.err) == (0, True), deploy.err
    lines = package.run("logs").out.splitlines()
    assert lines == [
        "node 0 of 2 on peers-nodes-node-0-0 as 12345",
        "heard node 1 of 2 on peers-nodes-node-0-1 as 12345",
        "step 1",
        "done",
    ]
    assert package.run("logs", "--worker", "1").out.splitlines()[0] == lines[1].removeprefix("heard ")
    package.delete()


def test_a_name_that_somebody_puts_around_it(site: Site) -> None:
    """An overlay of one's own over the package's: the pods ask for each other by the name that they got."""
    package = peers(site, "none").folder
    overlay = site.folder / "own"
    overlay.mkdir()
    own = {"nameSuffix": "-two", "resources": [f"../{package.name}/quickstart/k8s/mlops/nodes"]}
    (overlay / "kustomization.yaml").write_text(json.dumps(own))
    site.run(f"kubectl apply -k {package.name}/quickstart/k8s/mlops/nodes && kubectl apply -k own")
    site.run("kubectl wait --for=condition=Completed --timeout=120s jobset/peers-nodes jobset/peers-nodes-two")


def test_the_node_that_fails_is_told_and_not_the_one_that_is_stopped(site: Site) -> None:
    package = peers(site, "exit")
    deploy = package.run("deploy")
    assert deploy.code == 7, deploy.err
    assert f"{SHOWN} has failed: node 1: container node ended with exit code 3" in deploy.err
    assert "  | step 2: no such data" in deploy.err
    assert "node 0 was stopped; its last lines:" in deploy.err
    assert "  | heard node 1 of 2 on peers-nodes-node-0-1 as 12345" in deploy.err
    package.delete()


def test_all_pods_are_started_anew_when_one_has_failed(site: Site) -> None:
    package = peers(site, "exit", "overlays.nodes.retries=1")
    deploy = package.run("deploy")
    assert deploy.code == 7, deploy.err
    assert f"{SHOWN} has failed: node 1: container node ended with exit code 3, in the last of 2 attempts" in deploy.err
    assert "attempt 1 of 2: node 1: container node ended with exit code 3" in deploy.err
    package.delete()


def test_a_permanent_exit_code_ends_the_set(site: Site) -> None:
    package = peers(site, "exit", "overlays.nodes.retries=2", PERMANENT)
    deploy = package.run("deploy")
    why = "node 1: container node ended with exit code 3, in attempt 1 of 3: exit code 3 is permanent"
    assert (deploy.code, f"{SHOWN} has failed: {why}" in deploy.err) == (7, True), deploy.err
    status = package.run("status")
    assert (status.code, why in status.out) == (7, True), status.out
    site.until(lambda: "FailJobSetFailurePolicyAction" in site.run(f"kubectl get {SHOWN} -o yaml"), "JobSet to agree")
    package.delete()


def test_any_other_exit_code_starts_the_set_anew(site: Site) -> None:
    package = peers(site, "killed", "overlays.nodes.retries=1", PERMANENT)
    deploy = package.run("deploy")
    why = "node 1: container node ended with exit code 137 (killed)"
    assert (deploy.code, f"{SHOWN} has failed: {why}, in the last of 2 attempts" in deploy.err) == (7, True), deploy.err
    assert f"attempt 1 of 2: {why}" in deploy.err
    package.delete()


def test_a_pod_that_is_deleted_is_the_reason(site: Site) -> None:
    package = peers(site, "sleep")
    with package.running("deploy") as deploy:
        site.until(lambda: "step 1" in package.run("logs").out, "the pods to have met")
        site.run(f"kubectl delete {pod_of(site, 1)} --wait=false")
        _, stderr = deploy.communicate(timeout=120)
    assert deploy.returncode == 7, stderr
    assert "node 1: it was deleted, which stopped it" in stderr
    package.delete()

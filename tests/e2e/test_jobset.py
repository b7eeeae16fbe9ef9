"""Tests of a JobSet on a real cluster: its pods find each other, and the failed pod is reported."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.e2e.faults import Faulty
from tests.e2e.site import CHECKOUT
from tests.e2e.test_truth_verdicts import evict

if TYPE_CHECKING:
    from tests.e2e.site import Site

pytestmark = pytest.mark.usefixtures("mpi_image")

SPEC = CHECKOUT / "tests/e2e/specs/peers"
SHOWN = "jobset/peers-nodes"
PERMANENT = "overlays.nodes.permanent_exit_codes=1-127"


def peers(site: Site, fault: str, *settings: str) -> Faulty:
    """Build a package whose pods have a fault, for uid 12345, which is not in the image."""
    given = " ".join(f"--set '{setting}'" for setting in (f"environment.FAULT={fault}", *settings))
    package = Faulty(site, site.build(str(SPEC), given), "nodes")
    site.run(f"mlpack configure {package.folder} --uid 12345 --gid 12345 --fs-group 12345")
    return package


def pod_of(site: Site, index: int) -> str:
    label = f"--selector=batch.kubernetes.io/job-completion-index={index}"
    return site.run(f"kubectl get pods {label} -o name").strip()


def test_pods_of_a_jobset_find_each_other_by_name(site: Site) -> None:
    package = peers(site, "none")
    assert package.run("configure", "--workers", "3").code == 0
    deploy = package.run("deploy")
    assert (deploy.code, f"{SHOWN} has succeeded\n" in deploy.err) == (0, True), deploy.err
    nodes = [f"node {index} of 3 on peers-nodes-node-0-{index} as 12345" for index in range(3)]
    first, *heard, step, done = package.run("logs").out.splitlines()
    assert (first, step, done) == (nodes[0], "step 1", "done")
    assert sorted(heard) == [f"heard {node}" for node in nodes[1:]]
    assert package.run("logs", "--worker", "1").out.splitlines()[0] == nodes[1]
    package.delete()


def test_jobset_runs_under_the_name_suffix_of_a_user(site: Site) -> None:
    """An overlay around the package's renames the JobSet, and its pods resolve each other by the new name."""
    package = peers(site, "none").folder
    overlay = site.folder / "own"
    overlay.mkdir()
    own = {"nameSuffix": "-two", "resources": [f"../{package.name}/quickstart/k8s/mlops/nodes"]}
    (overlay / "kustomization.yaml").write_text(json.dumps(own))
    site.run(f"kubectl apply -k {package.name}/quickstart/k8s/mlops/nodes && kubectl apply -k own")
    site.run("kubectl wait --for=condition=Completed --timeout=120s jobset/peers-nodes jobset/peers-nodes-two")


def test_failed_node_is_reported_before_the_stopped_one(site: Site) -> None:
    package = peers(site, "exit")
    deploy = package.run("deploy")
    assert deploy.code == 7, deploy.err
    assert f"{SHOWN} has failed: node 1: container node ended with exit code 3" in deploy.err
    assert "  | step 2: no such data" in deploy.err
    assert "node 0 was stopped; its last lines:" in deploy.err
    assert "  | heard node 1 of 2 on peers-nodes-node-0-1 as 12345" in deploy.err
    package.delete()


@pytest.mark.thorough
@pytest.mark.alone
def test_follow_prints_whole_logs_of_attempts_shorter_than_a_poll(site: Site) -> None:
    """JobSet deletes the pods of an attempt about two seconds after they have failed, and their logs with them."""
    package = peers(site, "early", "overlays.nodes.retries=2")
    deploy = package.run("deploy", "--follow")
    assert deploy.code == 7, deploy.err
    assert ", in the last of 3 attempts" in deploy.err
    assert deploy.out.splitlines() == [f"line {line}" for _ in range(3) for line in range(1, 501)]
    for attempt in (1, 2):
        # Both nodes fail at the same time, and the one that is seen first is named.
        assert re.search(f"attempt {attempt} of 3: node [01]: container node ended with exit code 3", deploy.err)
    package.delete()


def test_permanent_exit_code_ends_the_jobset(site: Site) -> None:
    package = peers(site, "exit", "overlays.nodes.retries=2", PERMANENT)
    deploy = package.run("deploy")
    why = "node 1: container node ended with exit code 3, in attempt 1 of 3: exit code 3 is permanent"
    assert (deploy.code, f"{SHOWN} has failed: {why}" in deploy.err) == (7, True), deploy.err
    status = package.run("status")
    assert (status.code, why in status.out) == (7, True), status.out
    site.until(lambda: "FailJobSetFailurePolicyAction" in site.run(f"kubectl get {SHOWN} -o yaml"), "JobSet to agree")
    package.delete()


def test_jobset_without_retries_ends_well_after_two_drains(site: Site) -> None:
    package = peers(site, "wait")
    with package.running("deploy") as deploy:
        for restarts in range(3):
            attempt = f"--selector=jobset.sigs.k8s.io/restart-attempt={restarts}"
            logs = f"kubectl logs {attempt},batch.kubernetes.io/job-completion-index=0"
            site.until(lambda logs=logs: "step 1" in site.shell(logs).stdout, "the pods to have met", 60)
            pods = site.run(f"kubectl get pods {attempt} -o name").split()
            if restarts < 2:
                evict(site, pods[restarts].removeprefix("pod/"))
            else:
                for pod in pods:
                    site.let_end(pod, "$HOME/enough")
        _, stderr = deploy.communicate(timeout=120)
    assert (deploy.returncode, f"{SHOWN} has succeeded\n" in stderr) == (0, True), stderr
    assert "all pods were started again twice after a drain" in stderr
    package.delete()

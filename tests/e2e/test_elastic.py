"""Tests of torchrun on nodes of which one is drained and comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.faults import Faulty
from tests.e2e.site import CHECKOUT, Images, last_json
from tests.e2e.test_truth_verdicts import evict

if TYPE_CHECKING:
    from tests.e2e.site import Site

pytestmark = pytest.mark.thorough

SPEC = CHECKOUT / "tests/e2e/specs/elastic"
ONE_POD = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "one"}, "spec": {"hard": {"pods": "1"}}}


@pytest.fixture(scope="module", autouse=True)
def pytorch(images: Images) -> str:
    return images.build(CHECKOUT / "model_specs/llm-finetune", "localhost/pytorch:2.14.1")


def elastic(site: Site, *settings: str) -> Faulty:
    """Build the package of two nodes, one of which is enough."""
    options = [f"--set 'environment.{setting}'" for setting in settings]
    return Faulty(site, site.build(str(SPEC), "--with elastic --site ELASTIC_MIN=1", *options), "nodes")


def pod_of(site: Site, index: int) -> str:
    """Return the name of the pod of a node that runs."""
    label = f"--selector=batch.kubernetes.io/job-completion-index={index}"
    return site.run(f"kubectl get pods {label} --field-selector=status.phase=Running -o name").strip().split("/")[1]


def last(package: Faulty) -> dict[str, Any]:
    """Return the last line of JSON that node 0 has printed; nothing before the first."""
    log = package.run("logs").out
    return last_json(log) if any(line.startswith("{") for line in log.splitlines()) else {}


def test_torchrun_goes_on_without_a_node_and_with_its_replacement(site: Site) -> None:
    """A quota keeps the replacement away until the other node has gone on alone."""
    package = elastic(site, "WORLDS.value=2 1 2")
    with package.running("deploy", "--timeout", "8m") as deploy:
        site.until(lambda: last(package).get("worlds", [0])[-1] == 2, "both nodes to work", 600)
        site.apply(ONE_POD)
        evict(site, pod_of(site, 1))
        site.until(lambda: last(package)["worlds"][-1] == 1, "node 0 to go on alone", 600)
        assert last(package)["from"] > 0
        site.run("kubectl delete resourcequota one")
        _, err = deploy.communicate(timeout=660)
        assert deploy.returncode == 0, err
    assert "jobset/elastic-nodes has succeeded\n" in err
    assert last(package)["worlds"][-3:] == [2, 1, 2]
    assert last(package)["step"] > 0
    package.delete()

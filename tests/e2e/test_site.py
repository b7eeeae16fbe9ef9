"""Test that the defaults of a site make a package run on a real cluster, without an option on the command line."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.storage import SPEC, claim
from tests.e2e.test_queue import open_queue, workload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.site import Site

pytestmark = [
    pytest.mark.usefixtures("mpi_image"),
    pytest.mark.skipif("MLPACK_E2E_CONTEXT" in os.environ, reason="another cluster may have no Kueue"),
]


@pytest.fixture
def pool(site: Site) -> Iterator[str]:
    """Yield the key of a label that the nodes have during the test."""
    key = f"example.com/{site.namespace}"
    site.run(f"kubectl label nodes --all {key}=train")
    yield key
    site.run(f"kubectl label nodes --all {key}-")


def test_package_runs_with_claim_queue_and_placement_of_the_site(
    site: Site, queue: str, volumes: str, pool: str
) -> None:
    claim(site, "results", volumes)
    (site.folder / "mlpack-site.yaml").write_text(
        f"root: /srv\nids: {{uid: 1234, gid: 1234, fsGroup: 1234}}\nqueue: {queue}\nnodeSelector: {{{pool}: train}}\n"
        "storage: {output-pvc: {OUTPUT_CLAIM: results}}\n"
        "tolerations: [{key: example.com/train, operator: Exists, effect: NoSchedule}]\n",
        encoding="utf-8",
    )
    package = received(site)
    done = site.shell(f"mlpack configure {package}")
    assert done.returncode == 0, done.stderr
    assert f"using site defaults of {site.folder}/mlpack-site.yaml\n" in done.stderr
    open_queue(site, queue)
    site.run(f"mlpack deploy {package}")
    assert workload(site)["spec"]["queueName"] == queue
    for pod in site.get("pods")["items"]:
        check_pod(pod["spec"], pool)
    site.run(f"mlpack delete {package}")
    site.run(f"mlpack deploy {package}")
    assert "found in output: storage" in site.run(f"mlpack logs {package}")
    site.run(f"mlpack delete {package}")
    assert site.left() == ["persistentvolumeclaim/results"]


def received(site: Site) -> str:
    """Build a package that knows nothing of the site, and return its path."""
    return site.build(str(SPEC), "--site-file /dev/null").name


def check_pod(spec: dict[str, Any], pool: str) -> None:
    """Assert that a pod has the placement and the ids of the site."""
    assert spec["nodeSelector"] == {pool: "train"}
    assert {"key": "example.com/train", "operator": "Exists", "effect": "NoSchedule"} in spec["tolerations"]
    assert (spec["securityContext"]["runAsUser"], spec["securityContext"]["fsGroup"]) == (1234, 1234)

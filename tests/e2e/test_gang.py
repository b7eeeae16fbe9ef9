"""Tests of the option `gang` with real gang schedulers: all pods that compute start, or none does."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest

from tests.e2e.faults import Faulty
from tests.e2e.test_jobset import SPEC

if TYPE_CHECKING:
    from tests.e2e.site import Site

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.usefixtures("mpi_image"),
    pytest.mark.skipif("MLPACK_E2E_CONTEXT" in os.environ, reason="another cluster may have no such scheduler"),
]

TOO_MUCH = "1500m"
"""The CPUs of a pod of which the test cluster's node, which has 2, can run one and not two."""


def with_gang(scheduler: str) -> str:
    """Return the options of `build` for a gang scheduler."""
    return f"--with gang --site GANG={scheduler}"


@pytest.mark.parametrize("gang", ["coscheduling", "volcano"])
def test_pods_of_a_jobset_start_only_when_all_fit(site: Site, gang: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(gang)
    package = Faulty(site, site.build(str(SPEC), f"--set environment.FAULT=none {with_gang(gang)}"), "nodes")
    site.run(f"mlpack configure {package.folder} --cpu {TOO_MUCH}")
    deploy = package.run("deploy", "--timeout=20s")
    assert deploy.code != 0
    assert [pod["spec"].get("nodeName") for pod in site.get("pods")["items"]] == [None, None]
    pattern = (
        r"is still stuck after 20 s: no node can run it: (the only node has too little cpu left|there is no room .*)\n"
    )
    assert re.search(pattern, deploy.err), deploy.err
    package.delete()
    site.run(f"mlpack configure {package.folder} --cpu 10m")
    deploy = package.run("deploy")
    assert (deploy.code, "jobset/peers-nodes has succeeded\n" in deploy.err) == (0, True), deploy.err

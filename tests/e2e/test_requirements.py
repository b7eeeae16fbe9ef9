"""Test that pods install the Python packages that their image lacks, unedited and under "restricted"."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.e2e.site import CHECKOUT, Images
from tests.wheels import wheel

if TYPE_CHECKING:
    from tests.e2e.site import Site

MODEL = CHECKOUT / "tests/e2e/specs/requirements"


@pytest.mark.thorough
def test_packages_of_requirements_are_installed_in_each_kind(site: Site, images: Images) -> None:
    images.build(MODEL, "localhost/requirements:1")
    model = site.folder / "model"
    shutil.copytree(MODEL, model)
    (model / "requirements.txt").write_text(wheel(model / "wheels", "from the wheel"))
    package = site.build("./model")
    for overlay in ("single-node", "one-job", "nodes"):
        site.run(f"kubectl -k {package}/quickstart/k8s/mlops/{overlay} apply")
    assert site.end_of_pod("requirements-single-node") == "Succeeded"
    site.run("kubectl wait --for=condition=Complete --timeout=600s job/requirements-one-job")
    site.run("kubectl wait --for=condition=Completed --timeout=600s jobset/requirements-nodes")
    of_nodes = "--selector=jobset.sigs.k8s.io/jobset-name=requirements-nodes --tail=-1"
    for pods, count in (("requirements-single-node", 1), ("job/requirements-one-job", 1), (of_nodes, 2)):
        assert site.run(f"kubectl logs {pods}").splitlines() == ["from the wheel"] * count

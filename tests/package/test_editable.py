"""The files of a package that people may edit."""

from __future__ import annotations

import pytest

from packager.package.editable import is_editable

OVERLAY = "quickstart/k8s/mlops/multi-node"
COMMON = "quickstart/common/mpi/k8s/mlops"


@pytest.mark.parametrize(
    ("path", "editable"),
    [
        (f"{OVERLAY}/mlops.env", True),
        (f"{OVERLAY}/mlops-job-patch.yaml", True),
        (f"{OVERLAY}/mpi-job.yaml", True),
        (f"{OVERLAY}/kustomization.yaml", True),
        (f"{OVERLAY}/train.sh", False),
        (f"{OVERLAY}/below/mlops.env", False),
        ("quickstart/k8s/mlops/mlops.env", False),
        ("x/quickstart/k8s/mlops/multi-node/mlops.env", False),
        (f"{COMMON}/site/site.env", True),
        (f"{COMMON}/site/placement.yaml", True),
        (f"{COMMON}/site/kustomization.yaml", False),
        (f"{COMMON}/gpu/kustomization.yaml", True),
        (f"{COMMON}/gpu/patch/kustomization.yaml", False),
        (f"{COMMON}/ours/ours.env", True),
        (f"{COMMON}/base/base.env", False),
        (f"{COMMON}/nfs/kustomization.yaml", False),
        ("quickstart/scripts/train.py", False),
        ("manifest.json", False),
        ("", False),
    ],
)
def test_is_editable_accepts_only_listed_files(path: str, editable: bool) -> None:  # noqa: FBT001 - a case
    assert is_editable(path) is editable

"""The files of a package that people may edit."""

from __future__ import annotations

from packager.package.layout import is_editable

OVERLAY = "quickstart/k8s/mlops/multi-node"
COMMON = "quickstart/common/mpi/k8s/mlops"


def test_is_editable_accepts_only_listed_files() -> None:
    for path, editable in (
        (f"{OVERLAY}/mlops.env", True),
        (f"{OVERLAY}/mlops-job-patch.yaml", True),
        (f"{OVERLAY}/train.sh", False),
        (f"{OVERLAY}/below/mlops.env", False),
        ("quickstart/k8s/mlops/mlops.env", False),
        ("x/quickstart/k8s/mlops/multi-node/mlops.env", False),
        (f"{COMMON}/site/site.env", True),
        (f"{COMMON}/site/kustomization.yaml", False),
        (f"{COMMON}/gpu/kustomization.yaml", True),
        (f"{COMMON}/gpu/patch/kustomization.yaml", False),
        (f"{COMMON}/ours/ours.env", True),
        (f"{COMMON}/nfs/kustomization.yaml", False),
        ("quickstart/scripts/train.py", False),
    ):
        assert is_editable(path) is editable

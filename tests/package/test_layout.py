from __future__ import annotations

from packager.package import layout

OVERLAY = "quickstart/k8s/mlops/multi-node"
COMMON = "quickstart/common/mpi/k8s/mlops"


def test_files_of_an_overlay_are_recognized() -> None:
    assert layout.overlay_of(layout.kustomization("multi-node")) == "multi-node"
    for path in ("quickstart/k8s/mlops/kustomization.yaml", f"{OVERLAY}/mlops.env", f"{OVERLAY}/a/kustomization.yaml"):
        assert layout.overlay_of(path) is None
    assert layout.is_patch(f"{OVERLAY}/mlops-job-patch.yaml")
    assert not layout.is_patch(f"{COMMON}/site/patch.yaml")


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
        assert layout.is_editable(path) is editable

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

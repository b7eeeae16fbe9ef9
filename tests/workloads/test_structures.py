"""Tests which resources of a spec count as GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

SLICES = r"overlays.multi-node.resources.limits.nvidia\.com/mig-1g\.5gb=2"


def test_mig_slices_start_no_process_each(mlpack: Callable[..., Outcome], tmp_path: Path) -> None:
    counts: dict[str, bool] = {}
    for resource in (SLICES, SLICES.replace(r"mig-1g\.5gb", "gpu")):
        folder = f"of{len(counts)}"
        per_gpu = ("--set", "overlays.multi-node.slots_per_worker=per-gpu")
        done = mlpack("build", "hello-mpi", "--set", resource, *per_gpu, "--format", "dir", "-d", folder)
        assert done.code == 0, done.stderr
        overlay = tmp_path / folder / "hello-mpi/quickstart/k8s/mlops/multi-node"
        counts[resource] = "GPUS=2" in (overlay / "mlops.env").read_text().splitlines()
    assert list(counts.values()) == [False, True]

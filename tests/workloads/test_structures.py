"""Tests that a build reports the GPUs of a spec that the option `gpu` replaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

SPEC = (
    *("--set", r"overlays.multi-node.resources.limits.nvidia\.com/gpu=4"),
    *("--set", r"overlays.single-node.resources.limits.amd\.com/gpu=2"),
)
NOTES = [
    "note: gpu replaces nvidia.com/gpu: 4 of multi-node (worker) by 1",
    "note: gpu replaces amd.com/gpu: 2 of single-node (pod) by nvidia.com/gpu: 1",
]


SLICES = r"overlays.multi-node.resources.limits.nvidia\.com/mig-1g\.5gb=2"


def notes(done: Outcome) -> list[str]:
    return [line for line in done.stderr.splitlines() if " replaces " in line]


def test_build_reports_replaced_gpus_of_the_spec(mlpack: Callable[..., Outcome]) -> None:
    done = mlpack("build", "hello-mpi", *SPEC, "--with", "gpu")
    assert done.code == 0
    assert notes(done) == NOTES


def test_mig_slices_are_replaced_by_the_option_and_start_no_process_each(
    mlpack: Callable[..., Outcome], tmp_path: Path
) -> None:
    assert notes(mlpack("build", "hello-mpi", "--set", SLICES, "--with", "gpu")) == [
        "note: gpu replaces nvidia.com/mig-1g.5gb: 2 of multi-node (worker) by nvidia.com/gpu: 1"
    ]
    counts: dict[str, bool] = {}
    for resource in (SLICES, SLICES.replace(r"mig-1g\.5gb", "gpu")):
        folder = f"of{len(counts)}"
        per_gpu = ("--set", "overlays.multi-node.slots_per_worker=per-gpu")
        done = mlpack("build", "hello-mpi", "--set", resource, *per_gpu, "--format", "dir", "-d", folder)
        assert done.code == 0, done.stderr
        overlay = tmp_path / folder / "hello-mpi/quickstart/k8s/mlops/multi-node"
        counts[resource] = "GPUS=2" in (overlay / "mlops.env").read_text().splitlines()
    assert list(counts.values()) == [False, True]

"""Tests that each MPI implementation starts ranks on distinct hosts, as a user that is not in the image."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.site import commands

if TYPE_CHECKING:
    from tests.e2e.site import Images, Site

SPECS = Path(__file__).parent / "specs" / "mpi"


def become(package: Path, uid: int, gid: int, fs_group: int) -> None:
    """Set the user and group ids in all patches of a package."""
    for patch in package.glob("quickstart/k8s/mlops/*/*-patch.yaml"):
        text = patch.read_text()
        for key, value in (("runAsUser", uid), ("runAsGroup", gid), ("fsGroup", fs_group)):
            text = text.replace(f"{key}: 1000", f"{key}: {value}")
        patch.write_text(text)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("openmpi-4", "allreduce of 4 ranks: 10"),
        ("mpich", "allreduce of 4 ranks: 10"),
        ("intel", "# #processes = 4"),
    ],
)
def test_ranks_run_on_distinct_hosts_and_reduce(site: Site, images: Images, name: str, result: str) -> None:
    images.build(SPECS / name, f"localhost/mpi-{name}:1")
    package = site.build(str(SPECS / name))
    become(package, 23456, 23457, 23458)
    apply, *_ = commands(package, "multi-node")
    site.run(apply, cwd=package)
    job = f"mpi-{name}-multi-node"
    assert site.end_of(job) == "Succeeded", site.log(site.launcher())
    log = site.log(site.launcher())
    ranks = re.findall(r"rank (\d) on (\S+) as (\d+):(\d+) with \[(.*?)\]", log)
    assert sorted(rank for rank, *_ in ranks) == ["0", "1", "2", "3"]
    assert sorted(host for _, host, *_ in ranks) == sorted([f"{job}-worker-0", f"{job}-worker-1"] * 2)
    assert {tuple(rest) for _, _, *rest in ranks} == {("23456", "23457", "a value with spaces")}
    assert result in log

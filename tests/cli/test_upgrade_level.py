"""Tests of an upgrade to a package that takes more from its surroundings than the present one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Mlpack

OPTION = ("--with", "output-host-path", "--site", "OUTPUT_HOST_PATH=/srv")


def test_upgrade_to_a_weaker_level_has_to_be_accepted(mlpack: Mlpack, package: Path, kubectl: Path) -> None:
    assert mlpack("build", "hello-mpi", "--format", "dir", "-d", "newer", *OPTION).code == 0
    upgrade = ("upgrade", package, "newer/hello-mpi", "--kubectl", kubectl)
    before = {path: path.read_bytes() for path in package.rglob("*") if path.is_file()}
    refused = mlpack(*upgrade)
    assert refused.code == 5
    assert "single-node needs Pod Security privileged, and met restricted" in refused.stderr
    assert "(--pod-security privileged accepts it)" in refused.stderr
    assert {path: path.read_bytes() for path in package.rglob("*") if path.is_file()} == before
    accepted = mlpack(*upgrade, "--pod-security", "privileged")
    assert accepted.code == 0, accepted.stderr
    assert mlpack("verify", package, "--kubectl", kubectl, "--pod-security", "privileged").code == 0


def test_upgrade_prints_claims_that_only_the_new_package_mounts(mlpack: Mlpack, package: Path, kubectl: Path) -> None:
    claim = ("--with", "output-pvc", "--site", "OUTPUT_CLAIM=shared")
    assert mlpack("build", "hello-mpi", "--format", "dir", "-d", "newer", *claim).code == 0
    done = mlpack("upgrade", package, "newer/hello-mpi", "--kubectl", kubectl)
    assert done.code == 0, done.stderr
    assert "new: the pods of single-node mount the claim 'shared' of the namespace\n" in done.stderr

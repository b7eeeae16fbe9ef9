"""Tests of `mlpack upgrade`, also to a package that takes more from its surroundings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.configure.test_upgrade import ENV, POD, clash, edit, files, newer

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Mlpack

__all__ = ["clash"]


@pytest.fixture
def new(package: Path, tmp_path: Path) -> Path:
    """A newer build, without conflicts with edits."""
    return newer(package, tmp_path / "new", {"README.md": b"new"})


def test_upgrade_prints_changed_files_and_results(mlpack: Mlpack, package: Path, new: Path, kubectl: Path) -> None:
    edit(package / ENV, "=docker.io", "=example.com")
    done = mlpack("upgrade", package, new, "--kubectl", kubectl)
    assert (done.code, done.stdout) == (0, f"{package}/README.md\n{package}/manifest.json\n")
    lines = done.stderr.splitlines()
    assert lines[0].startswith("hello-mpi: ")
    assert lines[1:] == ["updated  README.md", f"kept     {ENV}"]
    done = mlpack("upgrade", package, new)
    assert (done.code, done.stdout) == (0, "")
    assert done.stderr == f"hello-mpi: nothing to do, {new} is the same build\n"


def test_upgrade_lists_files_apart_that_are_not_meant_to_be_edited(
    mlpack: Mlpack, package: Path, tmp_path: Path
) -> None:
    before = (package / POD).read_bytes()
    new = newer(package, tmp_path / "new", {POD: b"# new\n" + before, "Dockerfile": b"new"})
    (package / "README.md").write_bytes(b"mine")
    (package / "notes.txt").write_bytes(b"mine")
    (package / POD).write_bytes(before + b"# mine\n")
    done = mlpack("upgrade", package, new, "--dry-run", "--no-verify")
    assert done.stderr.splitlines()[1:] == [
        "updated  Dockerfile",
        f"merged   {POD}",
        "kept     README.md (not meant to be edited)",
        "kept     notes.txt (not meant to be edited)",
    ]
    done = mlpack("upgrade", package, new, "--dry-run", "--no-verify", "-o", "json")
    assert done.json["unexpected"] == ["README.md", "notes.txt"]


def test_dry_run_of_upgrade_changes_nothing(mlpack: Mlpack, package: Path, new: Path) -> None:
    before = files(package)
    done = mlpack("upgrade", package, new, "--dry-run", "--no-verify", "-o", "json")
    assert (done.code, done.stderr) == (0, "")
    assert done.json["files"] == [{"file": "README.md", "action": "updated"}]
    assert files(package) == before


def test_conflicts_end_with_9_and_change_nothing(mlpack: Mlpack, package: Path, clash: Path) -> None:
    before = files(package)
    done = mlpack("upgrade", package, clash)
    assert (done.code, done.stdout) == (9, "")
    assert done.stderr.endswith(
        f"error: 2 conflicts: {package} was left as it is\n"
        "hint: --yours FILE keeps your version where it conflicts, --theirs FILE takes the new one\n"
    )
    assert mlpack("upgrade", package, clash, "-o", "json").code == 9
    assert files(package) == before
    done = mlpack("upgrade", package, clash, "--no-verify", "--theirs", POD, "--yours", ENV)
    assert done.code == 0
    assert f"decided: {package}/{ENV}:" in done.stderr
    assert (package / POD).read_bytes() == (clash / POD).read_bytes()


def test_upgrade_without_kubectl_changes_nothing(mlpack: Mlpack, package: Path, new: Path) -> None:
    before = files(package)
    done = mlpack("upgrade", package, new, "--kubectl", "/absent/kubectl")
    assert done.code == 6
    assert done.stderr.endswith("hint: --no-verify upgrades it nevertheless\n")
    assert files(package) == before


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

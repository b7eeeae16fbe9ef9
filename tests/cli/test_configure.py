"""Tests of `mlpack configure`: the values that it refuses."""

from pathlib import Path

import pytest

from tests.conftest import Mlpack

ENV = "quickstart/k8s/mlops/multi-node/mlops.env"


def test_configure_without_values_names_help(mlpack: Mlpack, package: Path) -> None:
    before = (package / ENV).read_bytes()
    done = mlpack("configure", package)
    assert done.code == 2
    assert done.stderr == (
        "error: no value was given; nothing was changed\nhint: `mlpack configure --help` lists the options\n"
    )
    assert (package / ENV).read_bytes() == before


def test_configure_does_not_replace_folder_by_archive(mlpack: Mlpack, tmp_path: Path) -> None:
    assert mlpack("build", "hello-mpi").code == 0
    (tmp_path / "there").mkdir()
    done = mlpack("configure", "hello-mpi.tar.gz", "--root", "/x", "-d", "there")
    assert (done.code, done.stderr.splitlines()[-1]) == (2, "error: there is a folder")
    assert list((tmp_path / "there").iterdir()) == []


PATCH = "quickstart/k8s/mlops/multi-node/mlops-job-patch.yaml"


def spoil(package: Path, user: str) -> Path:
    """Replace the first runAsUser of the patch by `user`, and return the path of the patch."""
    path = package / PATCH
    path.write_text(path.read_text(encoding="utf-8").replace("runAsUser: 1000", f"runAsUser: {user}"), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("user", "shown"),
    [
        ("abc", "'abc'"),
        ("9" * 5000, None),
        ("", "nothing"),
    ],
)
def test_configure_reports_invalid_user_id_with_its_position(
    mlpack: Mlpack, package: Path, user: str, shown: str | None
) -> None:
    path = spoil(package, user)
    done = mlpack("configure", package, "--root", "/x")
    assert done.code == 5
    if shown:
        message = f"runAsUser: expected a whole number from 0 to 2147483647, found {shown} (--uid N sets it)"
        assert message in done.stderr
        assert f"{path}:" in done.stderr
    assert len(done.stderr) < 20_000

"""Tests of `mlpack diff`."""

from pathlib import Path

from tests.conftest import Mlpack

ENV = "quickstart/k8s/mlops/single-node/mlops.env"


def test_diff_of_package_without_edits_prints_nothing(mlpack: Mlpack, package: Path) -> None:
    done = mlpack("diff", package, "--exit-code")
    assert (done.code, done.stdout, done.stderr) == (0, "", "hello-mpi has no edits\n")
    assert mlpack("diff", package, "-o", "patch").stdout == ""


def test_diff_prints_edits_of_configure(mlpack: Mlpack, package: Path) -> None:
    configured = mlpack("configure", package, "--overlay", "single-node", "--registry", "example.com", "--uid", "7")
    assert configured.code == 0
    done = mlpack("diff", package)
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout == (
        f"{ENV}:\n"
        "  value REGISTRY: docker.io  ->  example.com\n"
        f"{ENV.replace('mlops.env', 'pod-patch.yaml')}:\n"
        "  id runAsUser: 1000  ->  7\n"
    )
    assert mlpack("diff", package, "--exit-code").code == 1


def test_diff_escapes_control_characters(mlpack: Mlpack, package: Path) -> None:
    (package / "note\u202e.txt").write_text("\x1b[31mred\n")
    done = mlpack("diff", package)
    assert "+++ b/note\\u202e.txt\n" in done.stdout
    assert "+\\x1b[31mred\n" in done.stdout
    assert "\x1b" not in mlpack("diff", package, "-o", "json").stdout


def test_diff_reports_files_that_are_in_no_patch(mlpack: Mlpack, package: Path) -> None:
    (package / "README.md").write_text("mine")
    done = mlpack("diff", package, "-o", "patch", "--exit-code")
    assert (done.code, done.stdout) == (1, "")
    assert done.stderr == "not in the patch: README.md: the package does not contain its delivered text\n"

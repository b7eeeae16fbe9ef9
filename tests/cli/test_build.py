"""Tests of `mlpack build`: its outputs, messages, and the files that it keeps."""

import tarfile
from pathlib import Path

import pytest

from tests import demo
from tests.conftest import Mlpack

NAME = "demo-fp32-training"


def test_build_writes_archive_and_prints_its_path(mlpack: Mlpack, tmp_path: Path) -> None:
    demo.write(tmp_path / "demo")
    done = mlpack("build", "./demo")
    assert (done.code, done.stdout) == (0, f"{NAME}.tar.gz\n")
    first, *steps = done.stderr.splitlines()
    assert first == "next, with README.md in the package:"
    assert steps[0] == f"  tar xzf {NAME}.tar.gz && cd {NAME}"
    assert steps[1].startswith("  vi quickstart/k8s/mlops/single-node/{mlops.env,pod-patch.yaml}  #")
    assert steps[-1] == "  mlpack logs . --overlay single-node --follow  # as soon as it runs"
    with tarfile.open(tmp_path / f"{NAME}.tar.gz") as archive:
        assert {name.partition("/")[0] for name in archive.getnames()} == {NAME}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo", f"{NAME}.tar.gz"]


def test_build_json_lists_packages_and_errors(mlpack: Mlpack, tmp_path: Path) -> None:
    spec = demo.write(tmp_path / "demo")
    (package,) = mlpack("build", spec, "-o", "json").json["packages"]
    assert package.pop("digest").startswith("sha256:")
    assert package.pop("files") > 10
    assert package == {
        "package": NAME,
        "version": None,
        "path": f"{NAME}.tar.gz",
        "model": "demo",
        "precision": "fp32",
        "mode": "training",
    }
    again = mlpack("build", spec, "-o", "json")
    assert again.code == 2
    assert again.json["packages"] == []
    assert again.json["errors"] == [
        {
            "message": f"{NAME}.tar.gz already exists and was left unchanged",
            "hint": "--force replaces it",
            "exit_code": 2,
            "problems": [],
        }
    ]


def test_build_selects_variant_by_precision_and_mode(mlpack: Mlpack, tmp_path: Path) -> None:
    spec = demo.write(tmp_path / "demo", demo.changed(*demo.VARIANTS))
    assert mlpack("build", spec, "--mode", "inference").stdout == "demo-fp32-inference.tar.gz\n"
    assert mlpack("build", spec, "--precision", "bf16").stdout == "demo-bf16-training.tar.gz\n"
    done = mlpack("build", spec, "--precision", "int8")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == ("error: demo has no variant 'int8'; it has: fp32 training, bf16 training, fp32 inference\n")


def test_build_all_builds_every_variant_and_continues_after_error(mlpack: Mlpack, tmp_path: Path) -> None:
    spec = demo.write(tmp_path / "demo", demo.changed(*demo.VARIANTS))
    done = mlpack("build", spec, "--all")
    assert done.stdout.splitlines() == [
        "demo-fp32-training.tar.gz",
        "demo-bf16-training.tar.gz",
        "demo-fp32-inference.tar.gz",
    ]
    (tmp_path / "demo-fp32-training.tar.gz").unlink()
    (tmp_path / "demo-fp32-inference.tar.gz").unlink()
    again = mlpack("build", spec, "--all")
    assert again.code == 2
    assert again.stdout.splitlines() == ["demo-fp32-training.tar.gz", "demo-fp32-inference.tar.gz"]
    assert again.stderr.splitlines() == [
        "error: demo-bf16-training.tar.gz already exists and was left unchanged",
        "hint: --force replaces it",
        "2 built, 1 failed",
    ]


def test_build_all_builds_valid_models_beside_invalid_spec(mlpack: Mlpack, specs: Path) -> None:
    done = mlpack("build", "--all", "--specs", specs)
    assert done.code == 3
    assert done.stdout.splitlines() == [f"{NAME}.tar.gz"]
    assert done.stderr.splitlines() == [
        (
            f"{specs}/wrong/spec.yaml:7:23: expected Pod, Job, MPIJob, JobSet, Deployment or "
            "LeaderWorkerSet, found 'Pood' "
            "(did you mean 'Pod'?)"
        ),
        f"error: {specs}/wrong/spec.yaml is not a valid spec: 1 problem",
        "1 built, 1 failed",
    ]


def test_build_all_refuses_two_models_with_same_package_name(mlpack: Mlpack, tmp_path: Path) -> None:
    demo.write(tmp_path / "specs" / "a")
    demo.write(tmp_path / "specs" / "b")
    done = mlpack("build", "--all", "--specs", "specs", "--force", "--with", "nfs")
    assert (done.code, done.stderr.count("note: nfs does not render")) == (2, 1)
    assert "error: specs/b/spec.yaml and specs/a/spec.yaml both make the package demo-fp32-training\n" in done.stderr


@pytest.mark.parametrize("form", ["tar.gz", "dir"])
def test_build_keeps_existing_output_without_force(mlpack: Mlpack, tmp_path: Path, form: str) -> None:
    spec = demo.write(tmp_path / "demo")
    path = tmp_path / (NAME if form == "dir" else f"{NAME}.tar.gz")
    assert mlpack("build", spec, "--format", form).code == 0
    if form == "dir":
        (path / "mine").write_text("x")
    before = snapshot(path)
    done = mlpack("build", spec, "--format", form, "--set", "title=Other")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == f"error: {path.name} already exists and was left unchanged\nhint: --force replaces it\n"
    assert snapshot(path) == before
    assert mlpack("build", spec, "--format", form, "--set", "title=Other", "--force").code == 0
    assert snapshot(path) != before
    assert not (path / "mine").exists()


def snapshot(path: Path) -> dict[str, bytes]:
    files = path.rglob("*") if path.is_dir() else [path]
    return {file.name: file.read_bytes() for file in files if file.is_file()}


def test_force_keeps_folder_that_is_not_a_package(mlpack: Mlpack, tmp_path: Path) -> None:
    spec = demo.write(tmp_path / "demo")
    (tmp_path / NAME).mkdir()
    (tmp_path / NAME / "thesis.tex").write_text("x")
    done = mlpack("build", spec, "--force", "--format", "dir")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: {NAME} is not a package: it contains no manifest.json; it was left unchanged\n"
        "hint: move it to another place, or build into another folder with -d\n"
    )
    assert snapshot(tmp_path / NAME) == {"thesis.tex": b"x"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no model given"),
        (["--all", "--mode", "x"], "--all builds every variant: it takes no --precision or --mode"),
        (["nope"], "model 'nope' not found"),
        (["hello-mpi", "--root", "x"], "--root x: expected an absolute path without ':' and '..'"),
        (
            ["hello-mpi", "--registry", "http://x"],
            "--registry http://x: expected a host, optionally with a port and a path",
        ),
        (["hello-mpi", "--set", "x"], "--set x: expected PATH=VALUE, such as environment.STEPS=100"),
        (["hello-mpi", "--specs", "absent"], None),
        (["trial", "--specs", "absent"], "absent: no such file or directory"),
    ],
)
def test_build_refuses_invalid_arguments(
    mlpack: Mlpack, tmp_path: Path, arguments: list[str], message: str | None
) -> None:
    done = mlpack("build", *arguments)
    if message is None:
        assert done.code == 0  # its name alone found it in the bundled folder
        return
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0] == f"error: {message}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", ["1.5", "999999999999"])
def test_build_refuses_invalid_source_date_epoch(
    mlpack: Mlpack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", value)
    done = mlpack("build", demo.write(tmp_path / "demo"))
    assert done.code == 2
    assert done.stderr == f"error: SOURCE_DATE_EPOCH={value}: expected seconds since 1970, such as 1700000000\n"


def test_build_takes_times_from_source_date_epoch(
    mlpack: Mlpack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = demo.write(tmp_path / "demo")
    path = tmp_path / f"{NAME}.tar.gz"
    for seconds in ("", "1700000000"):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", seconds)
        assert mlpack("build", spec, "--force").code == 0
        with tarfile.open(path) as archive:
            assert {member.mtime for member in archive} == {int(seconds or 0)}
    assert path.read_bytes()[4:8] == b"\0\0\0\0"  # the gzip header has no time

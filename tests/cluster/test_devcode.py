"""Tests of the code that `mlpack dev` copies: nothing outside of its folder, and every change is noticed."""

import os
from pathlib import Path

import pytest

from packager.base.errors import SpecError, UsageError, VerificationError
from packager.cluster.devcode import ModelCode, PackageCode

SPEC = """\
name: code
title: Code
framework: sh
image: {name: a/b, tag: "1"}
files: [run.sh, src]
overlays: {one: {kind: Pod}}
variants:
  - {script: run.sh, mode: training}
  - {script: run.sh, mode: inference, files: [more.sh]}
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    (folder / "src").mkdir(parents=True)
    (folder / "spec.yaml").write_text(SPEC, encoding="utf-8")
    for name in ("run.sh", "more.sh"):
        (folder / name).write_text("#!/bin/sh\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    (folder / "src/a.py").write_text("a = 1\n", encoding="utf-8")
    return folder


def code_of(model: Path, mode: str = "training") -> ModelCode:
    return ModelCode(model / "spec.yaml", (), (None, mode))


def test_code_of_a_model_is_that_of_its_variant(model: Path) -> None:
    assert dict(code_of(model).read().files) == {"run.sh": b"#!/bin/sh\n", "src/a.py": b"a = 1\n"}
    assert sorted(code_of(model, "inference").read().files) == ["more.sh", "run.sh", "src/a.py"]
    with pytest.raises(SpecError, match="no longer the variant"):
        code_of(model, "serving").read()


def test_state_changes_with_every_change_of_code(model: Path) -> None:
    code = code_of(model)
    code.read()
    state = code.state()
    assert code.state() == state
    (model / "other.txt").write_text("not code", encoding="utf-8")  # only the folder's time
    for content in ("b", "cc", None):
        code.read()
        state = code.state()
        if content:
            (model / "src/b.py").write_text(content, encoding="utf-8")
        else:
            (model / "src/b.py").unlink()
        assert code.state() != state


def test_spec_that_becomes_valid_again_is_noticed(model: Path) -> None:
    code = code_of(model)
    code.read()
    (model / "run.sh").rename(model / "run.txt")
    with pytest.raises(SpecError):
        code.read()
    state = code.state()
    (model / "run.txt").rename(model / "run.sh")
    assert code.state() != state
    assert "run.sh" in code.read().files


def test_link_out_of_the_model_is_refused(model: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x", encoding="utf-8")
    (model / "src/b.py").symlink_to(tmp_path / "secret")
    with pytest.raises(SpecError) as refused:
        code_of(model).read()
    assert [problem.message for problem in refused.value.problems] == ["src/b.py is a link that leaves the folder"]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    scripts = tmp_path / "package/quickstart/scripts"
    scripts.mkdir(parents=True)
    (scripts / "kustomization.yaml").write_text("", encoding="utf-8")
    (scripts / "run.sh").write_text("#!/bin/sh\n", encoding="utf-8")
    return tmp_path / "package"


def test_code_of_a_package_is_its_scripts(package: Path) -> None:
    code = PackageCode(package)
    assert dict(code.read().files) == {"run.sh": b"#!/bin/sh\n"}
    state = code.state()
    (package / "quickstart/scripts/new.py").touch()
    assert code.state() != state
    assert sorted(code.read().files) == ["new.py", "run.sh"]


@pytest.mark.parametrize("name", ["link", ".hidden", "a\nb", "large"])
def test_file_that_no_package_may_have_is_refused(package: Path, name: str) -> None:
    file = package / "quickstart/scripts" / name
    if name == "link":
        file.symlink_to("/etc/passwd")
    else:
        file.write_bytes(os.urandom(300_000) if name == "large" else b"")
    with pytest.raises(VerificationError):
        PackageCode(package).read()


def test_package_without_code_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no code"):
        PackageCode(tmp_path).read()

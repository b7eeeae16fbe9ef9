"""Tests that build and verify apply the same limits to packages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import VerificationError
from packager.base.paths import Limits
from packager.package.opened import opened
from tests import demo

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Outcome

    Run = Callable[..., Outcome]

FORMS = {"tar.gz": "demo-fp32-training.tar.gz", "dir": "demo-fp32-training"}


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    demo.write(folder, demo.changed("assets: [data]"))
    (folder / "data/deep/deeper").mkdir(parents=True)
    for number in range(5):
        (folder / f"data/deep/deeper/{number}").touch()
    return folder


@pytest.mark.parametrize("form", FORMS)
def test_build_and_verify_accept_largest_number_of_files_and_refuse_one_more(
    form: str, spec: Path, mlpack: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert mlpack("build", spec, "--format", "dir", "-d", tmp_path / "first").code == 0
    most = 1 + sum(1 for _ in (tmp_path / "first/demo-fp32-training").rglob("*"))
    monkeypatch.setattr("packager.builder.render.DEFAULT_LIMITS", Limits(files=most))
    assert mlpack("build", spec, "--format", form).code == 0
    with opened(Path(FORMS[form]), limits=Limits(files=most)):
        pass
    refused = rf"there are more than {most - 1} files and folders$"
    with pytest.raises(VerificationError, match=refused), opened(Path(FORMS[form]), limits=Limits(files=most - 1)):
        pass
    (spec / "data/one more").touch()
    done = mlpack("build", spec, "--format", form, "--force")
    assert (done.code, done.stdout) == (3, "")
    assert done.stderr == (
        f"error: demo-fp32-training: there are more than {most} files and folders\n"
        "hint: pack many small asset files into one archive\n"
    )


def test_build_stores_uniform_content_uncompressed(
    spec: Path, mlpack: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("packager.package.archive.DEFAULT_LIMITS", Limits(ratio=100))
    (spec / "data/zeros").write_bytes(bytes(20 << 20))
    assert mlpack("build", spec).code == 0
    assert (tmp_path / "demo-fp32-training.tar.gz").stat().st_size > 20 << 20
    with opened(Path("demo-fp32-training.tar.gz"), limits=Limits(ratio=100)):
        pass

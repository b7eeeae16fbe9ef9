from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.app.init import init
from packager.app.lint import Lint, lint
from packager.base.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def test_a_new_model_is_good_as_it_is(tmp_path: Path) -> None:
    made = init("trial", tmp_path)
    assert set(made) == set((tmp_path / "trial").iterdir())
    assert lint(["trial"], [tmp_path], tell=pytest.fail) == Lint(())


def test_a_name_that_no_model_has(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="found 'No Name'"):
        init("No Name", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("rendezvous", ["torch", "dmlc", "jax", "xgboost", "none", None])
def test_a_new_model_of_a_jobset_is_good_as_it_is(tmp_path: Path, rendezvous: str | None) -> None:
    made = init("trial", tmp_path, "JobSet", rendezvous)
    assert {path.name for path in made} == {"Dockerfile", "spec.schema.json", "spec.yaml", "train.py"}
    assert lint(["trial"], [tmp_path], tell=pytest.fail) == Lint(())
    compile((tmp_path / "trial/train.py").read_text(), "train.py", "exec")


@pytest.mark.parametrize(
    ("kind", "rendezvous", "message"),
    [
        ("Jobset", None, "--kind Jobset: expected MPIJob or JobSet"),
        ("MPIJob", "torch", "--rendezvous is for --kind JobSet"),
        ("JobSet", "pytorch", "--rendezvous pytorch: expected one of torch, dmlc, jax, xgboost, none"),
    ],
)
def test_a_kind_that_there_is_not(tmp_path: Path, kind: str, rendezvous: str | None, message: str) -> None:
    with pytest.raises(UsageError) as error:
        init("trial", tmp_path, kind, rendezvous)
    assert str(error.value) == message
    assert list(tmp_path.iterdir()) == []

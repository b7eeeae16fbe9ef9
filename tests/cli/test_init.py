"""Tests of `mlpack init`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Mlpack = Callable[..., Outcome]


def test_init_creates_model_that_lints_and_builds(mlpack: Mlpack, tmp_path: Path) -> None:
    done = mlpack("init", "trial")
    assert done.code == 0
    assert done.stdout.splitlines() == [
        "trial/Dockerfile",
        "trial/spec.schema.json",
        "trial/spec.yaml",
        "trial/train.sh",
    ]
    assert done.stderr == "build it with: mlpack build ./trial\n"
    first, *_ = (tmp_path / "trial/spec.yaml").read_text().splitlines()
    assert first == "# yaml-language-server: $schema=spec.schema.json"
    assert json.loads((tmp_path / "trial/spec.schema.json").read_text()) == mlpack("schema").json
    assert mlpack("lint", "./trial").code == 0
    assert mlpack("build", "./trial", "--all").stdout == "trial-fp32-training.tar.gz\n"


def test_init_keeps_existing_path(mlpack: Mlpack, tmp_path: Path) -> None:
    (tmp_path / "trial").symlink_to("nowhere")
    done = mlpack("init", "trial")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == "error: trial already exists and was left unchanged\nhint: choose another name\n"


@pytest.mark.parametrize("name", ["Trial", "a" * 41, "../x", "a\n"])
def test_init_refuses_invalid_names(mlpack: Mlpack, tmp_path: Path, name: str) -> None:
    done = mlpack("init", name)
    assert (done.code, done.stdout) == (2, "")
    assert "expected a name of lower-case letters, digits and '-', starting with a letter" in done.stderr
    assert list(tmp_path.iterdir()) == []

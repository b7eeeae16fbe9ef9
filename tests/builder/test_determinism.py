"""The same spec gives the same bytes, independent of user, place and time."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests import demo

if TYPE_CHECKING:
    from pathlib import Path

NAME = "demo-fp32-training.tar.gz"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("determinism") / "model"
    spec = demo.changed("[train.sh] => [train.sh, lib/a.py, lib/B.py]", "assets: [data]", "environment: {TEXT: é 漢}")
    files = {"lib/a.py": "1", "lib/B.py": "2", "data/ä": "1", "data/Z": "2", "data/a/b": "3"}
    return demo.write(folder, spec, files).parent


def built(
    model: Path, out: Path, environment: dict[str, str] | None = None, *, umask: int = 0o022, cwd: Path | None = None
) -> str:
    clean = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    subprocess.run(
        [sys.executable, "-m", "packager", "build", f"{model}/", "-d", out],
        env={**clean, "PYTHONPATH": str(demo.CHECKOUT), **(environment or {})},
        cwd=cwd or demo.CHECKOUT,
        umask=umask,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return hashlib.sha256((out / NAME).read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def reference(model: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return built(model, tmp_path_factory.mktemp("reference"))


def test_archive_does_not_depend_on_user_and_place(model: Path, reference: str, tmp_path: Path) -> None:
    """Neither on its home, locale, umask, time zone or hashes, nor on the path, times and modes of the model."""
    elsewhere = tmp_path / "else where" / "ä"
    shutil.copytree(model, elsewhere)
    for path in elsewhere.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
        os.utime(path, (1, 1))
    environment = {"TZ": "Pacific/Kiritimati", "PYTHONHASHSEED": "1", "HOME": "/nonexistent", "PYTHONOPTIMIZE": "2"}
    environment |= {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    assert built(elsewhere, tmp_path / "out", environment, umask=0o077, cwd=tmp_path) == reference


def test_archive_uses_source_date_epoch(model: Path, reference: str, tmp_path: Path) -> None:
    dated = built(model, tmp_path / "a", {"SOURCE_DATE_EPOCH": "1700000000"})
    assert dated != reference
    assert built(model, tmp_path / "c", {"SOURCE_DATE_EPOCH": "0"}) == reference

"""A kind of workload is one folder and one entry: nothing else of `packager/` is touched for one more."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.files import replace

CHECKOUT = Path(__file__).resolve().parents[2]
KIND = Path(__file__).parent / "new_kind"


def test_new_kind_needs_one_folder_and_one_entry(tmp_path: Path) -> None:
    """The verbs are run with a copy of `packager/` that has the folder and the entry."""
    workloads = tmp_path / "packager/workloads"
    shutil.copytree(CHECKOUT / "packager", tmp_path / "packager", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(KIND / "sweep", workloads / "sweep")
    table = workloads / "anyoverlay.py"
    replace(table, "\nAnyOverlay = ", "from packager.workloads.sweep.values import Sweep\n\nAnyOverlay = Sweep | ")
    for name in ("model_specs", "pyproject.toml", "tests"):
        (tmp_path / name).symlink_to(CHECKOUT / name)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/workloads/new_kind/verbs.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

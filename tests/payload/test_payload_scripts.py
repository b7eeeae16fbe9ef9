"""The rules for every program in a ConfigMap."""

import subprocess
from pathlib import Path

import pytest

SPECS = Path(__file__).parents[2] / "model_specs"
SCRIPTS = sorted(SPECS.glob("*/*.sh"))
FOLDERS = sorted(path for path in SPECS.iterdir() if path.is_dir())


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_script_passes_shellcheck(script: Path) -> None:
    done = subprocess.run(["shellcheck", script], capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == ""


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_folder_fits_into_a_config_map(folder: Path) -> None:
    files = [path for path in folder.iterdir() if path.suffix in {".py", ".sh"}]
    assert 0 < sum(path.stat().st_size for path in files) < 100 * 1024

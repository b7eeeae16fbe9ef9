"""The rules for every program in a ConfigMap."""

import subprocess
from pathlib import Path

SPECS = Path(__file__).parents[2] / "model_specs"
SCRIPTS = sorted(SPECS.glob("*/*.sh"))
FOLDERS = sorted(path for path in SPECS.iterdir() if path.is_dir())


def test_scripts_pass_shellcheck() -> None:
    done = subprocess.run(["shellcheck", *SCRIPTS], capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == ""


def test_folders_fit_into_a_config_map() -> None:
    for folder in FOLDERS:
        files = [path for path in folder.iterdir() if path.suffix in {".py", ".sh"}]
        assert 0 < sum(path.stat().st_size for path in files) < 100 * 1024

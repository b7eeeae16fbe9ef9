import subprocess
from pathlib import Path

import pytest

from packager.cluster import temporary_pod


@pytest.mark.parametrize(("busy_rounds", "rounds"), [(0, 30), (40, 70)], ids=["no command", "long command"])
def test_temporary_pod_ends_five_minutes_after_its_last_command(tmp_path: Path, busy_rounds: int, rounds: int) -> None:
    """A round of ten seconds is one line of the file `slept`; a command is a second process."""
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    sleep = tmp_path / "sleep"
    sleep.write_text(
        f"""#!/bin/sh
cd {tmp_path}
echo "$1" >> slept
[ "$(wc -l < slept)" -le {busy_rounds} ] || rm -rf 2
""",
        encoding="utf-8",
    )
    sleep.chmod(0o755)
    script = temporary_pod._IDLE.replace("/proc/", f"{tmp_path}/")  # noqa: SLF001
    path = f"{tmp_path}:/usr/bin:/bin"
    subprocess.run(["/bin/sh", "-c", script], env={"PATH": path}, timeout=60, check=True)
    assert (tmp_path / "slept").read_text(encoding="utf-8").splitlines() == ["10"] * rounds

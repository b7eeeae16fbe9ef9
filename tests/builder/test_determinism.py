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

# Runs the command on the first processors alone.
LIMITED = """\
import os, sys
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:int(sys.argv.pop(1))])
from packager.__main__ import main
main()
"""


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


@pytest.mark.thorough
def test_build_all_does_not_depend_on_number_of_processors(tmp_path: Path) -> None:
    """Files, stdout and stderr are the same, also if some of the models fail."""
    specs = tmp_path / "specs"
    for number in range(24):
        spec = demo.changed(f"name: demo => name: demo-{number:02}")
        if number in (5, 6, 17):  # one package of three specs
            spec = demo.changed("name: demo => name: one")
        if number in (12, 14, 19):  # and of three more, of which the first names a file that is missing
            spec = demo.changed("name: demo => name: two", *["[train.sh] => [none.sh]"] * (number == 12))
        demo.write(specs / f"model-{number:02}", f"{spec}\nwrong: {number}\n" if number in (9, 10) else spec)
    results: list[tuple[int, str, str, dict[Path, bytes]]] = []
    for processors in (1, 2):
        out = tmp_path / f"out-{len(results)}"
        out.mkdir()
        done = subprocess.run(
            [sys.executable, "-c", LIMITED, str(processors), "build", "--all", "--specs", specs, "--with", "nfs"],
            env={**os.environ, "PYTHONPATH": str(demo.CHECKOUT)},
            cwd=out,
            capture_output=True,
            text=True,
            check=False,
        )
        files = {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()}
        results.append((done.returncode, done.stdout, done.stderr, files))
    code, stdout, stderr, _ = results[0]
    assert results[1] == results[0]
    assert (code, len(stdout.splitlines()), stderr.count("note: nfs does not render")) == (3, 18, 1)
    assert stderr.count(f"{specs}/model-05/spec.yaml both make the package one-fp32-training") == 2
    assert stderr.count(f"{specs}/model-14/spec.yaml both make the package two-fp32-training") == 1
    assert stderr.splitlines()[-1] == "18 built, 6 failed"

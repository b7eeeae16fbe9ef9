"""Tests of missing programs: their tests are skipped and counted, and root can install them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests import tools
from tests.demo import CHECKOUT
from tests.testbed import packages
from tests.testbed.errors import ToolError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.thorough

ALL_READERS = "tests/package/test_tarheader.py::test_every_tar_reads_a_size_above_8_gib"


@pytest.fixture
def bare_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder without the programs of the list, which is the only one on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "tar", "env"):
        program = shutil.which(name)
        assert program
        (folder / name).symlink_to(program)
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.mark.parametrize("processes", ["0", "2"])
def test_run_without_programs_passes_and_lists_skipped_tests(bare_path: Path, processes: str) -> None:
    assert bare_path.is_dir()
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--numprocesses", processes, ALL_READERS]
    done = subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 1 passed, 2 skipped in " in done.stdout
    assert done.stdout.splitlines()[-4:] == [
        "2 tests left out, because programs are missing:",
        "  bsdtar: 1 test (comparison of archive readers)",
        "  busybox: 1 test (comparison of archive readers, and scripts in pods)",
        "to install them, run as root: apt-get install libarchive-tools busybox",
    ]


def test_run_with_all_programs_reports_nothing() -> None:
    assert tools.left_out([]) == []


def test_program_outside_the_list_keeps_its_name(bare_path: Path) -> None:
    assert tools.command("tar -x") == ["tar", "-x"]
    with pytest.raises(tools.MissingToolError, match=r"^bsdtar not found: apt-get install libarchive-tools$"):
        tools.command("bsdtar -x")
    (bare_path / "bsdtar").symlink_to(bare_path / "tar")
    assert tools.command("bsdtar -x") == [str(bare_path / "bsdtar"), "-x"]


class AptGet:
    """A fake apt-get.

    Attributes:
        calls: The arguments of each call, without options.
        uninstallable: The names of packages that it cannot install.
        has_lists: Whether it has package lists.
    """

    def __init__(self, *uninstallable: str, has_lists: bool = True) -> None:
        self.calls: list[list[str]] = []
        self.uninstallable = set(uninstallable)
        self.has_lists = has_lists

    def run(self, argv: list[str], **_options: Any) -> str:
        verb, *names = [word for word in argv[1:] if not word.startswith("-")]
        self.calls.append([verb, *names])
        if verb == "update":
            self.has_lists = True
        elif broken := [name for name in names if not self.has_lists or name in self.uninstallable]:
            raise ToolError(f"cannot install {' '.join(broken)}")
        return ""


@pytest.fixture
def apt_get(bare_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AptGet:
    """A fake apt-get on a machine without any program of the list, where the tests run as root."""
    (bare_path / "apt-get").symlink_to(bare_path / "tar")
    apt_get = AptGet()
    monkeypatch.setattr(packages, "run", apt_get.run)
    monkeypatch.setattr(packages, "_POLICY", tmp_path / "policy-rc.d")
    monkeypatch.setattr(tools, "TOOLS", tuple(tool for tool in tools.TOOLS if tool.folders is None))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return apt_get


NEEDED = [
    *(
        "libarchive-tools",
        "busybox",
        "chromium",
        "fonts-dejavu-core",
        "libatomic1",
        "curl",
        "docker-registry",
        "git",
        "openssl",
    ),
    "patch",
]


def test_root_installs_missing_packages_and_reports_it(apt_get: AptGet, capsys: pytest.CaptureFixture[str]) -> None:
    tools.install()
    assert apt_get.calls == [["install", *NEEDED]]
    assert capsys.readouterr().err.startswith(f"the tests need more programs: apt-get install {' '.join(NEEDED)}\n")


def test_root_updates_package_lists_only_when_needed(apt_get: AptGet) -> None:
    apt_get.has_lists = False
    tools.install()
    assert apt_get.calls == [["install", *NEEDED], ["update"], ["install", *NEEDED]]


def test_root_installs_other_packages_despite_uninstallable_one(
    apt_get: AptGet, capsys: pytest.CaptureFixture[str]
) -> None:
    apt_get.uninstallable = {"chromium"}
    tools.install()
    assert apt_get.calls[3:] == [["install", name] for name in NEEDED]
    assert capsys.readouterr().err.endswith("cannot install chromium\n")


def test_ordinary_user_installs_nothing(
    apt_get: AptGet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    tools.install()
    assert (apt_get.calls, capsys.readouterr().err) == ([], "")


def test_only_missing_packages_are_installed(apt_get: AptGet, bare_path: Path) -> None:
    for name in ("busybox", "curl", "git", "google-chrome", "openssl", "patch", "registry"):
        (bare_path / name).symlink_to(bare_path / "tar")
    tools.install()
    assert apt_get.calls == [["install", "libarchive-tools"]]

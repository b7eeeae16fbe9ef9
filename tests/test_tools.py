"""Tests of missing programs: they are named, and root can install them."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests import tools
from tests.testbed import packages
from tests.testbed.errors import ToolError

if TYPE_CHECKING:
    from pathlib import Path


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


def test_skipped_tests_are_counted_by_program_with_the_command_that_installs_them() -> None:
    assert tools.left_out([]) == []
    assert tools.left_out(["bsdtar", "busybox", "bsdtar"]) == [
        "3 tests left out, because programs are missing:",
        "  bsdtar: 2 tests (comparison of archive readers)",
        "  busybox: 1 test (comparison of archive readers, and scripts in pods)",
        "to install them, run as root: apt-get install libarchive-tools busybox",
    ]


def test_program_outside_the_list_keeps_its_name(bare_path: Path) -> None:
    assert tools.command("tar -x") == ["tar", "-x"]
    with pytest.raises(tools.MissingToolError, match=r"^bsdtar not found: apt-get install libarchive-tools$"):
        tools.command("bsdtar -x")
    (bare_path / "bsdtar").symlink_to(bare_path / "tar")
    assert tools.command("bsdtar -x") == [str(bare_path / "bsdtar"), "-x"]


@pytest.fixture
def calls(bare_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """The arguments of each call of a fake apt-get, for root on a machine with some programs of the list."""
    for name in ("apt-get", "busybox", "curl", "git", "google-chrome", "openssl", "registry", "skopeo"):
        (bare_path / name).symlink_to(bare_path / "tar")
    calls: list[list[str]] = []

    def run(argv: list[str], **_options: Any) -> str:
        calls.append([word for word in argv[1:] if not word.startswith("-")])
        if "patch" in argv and len(calls) < 3:
            raise ToolError("no package lists")
        return ""

    monkeypatch.setattr(packages, "run", run)
    monkeypatch.setattr(packages, "_POLICY", tmp_path / "policy-rc.d")
    monkeypatch.setattr(tools, "TOOLS", tuple(tool for tool in tools.TOOLS if tool.folders is None))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return calls


def test_root_installs_missing_packages_after_an_update_of_the_lists(calls: list[list[str]]) -> None:
    tools.install()
    missing = ["install", "libarchive-tools", "patch"]
    assert calls == [missing, ["update"], missing]


def test_user_gets_the_command_to_run_as_root(calls: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ToolError, match=r"run as root: apt-get install libarchive-tools patch$"):
        tools.install()
    assert calls == []

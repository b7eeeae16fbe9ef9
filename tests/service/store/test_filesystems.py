from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from packager.service.store import databases
from packager.service.store.databases import network_file_system

if TYPE_CHECKING:
    import pytest


def mounts(tmp_path: Path, kind: str) -> Path:
    """Write a table of mounts in which the device of a folder has a kind."""
    device = tmp_path.stat().st_dev
    table = tmp_path / "mountinfo"
    table.write_text(
        "1 0 0:999999 / / rw - ext4 /dev/vda rw\n"
        "broken\n"
        f"36 1 {os.major(device)}:{os.minor(device)} / /a\\040b rw shared:7 - {kind} server:/share rw,vers=4.2\n"
    )
    return table


def test_network_file_system_is_distinguished_from_a_local_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("nfs4", "fuse.sshfs"):
        monkeypatch.setattr(databases, "_MOUNTS", mounts(tmp_path, kind))
        assert network_file_system(tmp_path) == kind
    for kind in ("ext4", "fuse.lxcfs", "nfsd"):
        monkeypatch.setattr(databases, "_MOUNTS", mounts(tmp_path, kind))
        assert network_file_system(tmp_path) is None


def test_local_mounts_and_no_mounts_have_no_network_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert network_file_system(tmp_path) is None
    assert network_file_system(Path("/proc")) is None
    monkeypatch.setattr(databases, "_MOUNTS", tmp_path / "none")
    assert network_file_system(tmp_path) is None

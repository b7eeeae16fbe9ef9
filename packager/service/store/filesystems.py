"""Finds the file system of a folder."""

from __future__ import annotations

import os
import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")

_NETWORK = re.compile(
    r"(nfs|nfs4|cifs|smb3|smbfs|afs|ceph|lustre|gpfs|beegfs|ncpfs"
    r"|fuse\.(sshfs|glusterfs|ceph|s3fs|goofys|rclone|gcsfuse|juicefs|seaweedfs|mount-s3|blobfuse2?|nfs.*))"
)
"""The names of file systems that other machines may change. 9p and virtiofs can be the own disk of a sandbox."""


def network_file_system(folder: Path) -> str | None:
    """Return the name of the network file system of a folder; None if it is on another one, or unknown.

    From /proc/self/mountinfo (proc(5)), which Linux has. Raises OSError if the folder does not exist.
    """
    device = folder.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        mount, _, kind = line.partition(" - ")
        fields = mount.split()
        if len(fields) > 2 and fields[2] == number and _NETWORK.fullmatch(name := kind.partition(" ")[0]):
            return name
    return None

"""Checks the folders of a container at which volumes are mounted. Tests: verify/test_runnable.py."""

from __future__ import annotations

import posixpath
import re

# Folders that an image's programs need, and where no runtime mounts volumes (runc, libcontainer: checkProcMount).
_SYSTEM = frozenset(
    """
    / /bin /boot /dev /etc /lib /lib32 /lib64 /libx32 /proc /run /sbin /sys /usr /usr/bin /usr/lib /usr/lib64 /usr/local
    /usr/local/bin /usr/local/lib /usr/sbin /var
    """.split()  # noqa: SIM905 - a column of quoted words reads worse
)
# Where every package mounts something itself (`packager/builder/templates/macros.yaml`).
_PACKAGE_FOLDERS = frozenset(("/etc/mlpack", "/etc/mlpack/env", "/etc/mlpack/runtime", "/run/mlpack", "/home/mlpack"))
_KERNEL_FOLDERS = ("/proc", "/sys")

_FORM = "expected an absolute path (or one below ROOT) without ':' and '..'"

MOUNTED = ("DATASET_DIR", "OUTPUT_DIR", "CHECKPOINT_DIR")
"""The keys of mlops.env that a volume is mounted at as they are."""

ROOT = "ROOT"
"""The placeholder in mlops.env for the folder that contains the package."""


def normalized(path: str) -> str:
    """Return the absolute folder that `path` means to the kubelet."""
    return posixpath.normpath(f"/{path}").replace("//", "/")


def complaint(path: str) -> str | None:
    """Return why no volume of a package can be mounted at `path`, absolute or below ROOT; None if one can."""
    if not path.startswith(("/", f"{ROOT}/")):
        return f"{_FORM}, found {path!r}"
    if normalized(path) in _PACKAGE_FOLDERS:
        return f"the package already mounts something at {normalized(path)} : use another folder"
    return mount_complaint(path)


def mount_complaint(path: str) -> str | None:
    """Return why no volume can be mounted at a path of a manifest; None if one can."""
    folder = normalized(path)
    if ":" in path or ".." in path.split("/") or not path.strip("/ "):
        return f"{_FORM}, found {path!r}"
    if folder in _SYSTEM or folder.startswith(tuple(f"{kernel_folder}/" for kernel_folder in _KERNEL_FOLDERS)):
        return f"a volume at {folder} would hide what the container needs there: use another folder"
    return None


def root_fault(root: str) -> str | None:
    """Return the expected form of a folder for packages if `root` does not have it; else None."""
    has_form = re.fullmatch(r"/[^\x00-\x1f\x7f:\ud800-\udfff\ufffe\uffff]*", root) and root.strip("/ ")
    return None if has_form and ".." not in root.split("/") else "expected an absolute path without ':' and '..'"

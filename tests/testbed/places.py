"""Defines the folders: a cache that all checkouts share, and a run folder and a name for each checkout's cluster."""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
CHECKOUT = SOURCES.parents[1]

IMAGE_VOLUMES = os.environ.get("MLPACK_IMAGE_VOLUMES") == "1"
"""Whether the cluster is the one of `python -m tests.imagevolumes`: its containerd mounts images as volumes."""

_IDENTITY = hashlib.sha256(f"{CHECKOUT}{' image volumes' * IMAGE_VOLUMES}".encode()).hexdigest()[:8]

NAME = f"mlpack-{_IDENTITY}"
"""The name of the machine's network interface and of the control group; of at most 15 characters for the interface."""


def _xdg(variable: str, default: str) -> Path:
    """Return mlpack's folder below a user's folder; a relative path in the variable is ignored (XDG specification)."""
    named = Path(os.environ.get(variable, ""))
    return (named if named.is_absolute() else Path.home() / default) / "mlpack" / "cluster"


CACHE = _xdg("XDG_CACHE_HOME", ".cache")
"""The folder of programs and images, each under a digest of its sources."""

RUN = _xdg("XDG_STATE_HOME", ".local/state") / f"{CHECKOUT.name}-{_IDENTITY}"
"""The folder of the running cluster; in the checkout, every search would include the containers' files."""

KUBECONFIG = RUN / "kubeconfig"


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Hold a lock on a folder, which the kernel releases when the process ends, and which leaves no lock file."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def cache_entry(entry: Path) -> Iterator[Path]:
    """Give a new folder beside `entry`, and rename it to `entry` at the end, so that an entry is always complete.

    The caller holds a lock, so leftovers of interrupted processes can be deleted.
    """
    entry.parent.mkdir(parents=True, exist_ok=True)
    for stale in entry.parent.glob(f".{entry.name}.*"):
        shutil.rmtree(stale)
    unfinished = Path(tempfile.mkdtemp(dir=entry.parent, prefix=f".{entry.name}."))
    unfinished.chmod(0o755)
    try:
        yield unfinished
        unfinished.rename(entry)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)

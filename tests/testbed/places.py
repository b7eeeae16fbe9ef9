"""Where things lie: a cache that all checkouts share, and a run folder and a name for each checkout's own cluster."""

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

_IDENTITY = hashlib.sha256(str(CHECKOUT).encode()).hexdigest()[:8]

NAME = f"mlpack-{_IDENTITY}"
"""The machine's end of the link and the control group are called so. An interface's name ends at 15 characters."""


def _xdg(variable: str, default: str) -> Path:
    """Return our folder below one of the user's; a relative path in the variable means nothing (XDG specification)."""
    named = Path(os.environ.get(variable, ""))
    return (named if named.is_absolute() else Path.home() / default) / "mlpack" / "cluster"


CACHE = _xdg("XDG_CACHE_HOME", ".cache")
"""Programs and images, each under a name that says from what it was made."""

RUN = _xdg("XDG_STATE_HOME", ".local/state") / f"{CHECKOUT.name}-{_IDENTITY}"
"""Everything of the running cluster. Not in the checkout, where every search would meet the containers' files."""

KUBECONFIG = RUN / "kubeconfig"


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Holds a lock on a folder: the kernel lets go of it however the process ends, and no lock file stays behind."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def cache_entry(entry: Path) -> Iterator[Path]:
    """Gives a folder to fill beside `entry` and puts it there once it is complete: nobody ever finds half an entry.

    The caller holds a lock, so what an interrupted one left beside the entry is nobody's.
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

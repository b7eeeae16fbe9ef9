"""Locks files against other processes, and widens pipes: the only importer of fcntl. Tests: base/test_workfolder.py."""

from __future__ import annotations

from contextlib import suppress

from packager.base.errors import ToolError

try:
    import fcntl
except ModuleNotFoundError:
    raise ToolError(
        "this command needs a system whose files can be locked, such as Linux or macOS",
        hint="on Windows, run mlpack in WSL",
    ) from None


def lock(descriptor: int) -> bool | None:
    """Lock a file until it is closed and return True; False if it is locked already, None where there are no locks.

    The system unlocks it when the process ends, however that happens (flock(2)).
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def widen_pipe(descriptor: int, size: int) -> None:
    """Let a pipe hold `size` bytes, where the system can do that, and the user has not too many wide pipes."""
    with suppress(AttributeError, OSError):
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, size)

"""Calls C functions of the system that Python does not offer: the only importer of ctypes.

ctypes is a slow import, so it is made when a call is looked up.

Tests: base/test_atomic.py.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# linux/fcntl.h and linux/fs.h: what renameat2(2) takes.
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2

# linux/prctl.h.
_PR_SET_SECCOMP = 22
_PR_SET_NO_NEW_PRIVS = 38

# linux/seccomp.h, and the size of an instruction of linux/filter.h.
_SECCOMP_MODE_FILTER = 2
_INSTRUCTION_BYTES = 8


def exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step, by renameat2(2); False where the system cannot."""
    try:
        renameat2 = _library(use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    result: int = renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    return result == 0


def unshare() -> Callable[[int], int] | None:
    """Look up the system call unshare for use between fork and exec; return None except on Linux."""
    return getattr(_library(), "unshare", None) if sys.platform.startswith("linux") else None


def keep_only(program: bytes) -> int:
    """Let this process make only the system calls that a filter allows, and get no new rights by starting a program.

    Args:
        program: The filter, in the instructions of the classic BPF.

    Returns:
        0, or the number of the system's error.
    """
    import ctypes  # noqa: PLC0415 - a slow import that few runs need

    class Filter(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))

    library = _library(use_errno=True)
    filter_ = Filter(len(program) // _INSTRUCTION_BYTES, program)
    if library.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 and (
        library.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(filter_), 0, 0) == 0
    ):
        return 0
    return ctypes.get_errno()


def _library(*, use_errno: bool = False) -> Any:
    import ctypes  # noqa: PLC0415 - a slow import that few runs need

    return ctypes.CDLL(None, use_errno=use_errno)

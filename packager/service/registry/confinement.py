"""Takes from this process all that it does not need to compute: files, the network, other processes, more rights.

What stays is work in memory, and the descriptors that are open. It lasts until the process ends, and nothing in it can
undo it: the limits are hard, and Linux never removes a filter of system calls (seccomp(2), which needs no right of its
own after PR_SET_NO_NEW_PRIVS). Containers need nothing for it either.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import struct
import sys

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""The index of a machine's numbers in _CALLS, and its AUDIT_ARCH (linux/audit.h)."""

_CALLS = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "exit": (60, 93),
    "getrusage": (98, 165),
    "sigaltstack": (131, 132),
    "futex": (202, 98),
    "restart_syscall": (219, 128),
    "clock_gettime": (228, 113),
    "exit_group": (231, 94),
    "getrandom": (318, 278),
}
"""The numbers of the system calls that stay, in the order of _MACHINES (asm/unistd_64.h, asm-generic/unistd.h)."""

_OWN_LIMITS = (302, 261)
"""The numbers of prlimit64, which stays for the process itself: its limit of processor time grows with each task."""

# linux/prctl.h
_PR_SET_SECCOMP = 22
_PR_SET_NO_NEW_PRIVS = 38

# linux/seccomp.h, and the size of an instruction of linux/filter.h
_SECCOMP_MODE_FILTER = 2
_INSTRUCTION_BYTES = 8

# linux/bpf_common.h, linux/seccomp.h
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000


def confine() -> list[str]:
    """Confine this process, and return what the system lacks for it; nothing where it has everything.

    Call it after the last import: no file can be opened any more.
    """
    lacking = []
    if not sys.platform.startswith("linux"):
        lacking.append(f"{platform.system()} has no filter of system calls")
    elif platform.machine() not in _MACHINES:
        lacking.append(f"the filter of system calls is not known for {platform.machine()}")
    elif number := _keep_only(_filter(*_MACHINES[platform.machine()])):
        lacking.append(f"the system refuses a filter of system calls: {os.strerror(number)}")
    for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
        resource.setrlimit(limit, (0, 0))
    return lacking


class _Program(ctypes.Structure):
    """A filter for the kernel (linux/filter.h, `sock_fprog`)."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def _keep_only(program: bytes) -> int:
    """Let this process make only the system calls that a filter allows; return 0, or the number of the error."""
    library = ctypes.CDLL(None, use_errno=True)
    filter_ = _Program(len(program) // _INSTRUCTION_BYTES, program)
    if library.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 and (
        library.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(filter_), 0, 0) == 0
    ):
        return 0
    return ctypes.get_errno()


def _filter(column: int, architecture: int) -> bytes:
    """Return the filter: a program of the classic BPF that fails each other call with EPERM."""
    fail = [_step(_RETURN, _FAIL | errno.EPERM)]
    allow = [_step(_RETURN, _ALLOW)]
    steps = [_step(_LOAD, _ARCHITECTURE), _step(_JUMP_IF_EQUAL, architecture, skip=1), *fail, _step(_LOAD, _NUMBER)]
    for numbers in _CALLS.values():
        steps += [_step(_JUMP_IF_EQUAL, numbers[column], skip_else=1), *allow]
    steps += [_step(_JUMP_IF_EQUAL, _OWN_LIMITS[column], skip=1), *fail]
    for half in (_FIRST_ARGUMENT, _FIRST_ARGUMENT + 4):  # the process, of which 0 is this one
        steps += [_step(_LOAD, half), _step(_JUMP_IF_EQUAL, 0, skip=1), *fail]
    return b"".join([*steps, *allow])


def _step(code: int, value: int, *, skip: int = 0, skip_else: int = 0) -> bytes:
    """Return a step: with how many of the next ones it skips where a comparison holds, and where it does not."""
    return struct.pack("HBBI", code, skip, skip_else, value)

"""Prevents a program that is about to start from using the network, and more memory than a limit.

Where the system allows it (Linux, as root or with user namespaces), the program gets its own empty network namespace
without even a loopback connection to this machine (unshare(2)). On all systems, the environment blocks the usual ways:
it sets proxies that do not answer, and allows git no protocol. On Linux, the limit of memory counts what the program
can write to (RLIMIT_DATA), not addresses that it only reserves.

Tests: cli/test_elsewhere.py.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
from typing import TYPE_CHECKING

from packager.base import systemcalls

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MEMORY_BYTES = 256 << 20
"""The memory of a program; kubectl takes 96 MiB for a bundled model, and 192 MiB for an output of 16 MiB."""

_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000

_UNREACHABLE_PROXY = "http://127.0.0.1:9"
"""The discard port, where nothing listens; a proxy that cannot be reached fails the request."""

_ENVIRONMENT = {
    **{
        name: _UNREACHABLE_PROXY
        for word in ("http", "https", "all")
        for name in (f"{word}_proxy", f"{word.upper()}_PROXY")
    },
    "no_proxy": "",
    "NO_PROXY": "",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
}


def environment() -> Mapping[str, str]:
    """Return this process's environment, without a way to the network."""
    return {**os.environ, **_ENVIRONMENT}


def contain(program: str) -> Callable[[], None]:
    """Return a function to call in a child process before it becomes `program`.

    A snap is started by a program with root's rights, which it would not have in a user namespace. The function
    is made before: between fork and exec, as little as possible may happen.
    """
    unshare = systemcalls.unshare()
    if os.path.realpath(shutil.which(program) or program).endswith("/snap"):
        unshare = None
    maps = [
        ("/proc/self/setgroups", b"deny"),  # required before a group may be mapped
        ("/proc/self/uid_map", f"{os.geteuid()} {os.geteuid()} 1".encode()),
        ("/proc/self/gid_map", f"{os.getegid()} {os.getegid()} 1".encode()),
    ]
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    memory = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(hard, MEMORY_BYTES)

    def leave() -> None:
        with contextlib.suppress(OSError, ValueError):  # not every system has this limit
            resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
        if unshare is None or unshare(_CLONE_NEWNET) == 0 or unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
            return
        for path, text in maps:
            with contextlib.suppress(OSError):
                file = os.open(path, os.O_WRONLY)
                os.write(file, text)
                os.close(file)

    return leave

"""Runs programs, and checks their exit codes."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from tests.testbed.errors import ToolError

PATH = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"
"""The PATH of programs; some root shells lack the folders for administration."""

_LINES_SHOWN = 25
"""The number of last lines of a failed program's output that are shown; the reason is at the end."""


def run(
    argv: Sequence[str | Path],
    *,
    text: str | None = None,
    source: IO[bytes] | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    outlives_us: bool = False,
) -> str:
    """Run a program to its end, and return its standard output. Raises ToolError if that is missing or fails.

    Its standard input is `text` or the file `source`; `env` is added to this process's environment. It ends when this
    process is killed, unless `outlives_us`.
    """
    command = [str(part) for part in argv]
    if shutil.which(command[0], path=PATH) is None:
        raise ToolError(f"{command[0]} is not on this machine")
    tied = [] if outlives_us else ["setpriv", "--pdeathsig", "KILL"]
    done = subprocess.run(
        [*tied, *command],
        input=None if source else (text or "").encode(),
        stdin=source,
        capture_output=True,
        cwd=cwd,
        env={**os.environ, "PATH": PATH, **(env or {})},
        check=False,
    )
    if done.returncode:
        output = (done.stderr or done.stdout).decode(errors="replace").rstrip()
        tail = "\n".join("  " + line for line in output.splitlines()[-_LINES_SHOWN:])
        raise ToolError(f"{' '.join(command)[:200]} failed ({done.returncode}):\n{tail}")
    return done.stdout.decode(errors="replace")


def bound(*argv: str | Path) -> list[str | Path]:
    """Return a command that runs `argv`, and ends its processes and mounts with it, even if it is killed.

    A PID namespace ends with its process 1, and this process with `unshare`; mounts end with their mount namespace.
    """
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", *argv]

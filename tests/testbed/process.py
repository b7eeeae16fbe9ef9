"""Running programs: the one place that looks at their exit codes."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from tests.testbed.errors import ToolError

PATH = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"
"""Not every root shell has the folders for administration on its PATH."""

_LINES_SHOWN = 25
"""How much of a failed program's output is worth showing: the reason stands at its end."""


def run(
    argv: Sequence[str | Path],
    *,
    text: str | None = None,
    source: IO[bytes] | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    outlives_us: bool = False,
) -> str:
    """Runs a program to its end and returns its standard output.

    Args:
        argv: the program and its arguments.
        text: what the program reads on standard input, nothing by default.
        source: a file that it reads there instead.
        cwd: where it runs.
        env: what it gets on top of this process's environment.
        outlives_us: if this process is killed, the program still comes to its end.

    Raises:
        ToolError: it is missing, or its exit code is not 0.
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
    """The command that runs `argv` so that nothing which it starts or mounts outlives it, even if it is killed.

    A PID namespace ends with its process 1, and that one with `unshare`; the mounts go with the mount namespace.
    """
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", *argv]

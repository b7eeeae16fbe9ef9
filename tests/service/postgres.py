"""PostgreSQL, as Debian packages it, in a temporary folder: started for the tests, and stopped after them."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from tests import tools

if TYPE_CHECKING:
    from collections.abc import Iterator

_FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "listen_addresses=''", "max_connections=200")
_USER = "postgres"  # the server refuses to run as root


class Postgres:
    """A running PostgreSQL server."""

    def __init__(self, sockets: Path) -> None:
        self._sockets = sockets
        self._numbers = itertools.count(1)

    def create(self) -> str:
        """Create an empty database, and return its address."""
        name = f"test{next(self._numbers)}"
        with psycopg.connect(self._address("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self._address(name)

    def execute(self, statement: str) -> None:
        """Execute a statement as the administrator of the server."""
        with psycopg.connect(self._address("postgres"), autocommit=True) as connection:
            connection.execute(statement.encode())

    def _address(self, database: str) -> str:
        return f"postgresql://{_USER}:no-secret@/{database}?host={self._sockets}"


def _place() -> str:
    """Return the folder for temporary files, which is in memory if possible, or /tmp if its path is too long.

    The path of a socket has at most 107 characters (unix(7)), of which the server's names take 40.
    """
    folder = tempfile.gettempdir()
    return folder if len(folder) < 60 else "/tmp"


@contextmanager
def running() -> Iterator[Postgres]:
    """Yield a running server.

    Raises:
        MissingToolError: PostgreSQL is not installed.
    """
    programs = Path(tools.require("initdb")).parent
    is_root = os.geteuid() == 0
    folder = Path(tempfile.mkdtemp(prefix="mlpack-pg-", dir=_place()))
    try:
        owner = pwd.getpwnam(_USER).pw_uid if is_root else os.geteuid()
        os.chown(folder, owner, -1)
        data = folder / "data"

        def run(program: str, *arguments: str) -> None:
            done = subprocess.run(
                [programs / program, *arguments],
                user=owner if is_root else None,
                cwd=folder,
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr

        run("initdb", "--no-sync", "--auth=trust", f"--username={_USER}", "--encoding=UTF8", f"--pgdata={data}")
        options = " ".join(f"-c {option}" for option in _FAST)
        start = ("start", "--wait", "--silent", f"--log={folder / 'log'}")
        run("pg_ctl", *start, f"--pgdata={data}", f"--options={options} -k {folder}")
        try:
            yield Postgres(folder)
        finally:
            run("pg_ctl", "stop", f"--pgdata={data}", "--mode=immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)

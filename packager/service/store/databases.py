"""Databases of one server: SQLite, a file, or PostgreSQL.

Statements are the same for both. This module has the differences: opening a database, starting a write transaction, and
operations on the whole database. Only one transaction of a server writes at a time: its reads stay valid until it ends,
and the ids of events become visible in their order.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from abc import ABC, abstractmethod
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import create_engine, event, make_url, text
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    InterfaceError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.exc import TimeoutError as NoConnectionError
from sqlalchemy.pool import QueuePool

from packager.base.errors import ToolError, UsageError, missing_extra, reason
from packager.base.workfolder import lock
from packager.service.store.models import read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine, Executable

    from packager.service.store.models import Row


SERVING = 0x6D6C7002
"""The key of the advisory lock of PostgreSQL that a server holds."""

_KEEPALIVES = {
    "connect_timeout": 10,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""The options of libpq by which a server notices a broken connection to PostgreSQL."""

CONNECTIONS = 25
"""The maximum number of connections, and of the threads of a server that use the database."""

_POOL = {"pool_size": 8, "max_overflow": CONNECTIONS - 8}

_BUSY_TIMEOUT = "busy_timeout=10000"
"""The milliseconds for which SQLite waits for other processes, as a pragma."""

_LEAST_BYTES = 8 << 20
"""The free bytes below which a disk counts as full: SQLite's write-ahead log grows to half of this."""


class AwayError(ToolError):
    """The database does not answer."""


class Database(ABC):
    """A database."""

    shown: str  # the address or the path, without a password
    engine: Engine
    _is_closed = False

    def __init__(self) -> None:
        self._turn = threading.Lock()  # SQLite itself would poll with growing pauses

    @contextmanager
    def writing(self, *, waits: bool = True) -> Iterator[Connection]:
        """Yield the connection of a write transaction: commit it after the block, or roll it back after an exception.

        Raises AwayError.
        """
        if not self._turn.acquire(blocking=waits):
            raise AwayError("another transaction is open")
        try:
            with self._connected() as connection:
                self._begin(connection)
                try:
                    yield connection
                except BaseException:
                    self._end(connection, "ROLLBACK")
                    raise
                self._end(connection, "COMMIT")
        finally:
            self._turn.release()

    @abstractmethod
    def _begin(self, connection: Connection) -> None:
        """Begin a write transaction."""

    @abstractmethod
    def _end(self, connection: Connection, statement: str) -> None:
        """End a transaction: COMMIT or ROLLBACK."""

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection for reading. Raises AwayError."""
        with self._connected() as connection:
            yield connection

    def rows(self, kind: type[Row], statement: Executable) -> list[Row]:
        """Return the rows of a statement as values of a type; see `models.read`. Raises AwayError."""
        with self.reading() as connection:
            try:
                return read(connection, kind, statement)
            except DataError:  # texts in PostgreSQL cannot contain NUL, so no row matches
                return []

    def row(self, kind: type[Row], statement: Executable) -> Row | None:
        """Return the first row of a statement; None if there is none. Raises AwayError."""
        return next(iter(self.rows(kind, statement)), None)

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        pool = self.engine.pool
        try:
            with self.engine.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            if not isinstance(error, OperationalError | InterfaceError | NoConnectionError):
                raise
            cause = error.orig if isinstance(error, DBAPIError) else error
            lines = str(cause).splitlines() or [""]
            raise AwayError(f"the database does not answer: {lines[0]}") from None
        finally:
            if self._is_closed:  # closed during the block: nothing else would empty the pool again
                pool.dispose()

    @abstractmethod
    def claim(self) -> None:
        """Lock the database, which only one server may use, until it is closed. Raises ToolError if it is locked."""

    @abstractmethod
    def check(self) -> list[str]:
        """Return the problems that the database finds in itself."""

    def check_room(self) -> None:  # noqa: B027 - the disk of PostgreSQL is on another machine
        """Raise ToolError if the disk of the database is full, if this can be determined."""

    @abstractmethod
    def backup(self, file: Path) -> None:
        """Write a consistent copy to a new file. Raises ToolError, also if the file exists."""

    def close(self) -> None:
        """Close all connections; busy ones are closed when their work has ended."""
        self._is_closed = True
        self.engine.dispose()


def _in_use(shown: str) -> ToolError:
    return ToolError(f"another server uses the database {shown}", hint="stop it, or choose another database")


class Sqlite(Database):
    """An SQLite file that only its owner can read."""

    def __init__(self, path: Path) -> None:
        """Create the file if it does not exist. Raises ToolError."""
        super().__init__()
        self.path = path
        self.shown = str(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600))
        except OSError as error:
            raise ToolError(f"the database {path} cannot be opened: {reason(error)}") from None
        self.engine = create_engine(f"sqlite:///{path}", poolclass=QueuePool, hide_parameters=True, **_POOL)
        event.listen(self.engine, "connect", _prepare)
        self._claim: int | None = None

    def claim(self) -> None:
        """Lock a file beside the database.

        The database file itself cannot be locked: closing it anywhere in this process would release SQLite's own locks.
        """
        path = self.path.with_name(f"{self.path.name}.lock")
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ToolError(f"{path} cannot be opened: {reason(error)}") from None
        if not lock(descriptor):
            os.close(descriptor)
            raise _in_use(self.shown)
        self._claim = descriptor

    def close(self) -> None:
        """Close all connections, and release the lock of the file."""
        super().close()
        if self._claim is not None:
            os.close(self._claim)
            self._claim = None

    def _begin(self, connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    def _end(self, connection: Connection, statement: str) -> None:
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        if driver.in_transaction:  # SQLite itself ends a transaction on a full disk
            connection.exec_driver_sql(statement)

    def check_room(self) -> None:
        """Raise ToolError if the disk is full."""
        left = shutil.disk_usage(self.path.parent).free
        if left < _LEAST_BYTES:
            raise ToolError(f"the disk of the database {self.path} is full: {left >> 10} KiB are left")

    def check(self) -> list[str]:
        """Return the problems that SQLite finds in the file."""
        with self.reading() as connection:
            problems = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check")]
        return [problem for problem in problems if problem != "ok"]

    def backup(self, file: Path) -> None:
        """Write a copy of the file, also while the server runs. Raises ToolError."""
        try:
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except OSError as error:
            raise ToolError(f"{file} cannot be written: {reason(error)}") from None
        with self.reading() as connection:
            connection.exec_driver_sql("VACUUM INTO ?", (str(file),))


def _prepare(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # we begin transactions ourselves
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", _BUSY_TIMEOUT):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


class Postgres(Database):
    """A PostgreSQL database."""

    def __init__(self, address: str) -> None:
        """Connect to the database at an address such as `postgresql://user@host/name`.

        Raises UsageError or ToolError.
        """
        super().__init__()
        scheme, _, rest = address.partition("://")
        try:
            url = make_url(f"postgresql+psycopg://{rest}")
        except (ArgumentError, ValueError):
            raise UsageError("invalid address of a database: expected postgresql://USER:PASSWORD@HOST/NAME") from None
        self.shown = f"{scheme}://{url.render_as_string().partition('://')[2]}"
        self._claim: Connection | None = None
        try:
            self.engine = create_engine(
                url,
                **_POOL,
                hide_parameters=True,
                pool_pre_ping=True,
                isolation_level="READ COMMITTED",
                connect_args=_KEEPALIVES,
            )
        except ModuleNotFoundError as error:
            raise missing_extra("a database of PostgreSQL", error, "service", "postgres") from None

    def claim(self) -> None:
        """Hold an advisory lock with a connection of its own."""
        self._claim = self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        if not self._claim.execute(text(f"SELECT pg_try_advisory_lock({SERVING})")).scalar():
            raise _in_use(self.shown)

    def close(self) -> None:
        """Close all connections, and with them the lock."""
        if self._claim is not None:
            self._claim.invalidate()
            self._claim.close()
        super().close()

    def _begin(self, connection: Connection) -> None:
        """Do nothing: the first statement begins the transaction."""

    def _end(self, connection: Connection, statement: str) -> None:
        connection.commit() if statement == "COMMIT" else connection.rollback()

    def check(self) -> list[str]:
        """Return no problems: PostgreSQL enforces its constraints, and `pg_amcheck` checks files. Raises AwayError."""
        with self.reading() as connection:
            connection.execute(text("SELECT 1"))
        return []

    def backup(self, file: Path) -> None:
        """Raise ToolError with the command of PostgreSQL for backups."""
        command = f"pg_dump --format=custom --file={file} {self.shown}"
        raise ToolError(f"the database {self.shown} is not a file", hint=f"let PostgreSQL copy it: {command}")


def opened(where: str | Path) -> Database:
    """Return the database at a path, or at `postgresql://…`. Raises ToolError or UsageError."""
    address = str(where)
    if address.startswith(("postgresql:", "postgres:")):
        return Postgres(address)
    if not isinstance(where, Path) and "://" in address:
        raise UsageError(f"invalid database {address.partition('://')[0]}://…: expected a path or postgresql://…")
    return Sqlite(Path(address).expanduser())

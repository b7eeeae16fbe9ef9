"""Databases: SQLite, a file for one server, and PostgreSQL, for several replicas of a server.

Statements are the same for both. This module has the differences: opening a database, starting a write transaction, and
operations on the whole database. In both, only one transaction writes at a time: its reads stay valid until it ends,
and the ids of events become visible in their order.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from abc import ABC, abstractmethod
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import create_engine, event, make_url, text
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    InterfaceError,
    InternalError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.exc import TimeoutError as NoConnectionError
from sqlalchemy.pool import QueuePool

from packager.base.errors import MlpackError, ToolError, UsageError, missing_extra, reason
from packager.base.locks import lock
from packager.service.store.filesystems import network_file_system
from packager.service.store.rows import read

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from sqlalchemy import Connection, Engine, Executable
    from sqlalchemy.engine.interfaces import DBAPIConnection, ExceptionContext

    from packager.service.store.rows import Row

OLDEST_POSTGRES = 14

CHANNEL = "mlpack_events"
"""The channel on which PostgreSQL sends all replicas the release of a job with an event."""

_WRITING = 0x6D6C7001
LEADING = 0x6D6C7002
"""The keys of the advisory locks of PostgreSQL: of the write transaction, and of the leader."""

KEEPALIVES = {
    "connect_timeout": 10,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""The options of libpq by which a replica notices a broken connection to PostgreSQL."""

_NOTICES = {
    "tcp_keepalives_idle": "5s",
    "tcp_keepalives_interval": "2s",
    "tcp_keepalives_count": "5",
    "tcp_user_timeout": "15s",
}
"""The settings by which PostgreSQL notices a replica that is cut off, and releases its locks: after 15 s, when a leader
has noticed it as well, which takes it up to 12 s. With the defaults of Linux, PostgreSQL would need two hours. A
connection over a Unix socket ignores these settings."""

FROZEN = "30s"
"""The time after which PostgreSQL closes the connection of a replica that keeps a lock and does nothing."""

_LOCK_TIMEOUT = "10s"
"""The time for which a transaction waits for the lock of another one."""

CONNECTIONS = 25
"""The maximum number of connections, and of the threads of a server that use the database."""

_POOL = {"pool_size": 8, "max_overflow": CONNECTIONS - 8}

_BUSY_TIMEOUT = "busy_timeout=10000"
"""The milliseconds for which SQLite waits for other processes, as a pragma."""

_READ_ONLY = "25006"
_IDLE_IN_TRANSACTION = "25P03"
"""The SQLSTATEs of PostgreSQL for a write to a server that has become a standby, and for a transaction that it has
ended: its client sent nothing for too long."""

_LEAST_BYTES = 8 << 20
"""The free bytes below which a disk counts as full: SQLite's write-ahead log grows to half of this."""


class AwayError(ToolError):
    """The database does not answer."""


def settings(**more: str) -> str:
    """Return the statement that sets a connection's settings of PostgreSQL: `_NOTICES` and further ones.

    They are a statement, because poolers refuse them in the options of a connection.
    """
    pairs = {**_NOTICES, **more}.items()
    return "SELECT " + ", ".join(f"set_config('{name}', '{value}', false)" for name, value in pairs)


def _is_away(error: SQLAlchemyError) -> bool:
    """Return whether an error means that the database does not answer, or accepts no writes now."""
    if isinstance(error, InternalError):
        return _state(error.orig) in (_READ_ONLY, _IDLE_IN_TRANSACTION)
    return isinstance(error, OperationalError | InterfaceError | NoConnectionError)


def _state(error: BaseException | None) -> str | None:
    """Return the SQLSTATE of an error of PostgreSQL; None for other errors."""
    return getattr(error, "sqlstate", None)


def _leave(context: ExceptionContext) -> None:
    """Close all connections of the pool after a write to a standby: another server may be the primary now."""
    if _state(context.original_exception) == _READ_ONLY:
        context.is_disconnect = True


class Database(ABC):
    """A database.

    Attributes:
        shown: The address or the path of the database, without a password.
        is_shared: Whether several replicas may use the database at once.
    """

    shown: str
    is_shared: bool
    engine: Engine
    _is_closed = False
    _turn: AbstractContextManager[object] = nullcontext()  # held by the writing thread

    @abstractmethod
    def _begin(self, connection: Connection, *, is_patient: bool) -> None:
        """Begin a write transaction, when no other one is open; for the argument, see `writing`."""

    @contextmanager
    def writing(self, *, is_patient: bool = False) -> Iterator[Connection]:
        """Yield the connection of a write transaction: commit it after the block, or roll it back after an exception.

        Args:
            is_patient: Whether to wait without a limit for the locks of other replicas, as for their migration.

        Raises:
            AwayError: The database does not answer, or another replica writes for too long.
        """
        with self._turn, self._connected() as connection:
            self._begin(connection, is_patient=is_patient)
            try:
                yield connection
            except BaseException:
                self._end(connection, "ROLLBACK")
                raise
            self._end(connection, "COMMIT")

    @abstractmethod
    def _end(self, connection: Connection, statement: str) -> None:
        """End a transaction: COMMIT or ROLLBACK."""

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection for reading. Raises AwayError."""
        with self._connected() as connection:
            yield connection

    def rows(self, kind: type[Row], statement: Executable, **values: object) -> list[Row]:
        """Return the rows of a statement as values of a type; see `rows.read`. Raises AwayError."""
        with self.reading() as connection:
            try:
                return read(connection, kind, statement, **values)
            except DataError:  # texts in PostgreSQL cannot contain NUL, so no row matches
                return []

    def row(self, kind: type[Row], statement: Executable, **values: object) -> Row | None:
        """Return the first row of a statement; None if there is none. Raises AwayError."""
        return next(iter(self.rows(kind, statement, **values)), None)

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        pool = self.engine.pool
        try:
            with self.engine.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            if not _is_away(error):
                raise
            cause = error.orig if isinstance(error, DBAPIError) else error
            lines = str(cause).splitlines() or [""]
            raise AwayError(f"the database does not answer: {lines[0]}") from None
        finally:
            if self._is_closed:  # closed during the block: nothing else would empty the pool again
                pool.dispose()

    @abstractmethod
    def execute_if_free(self, statement: Executable) -> None:
        """Execute a statement in a write transaction of its own, or not at all while another transaction is open.

        Raises:
            AwayError: The database does not answer, or another process writes to the file.
        """

    @abstractmethod
    def tell(self, connection: Connection, release: str) -> None:
        """Notify other replicas of an event of a job, at the end of the transaction."""

    def claim(self) -> None:  # noqa: B027 - a shared database needs no claim
        """Lock a database that only one server may use, until it is closed. Raises ToolError if it is locked."""

    @abstractmethod
    def check_room(self) -> None:
        """Raise ToolError if the disk of the database is full, if this can be determined."""

    @abstractmethod
    def check(self) -> list[str]:
        """Return the problems that the database finds in itself."""

    @abstractmethod
    def backup(self, file: Path) -> None:
        """Write a consistent copy to a new file. Raises ToolError, also if the file exists."""

    def close(self) -> None:
        """Close all connections; busy ones are closed when their work has ended."""
        self._is_closed = True
        self.engine.dispose()


class Sqlite(Database):
    """An SQLite file that only its owner can read."""

    is_shared = False
    _turn: threading.Lock

    def __init__(self, path: Path) -> None:
        """Create the file if it does not exist. Raises ToolError."""
        self.path = path
        self.shown = str(path)
        self._turn = threading.Lock()  # SQLite itself would poll with growing pauses
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if kind := network_file_system(path.parent):
                raise ToolError(
                    f"the database {path} is on a network file system ({kind}), where SQLite can lose data",
                    hint="choose a disk of this machine, or a database of PostgreSQL: --database postgresql://...",
                )
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
        is_locked = lock(descriptor)
        if not is_locked:
            os.close(descriptor)
        if is_locked is None:
            raise ToolError(f"{path} cannot be locked: its file system has no locks")
        if not is_locked:
            raise ToolError(
                f"another server uses the database {self.path}",
                hint="stop it, or choose another database; several servers can share one of PostgreSQL",
            )
        self._claim = descriptor

    def close(self) -> None:
        """Close all connections, and release the lock of the file."""
        super().close()
        if self._claim is not None:
            os.close(self._claim)
            self._claim = None

    def _begin(self, connection: Connection, *, is_patient: bool) -> None:  # noqa: ARG002 - the signature of `Database`
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    def _end(self, connection: Connection, statement: str) -> None:
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        if driver.in_transaction:  # SQLite itself ends a transaction on a full disk
            connection.exec_driver_sql(statement)

    def execute_if_free(self, statement: Executable) -> None:
        """Execute a statement without waiting for other threads and processes. Raises AwayError."""
        if not self._turn.acquire(blocking=False):
            return
        try:
            with self._connected() as connection:
                connection.exec_driver_sql("PRAGMA busy_timeout=0")
                try:
                    connection.execute(statement)
                finally:
                    connection.exec_driver_sql(f"PRAGMA {_BUSY_TIMEOUT}")
        finally:
            self._turn.release()

    def check_room(self) -> None:
        """Raise ToolError if the disk is full."""
        left = shutil.disk_usage(self.path.parent).free
        if left < _LEAST_BYTES:
            raise ToolError(f"the disk of the database {self.path} is full: {left >> 10} KiB are left")

    def tell(self, connection: Connection, release: str) -> None:
        """Do nothing: there are no other replicas."""

    def check(self) -> list[str]:
        """Return the problems that SQLite finds in the file."""
        with self.reading() as connection:
            problems = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check")]
            problems += [
                f"a row of {row[0]} refers to a row of {row[2]} that does not exist"
                for row in connection.exec_driver_sql("PRAGMA foreign_key_check")
            ]
        return [problem for problem in problems if problem != "ok"]

    def backup(self, file: Path) -> None:
        """Write a copy of the file, also while the server runs. Raises ToolError."""
        try:
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except OSError as error:
            raise ToolError(f"{file} cannot be written: {reason(error)}") from None
        try:
            source, target = sqlite3.connect(self.path), sqlite3.connect(file)
            with target:
                source.backup(target)
            source.close()
            target.close()
        except sqlite3.Error as error:
            file.unlink(missing_ok=True)
            raise ToolError(f"the backup failed: {error}") from None


def _prepare(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # we begin transactions ourselves
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", _BUSY_TIMEOUT):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


class Postgres(Database):
    """A PostgreSQL database."""

    is_shared = True

    def __init__(self, address: str) -> None:
        """Connect to the database at an address such as `postgresql://user@host/name`.

        Raises:
            UsageError: The address is invalid.
            ToolError: psycopg is missing, the database does not answer, or PostgreSQL is too old.
        """
        scheme, _, rest = address.partition("://")
        try:
            url = make_url(f"postgresql+psycopg://{rest}")
        except (ArgumentError, ValueError):
            raise UsageError("invalid address of a database: expected postgresql://USER:PASSWORD@HOST/NAME") from None
        self.shown = f"{scheme}://{url.render_as_string().partition('://')[2]}"
        self.conninfo = f"postgresql://{url.render_as_string(hide_password=False).partition('://')[2]}"
        try:
            self.engine = create_engine(
                url,
                **_POOL,
                hide_parameters=True,
                pool_pre_ping=True,
                isolation_level="READ COMMITTED",  # a writer reads the rows that others wrote while it waited
                connect_args=KEEPALIVES,
            )
            event.listen(self.engine, "handle_error", _leave)
        except ModuleNotFoundError as error:
            raise missing_extra("a database of PostgreSQL", error, "service", "postgres") from None
        try:
            with self.reading() as connection:
                version = int(connection.exec_driver_sql("SHOW server_version_num").scalar_one()) // 10_000
        finally:
            self.engine.dispose()  # the engine connects again when it is used
        if version < OLDEST_POSTGRES:
            raise ToolError(f"{self.shown} is PostgreSQL {version}: expected {OLDEST_POSTGRES} or later")
        event.listen(self.engine, "connect", _set)

    def _begin(self, connection: Connection, *, is_patient: bool) -> None:
        if is_patient:
            connection.execute(text("SET LOCAL lock_timeout = 0"))
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_WRITING})"))

    def _end(self, connection: Connection, statement: str) -> None:
        connection.commit() if statement == "COMMIT" else connection.rollback()

    def execute_if_free(self, statement: Executable) -> None:
        """Execute a statement without waiting for other replicas. Raises AwayError."""
        with self._connected() as connection:
            if connection.execute(text(f"SELECT pg_try_advisory_xact_lock({_WRITING})")).scalar():
                connection.execute(statement)
                connection.commit()

    def tell(self, connection: Connection, release: str) -> None:
        """Notify all replicas of an event of a job, when the transaction is committed."""
        connection.execute(text("SELECT pg_notify(:channel, :release)"), {"channel": CHANNEL, "release": release})

    def check_room(self) -> None:
        """Do nothing: the disk is on another machine, and PostgreSQL refuses writes when it is full."""

    def check(self) -> list[str]:
        """Return no problems: PostgreSQL enforces its constraints, and `pg_amcheck` checks files. Raises AwayError."""
        with self.reading() as connection:
            connection.execute(text("SELECT 1"))
        return []

    def backup(self, file: Path) -> None:
        """Raise ToolError with the command of PostgreSQL for backups."""
        command = f"pg_dump --format=custom --file={file} {self.shown}"
        raise ToolError(f"the database {self.shown} is not a file", hint=f"let PostgreSQL copy it: {command}")


def _set(connection: DBAPIConnection, _record: object) -> None:
    """Set the settings of a new connection of the engine."""
    cursor = connection.cursor()
    cursor.execute(settings(idle_in_transaction_session_timeout=FROZEN, lock_timeout=_LOCK_TIMEOUT))
    cursor.close()
    connection.commit()


def opened(where: str | Path) -> Database:
    """Return the database at a path, `sqlite:PATH` or `postgresql://…`. Raises ToolError or UsageError."""
    address = str(where)
    if address.startswith(("postgresql:", "postgres:")):
        return Postgres(address)
    if address.startswith("sqlite:"):
        path = address.removeprefix("sqlite:")
        address = path[2:] if path.startswith("///") else path
    if not isinstance(where, Path) and "://" in address:
        raise UsageError(f"invalid database {address.partition('://')[0]}://…: expected a path or postgresql://…")
    return Sqlite(Path(address).expanduser())


def cannot_be_used(database: Database, error: DBAPIError) -> MlpackError:
    """Return the error for a database that is not one of mlpack, or that its user may not use."""
    return ToolError(f"the database {database.shown} cannot be used: {error.orig}")

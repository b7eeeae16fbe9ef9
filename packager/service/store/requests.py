"""The SQL statements for requests with an idempotency key. Tests: service/store/test_store.py."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING

from sqlalchemy import delete as delete_from
from sqlalchemy import func, insert, select, update

from packager.base.values import replace
from packager.service.store.rows import KeyedRequest, columns, read
from packager.service.store.tables import requests
from packager.service.times import as_text, now

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

    from packager.service.store.databases import Database

KEPT_REQUESTS = timedelta(hours=24)
"""The time for which the response to a request with an idempotency key is kept."""

MOST_KEPT = 16 << 20
"""The size of the kept requests of a caller, in characters, from which on no further request is kept."""

_SWEEP_SECONDS = 600.0
"""The seconds between two deletions of all older requests: each reads all kept ones, and blocks other writes."""

_LONGEST_REQUEST = timedelta(minutes=5)
"""The time after which a request with an idempotency key can be taken over, although its replica runs."""


class KeyedRequests:
    """The requests with an idempotency key, and their responses.

    Attributes:
        replica: A random number that identifies this replica in its requests.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.replica = 1 + secrets.randbelow((1 << 31) - 1)
        self._swept = float("-inf")

    def begin(self, request: KeyedRequest) -> KeyedRequest | None:
        """Record the start of a request; return the earlier request of the same caller, path and key, if there is one.

        An earlier request without a response is replaced if its replica has ended or it is older than five minutes.
        """
        old = as_text(datetime.now(UTC) - KEPT_REQUESTS)
        with self._database.writing() as connection:
            if monotonic() - self._swept >= _SWEEP_SECONDS:
                connection.execute(delete_from(requests).where(requests.c.created < old))
                self._swept = monotonic()
            kept = select(requests).where(*_same(request), requests.c.created >= old)
            for earlier in read(connection, KeyedRequest, kept):
                if earlier.status is not None or self._is_at_work(connection, earlier):
                    return earlier
            connection.execute(delete_from(requests).where(*_same(request)))
            begun = replace(request, created=now(), replica=self.replica)
            connection.execute(insert(requests).values(columns(begun)))
        return None

    def has_room(self, caller: str) -> bool:
        """Whether a further request of a caller may be kept.

        No kept request is removed early to make room: if it was sent again, it would make a second job.
        """
        sizes = (func.length(column) for column in (requests.c.path, requests.c.key, requests.c.body))
        total = select(func.sum(sum(func.coalesce(size, 0) for size in sizes))).where(requests.c.caller == caller)
        with self._database.reading() as connection:
            return int(connection.execute(total).scalar() or 0) < MOST_KEPT

    def _is_at_work(self, connection: Connection, request: KeyedRequest) -> bool:
        if request.created < as_text(datetime.now(UTC) - _LONGEST_REQUEST):
            return False
        return request.replica == self.replica or self._database.has_replica(connection, request.replica)

    def finish(self, request: KeyedRequest) -> None:
        """Store the response to a request, unless one is stored or another request has taken over."""
        with self._database.writing() as connection:
            self.complete(connection, request)

    def complete(self, connection: Connection, request: KeyedRequest) -> bool:
        """Store the response to a request, if this replica processes it; return whether it does."""
        response = {"status": request.status, "body": request.body, "location": request.location}
        return bool(connection.execute(update(requests).where(*self._own(request)).values(response)).rowcount)

    def _own(self, request: KeyedRequest) -> tuple[ColumnElement[bool], ...]:
        return (*_same(request), requests.c.status.is_(None), requests.c.replica == self.replica)

    def forget(self, request: KeyedRequest) -> None:
        """Remove a failed request, so that it can be repeated."""
        with self._database.writing() as connection:
            connection.execute(delete_from(requests).where(*self._own(request)))


def _same(request: KeyedRequest) -> tuple[ColumnElement[bool], ...]:
    own = (request.caller, request.path, request.key)
    return tuple(column == value for column, value in zip(requests.primary_key, own, strict=True))

"""The SQL statements for sessions of the page. Tests: service/page/test_sign_in.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, insert, select

from packager.service.store.tables import sessions

if TYPE_CHECKING:
    from packager.service.store.databases import Database


MOST = 20
"""The maximum number of sessions of an owner: a further one ends the oldest."""


class StoredSessions:
    """The sessions of a server."""

    def __init__(self, database: Database) -> None:
        self._writing, self._reading = database.writing, database.reading

    def add(self, identifier: str, owner: str, content: bytes, ends: str, time: str) -> None:
        """Store a session; remove all sessions that ended before `time`, and the owner's oldest over the limit."""
        own = select(sessions.c.id).where(sessions.c.owner == owner)
        kept = own.order_by(sessions.c.ends.desc(), sessions.c.id).limit(MOST - 1)
        with self._writing() as connection:
            connection.execute(delete(sessions).where(sessions.c.ends <= time))
            connection.execute(delete(sessions).where(sessions.c.owner == owner, sessions.c.id.not_in(kept)))
            connection.execute(insert(sessions).values(id=identifier, owner=owner, content=content, ends=ends))

    def content(self, identifier: str) -> bytes | None:
        """Return the content of a session; None if it has ended."""
        with self._reading() as connection:
            content = connection.execute(select(sessions.c.content).where(sessions.c.id == identifier)).scalar()
            return None if content is None else bytes(content)

    def remove(self, identifier: str) -> None:
        """End a session."""
        with self._writing() as connection:
            connection.execute(delete(sessions).where(sessions.c.id == identifier))

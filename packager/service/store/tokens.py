"""The SQL statements for tokens. Tests: service/store/test_store.py."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from sqlalchemy import delete as delete_from
from sqlalchemy import func, insert, select, update
from sqlalchemy.exc import SQLAlchemyError

from packager.base.errors import MlpackError
from packager.service.store.databases import AwayError
from packager.service.store.rows import StoredToken, columns
from packager.service.store.tables import tokens
from packager.service.times import now

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.service.store.databases import Database


class TokensFullError(MlpackError):
    """The project has its maximum number of tokens."""


class StoredTokens:
    """The tokens of a server."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, token: StoredToken, most: int | None = None) -> None:
        """Store a token.

        Args:
            token: The token.
            most: The maximum number of tokens of its project, expired ones included; None for no limit.

        Raises:
            TokensFullError: The project has so many tokens.
        """
        with self._database.writing() as connection:
            if most is not None and token.project is not None:
                counted = select(func.count()).where(tokens.c.project == token.project)
                count = int(connection.execute(counted).scalar_one())
                if count >= most:
                    raise TokensFullError(f"the project {token.project!r} has {count:,} tokens: remove some")
            connection.execute(insert(tokens).values(columns(token)))

    def all(self, projects: Sequence[str] | None = None) -> list[StoredToken]:
        """Return the tokens of some projects, or all tokens for None, the oldest first."""
        statement = select(tokens).order_by(tokens.c.created)
        if projects is not None:
            statement = statement.where(tokens.c.project.in_(projects))
        return self._database.rows(StoredToken, statement)

    def by_digest(self, digest: str) -> StoredToken | None:
        """Return the token with a digest; None if it does not exist."""
        return self._database.row(StoredToken, select(tokens).where(tokens.c.digest == digest))

    def by_id(self, identifier: str) -> StoredToken | None:
        """Return the token with an id; None if it does not exist."""
        return self._database.row(StoredToken, select(tokens).where(tokens.c.id == identifier))

    def use(self, identifier: str) -> None:
        """Record the use of a token, unless another transaction is open or the database refuses it.

        The request with the token must neither wait nor fail. A later use is recorded.
        """
        with suppress(AwayError, SQLAlchemyError):
            self._database.execute_if_free(update(tokens).where(tokens.c.id == identifier).values(last_used=now()))

    def remove(self, identifier: str, projects: Sequence[str] | None = None) -> bool:
        """Remove a token, only of some projects unless they are None; return whether it existed."""
        statement = delete_from(tokens).where(tokens.c.id == identifier)
        with self._database.writing() as connection:
            if projects is not None:
                statement = statement.where(tokens.c.project.in_(projects))
            return bool(connection.execute(statement).rowcount)

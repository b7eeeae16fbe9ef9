"""The use cases of tokens: list, create and remove tokens. Tests: service/api/test_projects.py."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from packager.base.values import as_plain
from packager.service.access import permissions, tokens
from packager.service.failures import Failure, over_limit
from packager.service.store.small import TokensFullError
from packager.service.use import answers
from packager.service.use.answers import NewToken, TokenList

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.service.access.projects import Project
    from packager.service.access.tokens import Caller
    from packager.service.registry.bodies import TokenBody
    from packager.service.store.models import StoredToken
    from packager.service.store.store import Store


class Tokens:
    """The use cases of tokens: an admin of a project manages its tokens. Each raises Failure for other callers.

    Args:
        projects: The projects of the server, by name.
    """

    def __init__(self, store: Store, projects: Mapping[str, Project], most: int) -> None:
        self._store = store
        self._projects = projects
        self._most = most

    async def read(self, caller: Caller) -> TokenList:
        """Return the tokens, without their texts."""
        permissions.check_role(caller, "admin")
        rows = await asyncio.to_thread(self._store.tokens.all, permissions.projects_of(caller, "admin"))
        return TokenList(items=[answers.token(row) for row in rows])

    async def add(self, caller: Caller, body: TokenBody) -> NewToken:
        """Create a token; its text is returned once."""
        permissions.check_role(caller, "admin")
        if body.project is not None:
            permissions.check_knows_project(caller, body.project, self._projects)
        permissions.check_admin(caller, body.project)
        row, text = await asyncio.to_thread(self._created, body)
        return NewToken(**as_plain(answers.token(row)), token=text)

    def _created(self, body: TokenBody) -> tuple[StoredToken, str]:
        """Store a new token, and return it and its text. Raises Failure."""
        try:
            return tokens.create(self._store, body.name, body.role, body.days, body.project, most=self._most)
        except TokensFullError as error:
            raise over_limit("project_tokens", str(error)) from None

    async def remove(self, caller: Caller, identifier: str) -> None:
        """Remove a token; requests with it are refused from then on. Raises Failure if not found."""
        permissions.check_role(caller, "admin")
        visible = permissions.projects_of(caller, "admin")
        if not await asyncio.to_thread(self._store.tokens.remove, identifier, visible):
            raise Failure("not-found", f"token {identifier!r} not found")

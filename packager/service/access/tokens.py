"""Tokens and roles: identifies callers and their permissions. Tests: service/access/test_permissions.py."""

from __future__ import annotations

import hashlib
import secrets
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from packager.base.values import Value
from packager.service.store.models import StoredToken, as_text, now

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.service.store.store import Store

ROLES = ("viewer", "user", "developer", "admin")
"""From the weakest; each role includes the permissions of the roles before it."""

PREFIX = "mlp_"
"""The prefix of the tokens of a server."""

_NEVER = "1970-01-01T00:00:00Z"
_USE_SECONDS = 60


EVERY = "*"
"""All projects, in the place of a project's name."""


class Caller(Value, frozen=True):
    """The caller of a request."""

    name: str  # the name of the caller; people of an issuer can often choose their name, also that of someone else
    key: str  # the identity of the caller, by which ownership is checked, never by the name
    roles: Mapping[str, str]  # one of ROLES for each project in which the caller has a role, or for EVERY
    is_trusted: bool = False  # whether the caller may act for others in any role, as on a server that requires no token

    def role(self, project: str | None = None) -> str | None:
        """Return the role of the caller in a project, or in all projects; None without a role."""
        held = {self.roles.get(EVERY), self.roles.get(project or EVERY)} - {None}
        return max((role for role in held if role), key=ROLES.index, default=None)

    def may(self, role: str, project: str | None = None) -> bool:
        """Whether the caller has the permissions of a role in a project, or in all projects."""
        held = self.role(project)
        return held is not None and ROLES.index(held) >= ROLES.index(role)

    def may_anywhere(self, role: str) -> bool:
        """Whether the caller has the permissions of a role in at least one project."""
        return any(ROLES.index(held) >= ROLES.index(role) for held in self.roles.values())

    def acts_for_others(self, project: str) -> bool:
        """Whether the caller may create jobs for others in a project, and change jobs of others."""
        return self.is_trusted or self.may("developer", project)


class Person(Value, frozen=True):
    """A person whom an issuer has identified."""

    subject: str  # the permanent identifier of the person at the issuer (OpenID Connect Core 1.0, section 2)
    name: str  # the current name of the person
    groups: tuple[str, ...]


def key_of(name: str) -> str:
    """Return the key of callers with tokens of a name; keys from an issuer never begin with `token:`."""
    return f"token:{name}"


def key_of_person(issuer: str, subject: str) -> str:
    """Return the key of a person of an issuer; the address of an issuer contains no space."""
    return f"{issuer} {subject}"


def create(  # noqa: PLR0913 - the fields of a token, and a limit
    store: Store, name: str, role: str, days: int | None, project: str | None = None, *, most: int | None = None
) -> tuple[StoredToken, str]:
    """Store a new token; return it and its text, which is not stored. Raises Failure.

    Without `days`, it does not expire; without `project`, its role applies in all; `most` limits those of a project.
    """
    text = PREFIX + secrets.token_urlsafe(32)
    expires = None if days is None else as_text(datetime.now(UTC) + timedelta(days=days))
    token = StoredToken(
        id=secrets.token_hex(6),
        digest=_digest(text),
        name=name,
        role=role,
        project=project,
        created=now(),
        expires=expires,
    )
    store.tokens.add(token, most)
    return token, text


def of_text(store: Store, text: str) -> StoredToken | None:
    """Return the token with a text, which may have expired; None if it is unknown."""
    return store.tokens.by_digest(_digest(text)) if text.startswith(PREFIX) else None


def caller(store: Store, text: str) -> Caller | None:
    """Return the caller for the text of a token; None if the token is unknown or has expired."""
    return caller_of(store, of_text(store, text))


def caller_of(store: Store, row: StoredToken | None) -> Caller | None:
    """Return the caller for the row of a token, and note the use; None without a row, or if the token has expired."""
    time = now()
    if row is None or (row.expires is not None and row.expires <= time):
        return None
    used = datetime.fromisoformat(row.last_used or _NEVER)
    if (datetime.fromisoformat(time) - used).total_seconds() > _USE_SECONDS:
        store.tokens.use(row.id)
    return Caller(row.name, key_of(row.name), {row.project or EVERY: row.role})


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()

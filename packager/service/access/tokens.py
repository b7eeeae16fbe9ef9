"""Tokens and roles: who calls, and what they may do."""

from __future__ import annotations

import hashlib
import secrets
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from packager.base.values import Value
from packager.service.times import as_text, now

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.service.store.store import Row, Store

ROLES = ("viewer", "user", "developer", "admin")
"""From the weakest; each may do what those before it may."""

PREFIX = "mlp_"
"""What the tokens of a server begin with."""

_USE_SECONDS = 60


EVERY = "*"
"""In the place of a project's name: all projects."""


class Caller(Value, frozen=True):
    """Who makes a request.

    Attributes:
        name: What they are called; people of an issuer can often choose it, and so be called as others are.
        key: Who they are: what is theirs is known by it, never by their name.
        roles: One of ROLES for each project in which they have one, or for EVERY.
        is_trusted: Whether they may act for others whatever their role: the server asks for no token.
    """

    name: str
    key: str
    roles: Mapping[str, str]
    is_trusted: bool = False

    def role(self, project: str | None = None) -> str | None:
        """Return their role in a project, or in all projects; None if they have none."""
        held = {self.roles.get(EVERY), self.roles.get(project or EVERY)} - {None}
        return max((role for role in held if role), key=ROLES.index, default=None)

    def may(self, role: str, project: str | None = None) -> bool:
        """Whether they may do what a role may, in a project or in all projects."""
        held = self.role(project)
        return held is not None and ROLES.index(held) >= ROLES.index(role)

    def may_anywhere(self, role: str) -> bool:
        """Whether they may do what a role may in at least one project."""
        return any(ROLES.index(held) >= ROLES.index(role) for held in self.roles.values())

    def acts_for_others(self, project: str) -> bool:
        """Whether they may create jobs for others in a project, and change those of others."""
        return self.is_trusted or self.may("developer", project)


class Person(Value, frozen=True):
    """A person whom an issuer vouches for.

    Attributes:
        subject: Who they are there, for good (OpenID Connect Core 1.0, section 2).
        name: What they are called now.
        groups: Their groups.
    """

    subject: str
    name: str
    groups: tuple[str, ...]


def key_of(name: str) -> str:
    """Return the key of those who have tokens of a name: no key of an issuer's begins so."""
    return f"token:{name}"


def key_of_person(issuer: str, subject: str) -> str:
    """Return the key of a person for whom an issuer vouches, whose address has no space."""
    return f"{issuer} {subject}"


def create(store: Store, name: str, role: str, days: int | None, project: str | None = None) -> tuple[Row, str]:
    """Store a new token; return it, and its text, which is not stored.

    Args:
        store: Where.
        name: Who it is for.
        role: What they may do.
        days: How long it is valid; None for no limit.
        project: In which project; None for all.
    """
    text = PREFIX + secrets.token_urlsafe(32)
    expires = None
    if days is not None:
        expires = as_text(datetime.now(UTC) + timedelta(days=days))
    row = {
        "id": secrets.token_hex(6),
        "digest": _digest(text),
        "name": name,
        "role": role,
        "project": project,
        "created": now(),
        "expires": expires,
        "last_used": None,
    }
    store.add_token(row)
    return row, text


def caller(store: Store, text: str) -> Caller | None:
    """Return who a token belongs to; None if there is no such token, or it has expired."""
    return caller_of(store, store.token(_digest(text)) if text.startswith(PREFIX) else None)


def identifier(store: Store, text: str) -> str | None:
    """Return the id of a valid token; None if there is no such token, or it has expired."""
    row = store.token(_digest(text)) if text.startswith(PREFIX) else None
    return row["id"] if row is not None and caller_of(store, row) else None


def caller_of(store: Store, row: Row | None) -> Caller | None:
    """Return who a stored token belongs to; None without one, or if it has expired."""
    time = now()
    if row is None or (row["expires"] is not None and row["expires"] <= time):
        return None
    if row["last_used"] is None or _seconds_between(row["last_used"], time) > _USE_SECONDS:
        store.use_token(row["id"])
    return Caller(row["name"], key_of(row["name"]), {row["project"] or EVERY: row["role"]})


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _seconds_between(earlier: str, later: str) -> float:
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()

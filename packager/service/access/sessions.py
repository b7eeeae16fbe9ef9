"""The sessions of the page: stored, and identified by cookies that are encrypted with the server's key.

A stored session contains the id of the token with which its owner has signed in, or the person from the issuer.

Tests: service/page/test_sign_in.py.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import secrets
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from packager.base.errors import ToolError
from packager.base.values import Fields, as_plain, convert
from packager.service.access import tokens
from packager.service.access.sign_in import Attempt, Signed
from packager.service.failures import Failure
from packager.service.times import as_text

if TYPE_CHECKING:
    from packager.service.access.sign_in import Client
    from packager.service.access.tokens import Caller
    from packager.service.sealing import Sealer
    from packager.service.store.store import Store

COOKIE = "mlpack_session"
"""The name of the cookie of a session."""

ATTEMPT_COOKIE = "mlpack_sign_in"
"""The name of the cookie of an attempt to sign in with the issuer."""

SECONDS = 12 * 60 * 60
"""Seconds after which a session ends."""

# Content encrypted for one purpose cannot be read for another. No job has these names: releases end with six digits.
_SESSION = "session"
_ATTEMPT = "sign-in"
_LONGEST = {_SESSION: 512, _ATTEMPT: 4096}


class SignedWithToken(Fields, frozen=True):
    """A person who has signed in with a token, by the id of the token."""

    token: str

    @property
    def owner(self) -> str:
        """The owner of the session; no address of an issuer begins with `token:`."""
        return f"token:{self.token}"


class _SessionCookie(Fields, frozen=True):
    """The content of the cookie of a session: its identifier, and when it ends, in seconds since 1970."""

    session: str
    until: int


class Sessions:
    """The sessions of a server.

    Args:
        sealer: Encrypts cookies.
        store: The stored tokens and sessions.
        client: The client at the issuer; None without an issuer.
    """

    def __init__(self, sealer: Sealer, store: Store, client: Client | None) -> None:
        self._sealer = sealer
        self._store = store
        self._client = client
        self._renewals: dict[str, asyncio.Task[Signed | None]] = {}

    def begin_with_token(self, text: str) -> str | None:
        """Begin a session with a token, and return its cookie; None if the token is not valid."""
        identifier = tokens.identifier(self._store, text)
        return None if identifier is None else self._begin(SignedWithToken(identifier))

    def begin(self, signed: Signed) -> str:
        """Begin a session of a person from the issuer, and return its cookie."""
        return self._begin(signed)

    def _begin(self, signed: Signed | SignedWithToken) -> str:
        identifier = secrets.token_hex(16)
        now = datetime.fromtimestamp(time.time(), UTC)
        until = now + timedelta(seconds=SECONDS)
        sealed, owner = self._sealed(signed, identifier), hashlib.sha256(signed.owner.encode()).hexdigest()
        self._store.sessions.add(identifier, owner, sealed, as_text(until), as_text(now))
        return self._cookie(_SessionCookie(session=identifier, until=int(until.timestamp())), _SESSION)

    async def caller(self, cookie: str) -> Caller | None:
        """Return the caller of a session; None if the session has ended or cannot be renewed.

        Raises:
            Failure: The issuer cannot be reached, or the groups of the person no longer have a role.
        """
        content = self._session(cookie)
        if content is None or content.until <= time.time():
            return None
        stored = await asyncio.to_thread(self._stored, content.session)
        if isinstance(stored, SignedWithToken):
            return await asyncio.to_thread(self._caller_of_token, stored.token)
        signed = await self._vouched(content.session, stored)
        if signed is None or self._client is None:
            return None
        try:
            return self._client.caller(signed)
        except Failure:  # the configuration has changed since
            await asyncio.to_thread(self._store.sessions.remove, content.session)
            raise

    def end(self, cookie: str) -> bool:
        """End a session; return whether its owner had signed in with the issuer."""
        content = self._session(cookie)
        if content is None:
            return False
        is_of_issuer = isinstance(self._stored(content.session), Signed)
        self._store.sessions.remove(content.session)
        return is_of_issuer

    def attempt_cookie(self, attempt: Attempt) -> str:
        """Return the cookie of an attempt to sign in with the issuer."""
        return self._cookie(attempt, _ATTEMPT)

    def attempt(self, cookie: str) -> Attempt | None:
        """Return the attempt in a cookie; None if this server has not made the cookie."""
        content = self._content(cookie, _ATTEMPT)
        return None if content is None else convert(content, Attempt)

    def _caller_of_token(self, identifier: str) -> Caller | None:
        return tokens.caller_of(self._store, self._store.tokens.by_id(identifier))

    async def _vouched(self, identifier: str, signed: Signed | None) -> Signed | None:
        """Return the person of a session, renewed when due; None if the session has ended. Raises Failure."""
        if signed is None or self._client is None or signed.until > time.time():
            return signed
        renewal = self._renewals.get(identifier)
        if renewal is None:  # a refresh token may be valid once: concurrent requests share the renewal
            renewal = asyncio.create_task(self._renewed(identifier, self._client))
            self._renewals[identifier] = renewal
            renewal.add_done_callback(lambda _: self._renewals.pop(identifier, None))
        return await asyncio.shield(renewal)

    async def _renewed(self, identifier: str, client: Client) -> Signed | None:
        """Renew the person of a session with the issuer, and return it as `_vouched` does. Raises Failure."""
        signed = await asyncio.to_thread(self._signed, identifier)
        if signed is None or signed.until > time.time():  # another request has renewed it since
            return signed
        try:
            renewed = await client.renew(signed)
        except Failure as failure:
            if failure.kind == "issuer-unreachable":
                raise
            current = await asyncio.to_thread(self._signed, identifier)
            if current is not None and current.until > time.time():  # another replica has renewed it since
                return current
            await asyncio.to_thread(self._store.sessions.remove, identifier)
            if failure.kind == "forbidden":
                raise
            return None
        is_kept = await asyncio.to_thread(self._store.sessions.change, identifier, self._sealed(renewed, identifier))
        return renewed if is_kept else None

    def _signed(self, identifier: str) -> Signed | None:
        stored = self._stored(identifier)
        return stored if isinstance(stored, Signed) else None

    def _stored(self, identifier: str) -> Signed | SignedWithToken | None:
        """Return a session; None if it has ended."""
        sealed = self._store.sessions.content(identifier)
        try:
            content = None if sealed is None else self._sealer.open(sealed, f"{_SESSION} {identifier}")
        except ToolError:  # the key has changed since
            return None
        if content is None:
            return None
        return convert(content, SignedWithToken) if "token" in content else convert(content, Signed)

    def _sealed(self, signed: Signed | SignedWithToken, identifier: str) -> bytes:
        return self._sealer.seal(as_plain(signed), f"{_SESSION} {identifier}")

    def _cookie(self, content: Fields, purpose: str) -> str:
        return base64.urlsafe_b64encode(self._sealer.seal(as_plain(content), purpose)).decode()

    def _session(self, cookie: str) -> _SessionCookie | None:
        content = self._content(cookie, _SESSION)
        return None if content is None else convert(content, _SessionCookie)

    def _content(self, cookie: str, purpose: str) -> object:
        """Return the content of a cookie; None if this server has not made the cookie for this purpose."""
        if not 0 < len(cookie) <= _LONGEST[purpose]:
            return None
        try:
            return self._sealer.open(base64.urlsafe_b64decode(cookie), purpose)
        except (binascii.Error, ValueError, ToolError):
            return None

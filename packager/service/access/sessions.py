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
from datetime import UTC, datetime
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
_SESSION = "page-session"  # the content of `session` had a refresh token
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

    def begin_with_token(self, text: str) -> str | None:
        """Begin a session with a token, and return its cookie; None if the token is not valid."""
        identifier = tokens.identifier(self._store, text)
        return None if identifier is None else self._begin(SignedWithToken(identifier), time.time() + SECONDS)

    def begin(self, signed: Signed) -> str:
        """Begin a session of a person from the issuer, until the ID token expires, and return its cookie."""
        return self._begin(signed, min(signed.until, time.time() + SECONDS))

    def _begin(self, signed: Signed | SignedWithToken, until: float) -> str:
        identifier = secrets.token_hex(16)
        sealed = self._sealer.seal(as_plain(signed), f"{_SESSION} {identifier}")
        owner = hashlib.sha256(signed.owner.encode()).hexdigest()
        ends, now = (as_text(datetime.fromtimestamp(moment, UTC)) for moment in (until, time.time()))
        self._store.sessions.add(identifier, owner, sealed, ends, now)
        return self._cookie(_SessionCookie(session=identifier, until=int(until)), _SESSION)

    async def caller(self, cookie: str) -> Caller | None:
        """Return the caller of a session; None if the session has ended.

        Raises:
            Failure: The configuration no longer has the person's issuer, or gives the person no role.
        """
        content = self._session(cookie)
        if content is None or content.until <= time.time():
            return None
        stored = await asyncio.to_thread(self._stored, content.session)
        if isinstance(stored, SignedWithToken):
            return await asyncio.to_thread(self._caller_of_token, stored.token)
        if stored is None or self._client is None:
            return None
        try:
            return self._client.caller(stored)
        except Failure:
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

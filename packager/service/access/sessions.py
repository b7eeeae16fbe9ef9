"""The sessions of the page: a cookie, encrypted and authenticated with the server's key.

The cookie of a person who has signed in with a token names the token. That of a person for whom an issuer vouches names
a stored session.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import secrets
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from packager.base.errors import ToolError
from packager.base.values import as_plain, convert
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
"""The name of the cookie of a person who is at the issuer."""

SECONDS = 12 * 60 * 60
"""How long a session lasts at most."""

# What was encrypted for one purpose is nothing for another one; no job is called so: a release ends with six digits.
_SESSION = "session"
_ATTEMPT = "sign-in"
_LONGEST = {_SESSION: 512, _ATTEMPT: 4096}


class Sessions:
    """The sessions of a server.

    Args:
        sealer: Encrypts cookies.
        store: What tokens and sessions there are.
        client: Asks the issuer who vouches for people; None without one.
    """

    def __init__(self, sealer: Sealer, store: Store, client: Client | None) -> None:
        self._sealer = sealer
        self._store = store
        self._client = client
        self._renewals: dict[str, asyncio.Task[Signed | None]] = {}

    def begin_with_token(self, text: str) -> str | None:
        """Return the cookie for the token of a text; None if the token is not valid."""
        identifier = tokens.identifier(self._store, text)
        if identifier is None:
            return None
        return self._cookie({"token": identifier, "until": int(time.time()) + SECONDS}, _SESSION)

    def begin(self, signed: Signed) -> str:
        """Return the cookie for a person for whom the issuer vouches."""
        identifier = secrets.token_hex(16)
        now = datetime.fromtimestamp(time.time(), UTC)
        until = now + timedelta(seconds=SECONDS)
        self._store.sessions.add(identifier, self._sealed(signed, identifier), as_text(until), as_text(now))
        return self._cookie({"session": identifier, "until": int(until.timestamp())}, _SESSION)

    async def caller(self, cookie: str) -> Caller | None:
        """Return who has a session; None if it has ended, or no one vouches for them any more.

        Raises:
            Failure: The issuer cannot be asked, or gives them no role any more.
        """
        content = self._content(cookie, _SESSION)
        if content is None or content["until"] <= time.time():
            return None
        if "token" in content:
            return await asyncio.to_thread(self._caller_of_token, content["token"])
        signed = await self._vouched(content["session"])
        if signed is None or self._client is None:
            return None
        try:
            return self._client.caller(signed)
        except Failure:  # the configuration is another one since
            await asyncio.to_thread(self._store.sessions.remove, content["session"])
            raise

    def end(self, cookie: str) -> bool:
        """End a session; return whether the issuer has vouched for its owner."""
        content = self._content(cookie, _SESSION)
        if content is None or "session" not in content:
            return False
        self._store.sessions.remove(content["session"])
        return True

    def attempt_cookie(self, attempt: Attempt) -> str:
        """Return the cookie for a person who goes to the issuer."""
        return self._cookie(as_plain(attempt), _ATTEMPT)

    def attempt(self, cookie: str) -> Attempt | None:
        """Return what a browser has kept while its user was at the issuer; None if nothing of this server."""
        content = self._content(cookie, _ATTEMPT)
        return None if content is None else convert(content, Attempt)

    def _caller_of_token(self, identifier: str) -> Caller | None:
        return tokens.caller_of(self._store, self._store.token_by_id(identifier))

    async def _vouched(self, identifier: str) -> Signed | None:
        """Return whom a session belongs to, as the issuer says; None if it has ended. Raises Failure."""
        signed = await asyncio.to_thread(self._signed, identifier)
        if signed is None or self._client is None or signed.until > time.time():
            return signed
        renewal = self._renewals.get(identifier)
        if renewal is None:  # a refresh token may be good for one use: requests at the same time share it
            renewal = asyncio.create_task(self._renewed(identifier, self._client))
            self._renewals[identifier] = renewal
            renewal.add_done_callback(lambda _: self._renewals.pop(identifier, None))
        return await asyncio.shield(renewal)

    async def _renewed(self, identifier: str, client: Client) -> Signed | None:
        """Return the same as `_vouched`, after asking the issuer."""
        signed = await asyncio.to_thread(self._signed, identifier)
        if signed is None or signed.until > time.time():  # another request has asked since
            return signed
        try:
            renewed = await client.renew(signed)
        except Failure as failure:
            if failure.kind == "issuer-unreachable":
                raise
            current = await asyncio.to_thread(self._signed, identifier)
            if current is not None and current.until > time.time():  # another replica has asked since
                return current
            await asyncio.to_thread(self._store.sessions.remove, identifier)
            if failure.kind == "forbidden":
                raise
            return None
        is_kept = await asyncio.to_thread(self._store.sessions.change, identifier, self._sealed(renewed, identifier))
        return renewed if is_kept else None

    def _signed(self, identifier: str) -> Signed | None:
        sealed = self._store.sessions.content(identifier)
        try:
            return None if sealed is None else convert(self._sealer.open(sealed, f"{_SESSION} {identifier}"), Signed)
        except ToolError:  # the key is another one since
            return None

    def _sealed(self, signed: Signed, identifier: str) -> bytes:
        return self._sealer.seal(as_plain(signed), f"{_SESSION} {identifier}")

    def _cookie(self, content: dict[str, Any], purpose: str) -> str:
        return base64.urlsafe_b64encode(self._sealer.seal(content, purpose)).decode()

    def _content(self, cookie: str, purpose: str) -> Any:
        """Return what is in a cookie; None if this server has not made it for this purpose."""
        if not 0 < len(cookie) <= _LONGEST[purpose]:
            return None
        try:
            return self._sealer.open(base64.urlsafe_b64decode(cookie), purpose)
        except (binascii.Error, ValueError, ToolError):
            return None

"""The sessions of the page: cookies, encrypted with the server's key.

A cookie contains the id of the token with which its owner has signed in, or the person from the issuer.
Tests: service/page/test_sign_in.py.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
from typing import TYPE_CHECKING

from packager.base.errors import ToolError
from packager.base.values import Fields, FieldsError, as_plain, convert
from packager.service.access import tokens
from packager.service.access.sign_in import Attempt, Signed

if TYPE_CHECKING:
    from packager.base.values import FieldsType
    from packager.service.access.sign_in import Client
    from packager.service.access.tokens import Caller
    from packager.service.sealing import Sealer
    from packager.service.store.store import Store

COOKIE = "mlpack_session"
"""The name of the cookie of a session."""

ATTEMPT_COOKIE = "mlpack_sign_in"
"""The name of the cookie of an attempt to sign in with the issuer."""

SECONDS = 12 * 60 * 60
"""Seconds after which a session that began with a token ends."""

# Content encrypted for one purpose cannot be read for another. No job has these names: releases end with six digits.
_PURPOSES: dict[type[Fields], str] = {Signed: "person", Attempt: "sign-in"}
_LONGEST = 4096


class SignedWithToken(Fields, frozen=True):
    """A person who has signed in with a token, by the id of the token, and when the session ends."""

    token: str
    until: int


_PURPOSES[SignedWithToken] = "token"


class Sessions:
    """The sessions of a server."""

    def __init__(self, sealer: Sealer, store: Store, client: Client | None) -> None:
        self._sealer = sealer
        self._store = store
        self._client = client

    def begin_with_token(self, text: str) -> tuple[Caller, str] | None:
        """Return the caller and the cookie of a session that begins with a token; None if the token is not valid."""
        row = tokens.of_text(self._store, text)
        if row is None or (caller := tokens.caller_of(self._store, row)) is None:
            return None
        return caller, self.cookie(SignedWithToken(token=row.id, until=int(time.time()) + SECONDS))

    def cookie(self, content: Fields) -> str:
        """Return the cookie of a session, or of an attempt to sign in."""
        sealed = self._sealer.seal(as_plain(content), _PURPOSES[type(content)])
        return base64.urlsafe_b64encode(sealed).decode()

    async def caller(self, cookie: str) -> Caller | None:
        """Return the caller of a session; None if the session has ended. Raises Failure."""
        by_token = self.read(cookie, SignedWithToken)
        if by_token is not None:
            row = await asyncio.to_thread(self._store.tokens.by_id, by_token.token)
            is_over = by_token.until <= time.time()
            return None if is_over else await asyncio.to_thread(tokens.caller_of, self._store, row)
        signed = self.read(cookie, Signed)
        if signed is None or self._client is None or signed.until <= time.time():
            return None
        return self._client.caller(signed)

    def read(self, cookie: str, kind: type[FieldsType]) -> FieldsType | None:
        """Return the content of a cookie; None if this server has not made the cookie for this purpose."""
        if not 0 < len(cookie) <= _LONGEST:
            return None
        try:
            return convert(self._sealer.open(base64.urlsafe_b64decode(cookie), _PURPOSES[kind]), kind)
        except (binascii.Error, ValueError, ToolError, FieldsError):
            return None

"""The sessions of the page: a cookie that names a token, encrypted and authenticated with the server's key."""

from __future__ import annotations

import base64
import binascii
import time
from typing import TYPE_CHECKING

from packager.base.errors import ToolError
from packager.service import tokens

if TYPE_CHECKING:
    from packager.service.sealing import Sealer
    from packager.service.store.store import Store
    from packager.service.tokens import Caller

COOKIE = "mlpack_session"
"""The name of the cookie."""

SECONDS = 12 * 60 * 60
"""How long a session lasts."""

_PURPOSE = "session"  # no job is called so: a release ends with six digits
_LONGEST = 512


def begin(sealer: Sealer, store: Store, text: str) -> str | None:
    """Return the value of the cookie for the token of a text; None if the token is not valid."""
    identifier = tokens.identifier(store, text)
    if identifier is None:
        return None
    sealed = sealer.seal({"token": identifier, "until": int(time.time()) + SECONDS}, _PURPOSE)
    return base64.urlsafe_b64encode(sealed).decode()


def caller(sealer: Sealer, store: Store, cookie: str) -> Caller | None:
    """Return who has a session; None if it has ended, or its token was removed or has expired."""
    if not 0 < len(cookie) <= _LONGEST:
        return None
    try:
        content = sealer.open(base64.urlsafe_b64decode(cookie), _PURPOSE)
    except (binascii.Error, ValueError, ToolError):
        return None
    if content["until"] <= time.time():
        return None
    return tokens.caller_of(store, store.token_by_id(content["token"]))

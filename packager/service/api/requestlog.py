"""The log of requests: a line for each that changes something or is refused, with who has made it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from litestar.types import HTTPScope

    from packager.service.access.tokens import Caller
    from packager.service.failures import Failure
    from packager.service.server import Server

_KEY = "mlpack"
_SAFE = ("GET", "HEAD", "OPTIONS")
_MOST = 1_000
"""How many characters of a path, and of why a request is refused, are in a line: anyone may send 64 KiB of them."""


@dataclass(slots=True)
class Notes:
    """What becomes known of a request while it is answered.

    Attributes:
        request: Its id, which is in the problem that answers it, too.
        caller: Who has made it; None if that is not known.
        refusal: Why it is refused; empty if it is not.
    """

    request: str = field(default_factory=lambda: secrets.token_hex(8))
    caller: Caller | None = None
    refusal: str = ""

    def refuse(self, failure: Failure) -> None:
        """Note why the request is refused."""
        self.refusal = f"{failure.kind}: {failure}"

    def as_fields(self) -> dict[str, str]:
        """Return what lines of the log say of the request."""
        who = {} if self.caller is None else {"caller": self.caller.name, "key": self.caller.key}
        return {"request": self.request, **who}


def begin(scope: HTTPScope) -> Notes:
    """Return the notes on a request, which has none yet."""
    notes = Notes()
    scope[_KEY] = notes  # type: ignore[literal-required]
    return notes


def notes_of(scope: Any) -> Notes:
    """Return the notes on a request."""
    notes: Notes = scope[_KEY]
    return notes


def write(server: Server, scope: HTTPScope, start: Any) -> None:
    """Write the line of a request, if it changes something or is refused.

    Args:
        server: The server.
        scope: The request.
        start: The beginning of its answer; the address of what was made is in its headers.
    """
    notes, status = notes_of(scope), start["status"]
    if scope["method"] in _SAFE and status < 400:
        return
    place = next((value.decode("latin-1") for name, value in start["headers"] if name.lower() == b"location"), "")
    parts = (f"{scope['method']} {scope['path']}"[:_MOST], f"{status} {notes.refusal or place}".rstrip()[:_MOST])
    server.log(": ".join(parts), **notes.as_fields())

"""The log of requests: a line with the caller for each request that changes something or is refused."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from litestar.types import HTTPScope, Scope
    from litestar.types.asgi_types import HTTPResponseStartEvent

    from packager.service.access.tokens import Caller
    from packager.service.failures import Failure
    from packager.service.server import Server

_KEY = "mlpack"
_SAFE = ("GET", "HEAD", "OPTIONS")
_MOST = 1_000
"""The most characters of a path, and of the reason of a refusal, in a line: anyone may send a path of 64 KiB."""


@dataclass(slots=True)
class Notes:
    """The notes on a request, for the log and for its problem."""

    # the id of the request, which is also in the problem that answers the request
    request: str = field(default_factory=lambda: secrets.token_hex(8))
    caller: Caller | None = None  # the caller; None if not identified
    refusal: str = ""  # the reason of a refusal; empty for a request that is not refused

    def refuse(self, failure: Failure) -> None:
        """Store the reason of a refusal."""
        self.refusal = f"{failure.kind}: {failure}"

    def as_fields(self) -> dict[str, str]:
        """Return the fields of log lines about the request."""
        who = {} if self.caller is None else {"caller": self.caller.name, "key": self.caller.key}
        return {"request": self.request, **who}


def begin(scope: HTTPScope) -> Notes:
    """Create the notes on a request, and return them."""
    notes = Notes()
    scope.setdefault("state", {})[_KEY] = notes
    return notes


def notes_of(scope: Scope) -> Notes:
    """Return the notes on a request."""
    notes: Notes = scope["state"][_KEY]
    return notes


def write(server: Server, scope: HTTPScope, start: HTTPResponseStartEvent) -> None:
    """Write the line of a request, if it changes something or is refused.

    Args:
        server: The server.
        scope: The request.
        start: The start of the answer, with the address of a new resource in the header Location.
    """
    notes, status = notes_of(scope), start["status"]
    if scope["method"] in _SAFE and status < 400:
        return
    place = next((value.decode("latin-1") for name, value in start["headers"] if name.lower() == b"location"), "")
    parts = (f"{scope['method']} {scope['path']}"[:_MOST], f"{status} {notes.refusal or place}".rstrip()[:_MOST])
    server.log(": ".join(parts), **notes.as_fields())

"""Serves below a prefix such as `/mlpack`: removes it from paths of requests, and adds it to locations in answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from litestar.types import HTTPScope
    from litestar.types.asgi_types import HTTPResponseStartEvent


def without(scope: HTTPScope, root: str) -> HTTPScope:
    """Return a request without the prefix in its path; a proxy may already have removed the prefix.

    Args:
        scope: The request.
        root: The prefix; empty for none.
    """
    path, raw = scope["path"], scope["raw_path"]
    if not root or not f"{path}/".startswith(f"{root}/"):
        return scope
    raw = raw.removeprefix(root.encode())
    return {**scope, "path": path.removeprefix(root) or "/", "raw_path": raw or b"/"}


def below(message: HTTPResponseStartEvent, root: str) -> HTTPResponseStartEvent:
    """Return the start of an answer, with the prefix added to a location on this server."""
    if not root:
        return message
    headers = [
        (name, root.encode() + value if name == b"location" and value[:1] == b"/" != value[1:2] else value)
        for name, value in message.get("headers", ())
    ]
    return {**message, "headers": headers}

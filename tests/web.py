"""HTTP servers of tests on this machine: any handler, or one with fixed answers."""

from __future__ import annotations

import json
import ssl
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def answering(handler: type[BaseHTTPRequestHandler], certificate: tuple[str, str] | None = None) -> Iterator[int]:
    """Yield the port of an HTTP server that answers with `handler`, by TLS if there is a certificate and its key."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


class Request(NamedTuple):
    """A request that arrived."""

    path: str
    headers: dict[str, str]

    @property
    def authorization(self) -> str | None:
        """The header that has the secret."""
        return self.headers.get("Authorization")


class Web:
    """A server of fixed answers, which sends the rest of them if it is asked for a Range.

    Attributes:
        url: The address.
        answers: The status, headers and content for each path. With an Authorization, `PATH allowed` is the path for
            one that asks for it.
        reasons: The words after the status, by path.
        allows: The Authorization that is needed for a path; without an entry, any is enough.
        requests: The requests, in order.
        breaks: After how many bytes each answer breaks off, from the first one on.
    """

    def __init__(self) -> None:
        self.url = ""
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.reasons: dict[str, str] = {}
        self.allows: dict[str, str | None] = {}
        self.requests: list[Request] = []
        self.breaks: list[int] = []

    def put(self, path: str, content: object, status: int = 200, **headers: str) -> None:
        """Set the answer for a path: bytes, or a value that becomes JSON."""
        given = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.answers[path] = status, headers, given

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer a request."""
        request = Request(handler.path, dict(handler.headers))
        self.requests.append(request)
        status, headers, content = self.answers.get(request.path, (404, {}, b""))
        allowed = self.allows.get(request.path) or request.authorization
        if "WWW-Authenticate" in headers and allowed and request.authorization == allowed:
            status, headers, content = self.answers[f"{request.path} allowed"]
        begin = int((request.headers.get("Range") or "bytes=0-")[6:].partition("-")[0])
        if begin and status == 200:
            status, headers = 206, {**headers, "Content-Range": f"bytes {begin}-{len(content) - 1}/{len(content)}"}
        handler.send_response(status, self.reasons.get(request.path))
        for name, value in {"Content-Length": str(len(content) - begin), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        if handler.command == "HEAD":
            return
        end = begin + self.breaks.pop(0) if self.breaks else None
        with suppress(OSError):  # the client closes the connection before it is all sent
            handler.wfile.write(content[begin:end])


@contextmanager
def serving(certificate: tuple[str, str] | None = None) -> Iterator[Web]:
    """Yield a running server of fixed answers."""
    web = Web()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            web.answer(self)

        do_HEAD = do_GET  # noqa: N815 - the name is given

        def log_message(self, *_arguments: object) -> None:
            return

    with answering(Handler, certificate) as port:
        web.url = f"{'https' if certificate else 'http'}://localhost:{port}"
        yield web

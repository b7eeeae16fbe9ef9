"""A registry of packages on 127.0.0.1, without TLS, that sends the responses a test sets."""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

from packager.publish.artefact import LAYER
from packager.publish.registry import MANIFEST
from tests.web import answering

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Answer = tuple[int, dict[str, str], bytes]


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class FakeRegistry:
    """The content and the received requests of a registry.

    Attributes:
        host: The host and the port of the registry.
        answers: Functions by path that return the response in place of the content.
        requests: The path and the header Authorization of each request.
        asks_for: The required authentication: `basic`, the realm of tokens, or None.
    """

    def __init__(self) -> None:
        self.host = ""
        self.contents: dict[str, tuple[str, bytes]] = {}
        self.answers: dict[str, Callable[[], Answer]] = {}
        self.requests: list[tuple[str, str | None]] = []
        self.asks_for: str | None = None

    def push(self, repository: str, tag: str, content: bytes, **changes: Any) -> str:
        """Store a package with a tag, and return the digest of its manifest."""
        layer = {"mediaType": LAYER, "digest": digest_of(content), "size": len(content)} | changes
        empty = {"mediaType": "application/vnd.oci.empty.v1+json", "digest": digest_of(b"{}"), "size": 2}
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": empty, "layers": [layer]}
        self.contents[f"/v2/{repository}/blobs/{layer['digest']}"] = ("application/octet-stream", content)
        return self.put(repository, tag, json.dumps(manifest).encode())

    def put(self, repository: str, tag: str, manifest: bytes) -> str:
        """Store a manifest with a tag, and return its digest."""
        for name in (tag, digest_of(manifest)):
            self.contents[f"/v2/{repository}/manifests/{name}"] = (MANIFEST, manifest)
        return digest_of(manifest)

    def answer(self, path: str, authorization: str | None) -> Answer:
        self.requests.append((path, authorization))
        bare = path.partition("?")[0]
        if bare in self.answers:
            return self.answers[bare]()
        if bare == "/token":
            return 200, {}, json.dumps({"token": "issued"}).encode()
        if self.asks_for == "basic" and not (authorization or "").startswith("Basic "):
            return 401, {"WWW-Authenticate": 'Basic realm="registry"'}, b"{}"
        if self.asks_for not in (None, "basic") and authorization != "Bearer issued":
            return 401, {"WWW-Authenticate": f'Bearer realm="{self.asks_for}",service="registry",scope="x"'}, b"{}"
        if bare in self.contents:
            kind, content = self.contents[bare]
            return 200, {"Content-Type": kind}, content
        return 404, {}, b'{"errors": []}'


@contextmanager
def registry() -> Iterator[FakeRegistry]:
    """Yield a running registry."""
    fake = FakeRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, content = fake.answer(self.path, self.headers.get("Authorization"))
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(OSError):  # the client refuses what is too long before it is all sent
                self.wfile.write(content)

        def log_message(self, *_arguments: Any) -> None:
            return

    with answering(Handler) as port:
        fake.host = f"127.0.0.1:{port}"
        yield fake

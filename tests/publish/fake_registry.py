"""A registry on 127.0.0.1 that takes and gives packages, and misbehaves as a test asks."""

from __future__ import annotations

import hashlib
import json
import socket
import ssl
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Fault = Callable[["Handler"], bool]

USER, PASSWORD = "robot", "pa55-word"
IDENTITY_TOKEN, REGISTRY_TOKEN = "refresh-it", "issued-token"


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class FakeRegistry:
    """The content of a registry, its received requests, and its faults.

    Attributes:
        url: The address of the registry.
        asks_for: `basic` or `bearer`; None for a registry that asks for nothing.
        fault: Is called for each request with its number, from 0 on, before it is answered; true if it has answered.
        requests: The method, the path and the header Authorization of each request.
        blobs: The blobs by digest.
        manifests: The manifests by repository and by tag or digest.
        redirect: The address of a server that has the blobs; None for this one.
        echo: Whether errors repeat the received header Authorization.
        uses: How often a token is accepted; None for always.
        has_referrers: Whether it lists the manifests that refer to another one.
        lists_configs: Whether it lists these with the types of their configs, as go-containerregistry does.
    """

    def __init__(self) -> None:
        self.url = ""
        self.asks_for: str | None = None
        self.fault: Callable[[Handler, int], bool] = lambda _handler, _number: False
        self.requests: list[tuple[str, str, str | None]] = []
        self.forms: list[dict[str, list[str]]] = []
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[tuple[str, str], bytes] = {}
        self.uploads: dict[str, bytearray] = {}
        self.redirect: str | None = None
        self.echo = False
        self.uses: int | None = None
        self.has_referrers = False
        self.lists_configs = False
        self.lock = threading.Lock()

    @property
    def host(self) -> str:
        return self.url.partition("://")[2]

    def put(self, repository: str, version: str, manifest: bytes) -> str:
        """Store a manifest, and return its digest."""
        for name in (version, digest_of(manifest)):
            self.manifests[repository, name] = manifest
        return digest_of(manifest)

    def artefact(self, repository: str, version: str) -> bytes | None:
        """Return the layer of an artefact that is whole; None without the manifest. Fails for a part of one."""
        manifest = self.manifests.get((repository, version))
        if manifest is None:
            return None
        content = json.loads(manifest)
        for blob in (content["config"], *content["layers"]):
            assert digest_of(self.blobs[blob["digest"]]) == blob["digest"]
            assert len(self.blobs[blob["digest"]]) == blob["size"]
        return self.blobs[content["layers"][0]["digest"]]


class Handler(BaseHTTPRequestHandler):
    """Answers requests."""

    protocol_version = "HTTP/1.1"
    registry: FakeRegistry
    digest: str | None = None
    cut_body: int | None = None

    def do(self) -> None:
        registry = self.registry
        self.digest, self.cut_body = None, None
        length = int(self.headers.get("Content-Length") or 0)
        with registry.lock:
            number = len(registry.requests)
            registry.requests.append((self.command, self.path, self.headers.get("Authorization")))
        if registry.fault(self, number):
            self.close_connection = True
            return
        body = self.rfile.read(length)
        if len(body) == length and self.is_allowed():
            self.route(body)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do  # noqa: N815 - the names of http.server

    def is_allowed(self) -> bool:
        """Whether the request has the credentials; otherwise, ask for them."""
        registry, sent = self.registry, self.headers.get("Authorization")
        if registry.asks_for is None or self.path.startswith("/token"):
            return True
        if registry.asks_for == "basic":
            import base64

            pair = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            if sent == f"Basic {pair}":
                return True
            challenge = 'Basic realm="registry"'
        else:
            if sent == f"Bearer {REGISTRY_TOKEN}":
                if registry.uses is None:
                    return True
                registry.uses -= 1
                if registry.uses >= 0:
                    return True
                registry.uses = 3
            challenge = f'Bearer realm="{registry.url}/token",service="registry",scope="repository:x:pull"'
        self.refuse(401, f"go away {sent}" if registry.echo else "go away", {"WWW-Authenticate": challenge})
        return False

    def route(self, body: bytes) -> None:
        registry = self.registry
        parts = urlsplit(self.path)
        query = parse_qs(parts.query)
        if parts.path == "/token":
            registry.forms.append(parse_qs(body.decode()) or query)
            self.answer(200, json.dumps({"token": REGISTRY_TOKEN}).encode())
            return
        if parts.path == "/v2/":
            self.answer(200, b"{}")
            return
        repository, _, rest = parts.path.removeprefix("/v2/").partition("/manifests/")
        if rest:
            self.manifest(repository, rest, body)
            return
        if parts.path.endswith("/tags/list"):
            repository = parts.path.removeprefix("/v2/").removesuffix("/tags/list")
            tags = [tag for name, tag in registry.manifests if name == repository and ":" not in tag]
            self.answer(200, json.dumps({"name": repository, "tags": tags}).encode())
            return
        repository, _, rest = parts.path.removeprefix("/v2/").partition("/referrers/")
        if rest:
            self.referrers(repository, rest)
            return
        repository, _, rest = parts.path.removeprefix("/v2/").partition("/blobs/")
        if rest.startswith("uploads/"):
            self.upload(repository, rest.removeprefix("uploads/"), query, body)
        elif registry.redirect is not None:
            self.answer(307, b"", {"Location": f"{registry.redirect}/v2/{repository}/blobs/{rest}"})
        elif rest in registry.blobs:
            self.blob(registry.blobs[rest], rest)
        else:
            self.refuse(404, "blob unknown")

    def manifest(self, repository: str, version: str, body: bytes) -> None:
        registry = self.registry
        if self.command == "PUT":
            content = json.loads(body)
            blobs = [content["config"], *content["layers"]] if "config" in content else []
            if any(blob["digest"] not in registry.blobs for blob in blobs):
                self.refuse(400, "a blob is missing")
                return
            if any((repository, entry["digest"]) not in registry.manifests for entry in content.get("manifests", ())):
                self.refuse(400, "a manifest is missing")
                return
            registry.put(repository, version, body)
            headers = {"Docker-Content-Digest": digest_of(body), "Location": "/x"}
            if registry.has_referrers and "subject" in content:
                headers["OCI-Subject"] = content["subject"]["digest"]
            self.answer(201, b"", headers)
        elif (repository, version) in registry.manifests:
            self.blob(registry.manifests[repository, version], digest_of(registry.manifests[repository, version]))
        else:
            self.refuse(404, "manifest unknown")

    def referrers(self, repository: str, digest: str) -> None:
        if not self.registry.has_referrers:
            self.refuse(404, "page not found")
            return
        entries = [
            {
                "mediaType": content["mediaType"],
                "digest": version,
                "size": len(manifest),
                "artifactType": content["config"]["mediaType"]
                if self.registry.lists_configs
                else content["artifactType"],
                "annotations": content["annotations"],
            }
            for (name, version), manifest in self.registry.manifests.items()
            for content in [json.loads(manifest)]
            if name == repository and ":" in version and content.get("subject", {}).get("digest") == digest
        ]
        index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": entries}
        self.answer(200, json.dumps(index).encode())

    def blob(self, content: bytes, digest: str) -> None:
        start = 0
        if asked := self.headers.get("Range"):
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
        headers = {"Docker-Content-Digest": digest}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        self.answer(206 if start else 200, content[start:], headers)

    def upload(self, repository: str, name: str, query: dict[str, list[str]], body: bytes) -> None:
        uploads = self.registry.uploads
        if self.command == "POST":
            name = f"u{len(uploads)}"
            uploads[name] = bytearray()
            self.answer(202, b"", {"Location": f"/v2/{repository}/blobs/uploads/{name}?_state=secret-state"})
            return
        if name not in uploads:
            self.refuse(404, "upload unknown")
            return
        place = {"Location": f"/v2/{repository}/blobs/uploads/{name}?_state=secret-state"}
        if self.command == "GET":
            self.answer(204, b"", {**place, "Range": f"0-{max(len(uploads[name]) - 1, 0)}"})
        elif self.command == "PATCH":
            start = int(self.headers["Content-Range"].partition("-")[0])
            if start != len(uploads[name]):
                self.refuse(416, "out of order")
                return
            uploads[name] += body
            self.answer(202, b"", {**place, "Range": f"0-{len(uploads[name]) - 1}"})
        else:
            uploads[name] += body
            content = bytes(uploads.pop(name))
            digest = query["digest"][0]
            if digest_of(content) != digest:
                self.refuse(400, "digest invalid")
                return
            self.registry.blobs[digest] = content
            self.answer(201, b"", {"Docker-Content-Digest": digest, "Location": "/x"})

    def refuse(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        body = json.dumps({"errors": [{"code": "X", "message": message}]}).encode()
        self.answer(status, body, headers or {})

    def answer(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        every = {"Content-Length": str(len(body)), **(headers or {})}
        if self.digest is not None and "Docker-Content-Digest" in every:
            every["Docker-Content-Digest"] = self.digest
        self.send_response(status)
        for name, value in every.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.cut_body is not None and len(body) > self.cut_body:
            self.wfile.write(body[: self.cut_body])
            self.wfile.flush()
            cut(self)
            return
        self.wfile.write(body)

    def handle(self) -> None:
        with suppress(OSError):
            super().handle()

    def log_message(self, *_arguments: Any) -> None:
        return


def cut(handler: Handler) -> bool:
    """Close the connection without an answer."""
    handler.close_connection = True
    with suppress(OSError):
        handler.connection.shutdown(socket.SHUT_RDWR)
    return True


def status(code: int, **headers: str) -> Fault:
    """Return a fault: another status."""

    def fault(handler: Handler) -> bool:
        handler.refuse(code, "not now", {name.replace("_", "-"): value for name, value in headers.items()})
        return True

    return fault


def other_digest(handler: Handler) -> bool:
    """Claim another digest."""
    handler.digest = digest_of(b"other")
    return False


def short_body(handler: Handler) -> bool:
    """Cut the body of the answer off."""
    handler.cut_body = 10
    return False


def endless_body(handler: Handler) -> bool:
    """Answer with bytes that do not end."""
    handler.send_response(200)
    handler.end_headers()
    with suppress(OSError):
        while True:
            handler.wfile.write(bytes(1 << 16))
    return True


def silent(handler: Handler) -> bool:
    """Answer nothing for longer than the client waits."""
    time.sleep(0.2)
    return cut(handler)


def no_http(handler: Handler) -> bool:
    """Answer something that is not HTTP."""
    handler.wfile.write(b"SSH-2.0-x\r\n\r\n")
    return True


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_arguments: Any) -> None:
        return


@contextmanager
def serving(certificate: tuple[str, str] | None = None) -> Iterator[FakeRegistry]:
    """Yield a running registry.

    Args:
        certificate: The files of a certificate and its key; None for http.
    """
    registry = FakeRegistry()
    handler = type("BoundHandler", (Handler,), {"registry": registry})
    with _Server(("127.0.0.1", 0), handler) as server:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        registry.url = f"{'http' if certificate is None else 'https'}://localhost:{server.server_port}"
        try:
            yield registry
        finally:
            server.shutdown()
            thread.join()

"""Starts registries of other projects on this machine: Debian's, distribution's and go-containerregistry's.

The last two are built from their Go modules: `python -m tests.registries` does so, and runs the tests with them.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import socket
import ssl
import subprocess
import threading
import time
import uuid
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from tests import tools
from tests.certificates import self_signed
from tests.testbed import builds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

USER, PASSWORD = "user", "secret"
DEBIAN, DISTRIBUTION, REFERRERS = "docker-registry", "distribution", "go-containerregistry"
ANONYMOUS, BASIC, BEARER, TLS = "anonymous", "tls-basic", "tls-bearer", "tls"
MODES = (ANONYMOUS, BASIC, BEARER)
VARIABLE = "MLPACK_REGISTRIES"
"""The variable of the environment that adds the registries that have to be built."""

_SERVICE, _ISSUER = "registry", "tests"
_HTPASSWD = "user:$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n"  # bcrypt of "secret"
_VALIDITY = 60


@contextmanager
def serving(kind: str, mode: str, folder: Path, address: str = "127.0.0.1") -> Iterator[tuple[str, list[str]]]:
    """Yield the host of a running registry, and mlpack's options for it.

    Args:
        kind: One of DEBIAN, DISTRIBUTION and REFERRERS; the last one listens on 127.0.0.1 only.
        mode: One of MODES; or TLS, without passwords, of DEBIAN and DISTRIBUTION.
        folder: An empty folder for its files.
        address: The address of this machine that it listens on.
    """
    host = "localhost" if address == "127.0.0.1" else address
    files = _certificate(folder, host)
    port = free_port(address)
    with ExitStack() as stack:
        if kind == REFERRERS:
            (folder / "data").mkdir()
            program = [str(builds.REGISTRIES.entry / "ggcr"), f"-address=127.0.0.1:{port}", f"-data={folder}/data"]
            if mode != ANONYMOUS:
                program += [f"-auth={mode.removeprefix('tls-')}", f"-cert={files[0]}", f"-key={files[1]}"]
        else:
            realm = stack.enter_context(_issuing(files)) if mode == BEARER else ""
            (folder / "config.yml").write_text(json.dumps(_config(folder, f"{address}:{port}", mode, files, realm)))
            built = str(builds.REGISTRIES.entry / "registry")
            program = [tools.require("docker-registry") if kind == DEBIAN else built, "serve", f"{folder}/config.yml"]
        server = subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _wait(address, port, server)
            yield f"{host}:{port}", [] if mode == ANONYMOUS else ["--ca-file", str(files[0])]
        finally:
            server.terminate()
            server.wait(10)


def _certificate(folder: Path, host: str) -> tuple[Path, Path]:
    files = folder / "tls.crt", folder / "tls.key"
    name = x509.DNSName(host) if host == "localhost" else x509.IPAddress(ipaddress.ip_address(host))
    for file, content in zip(files, self_signed(name), strict=True):
        file.write_bytes(content)
    return files


def _config(folder: Path, address: str, mode: str, files: tuple[Path, Path], realm: str) -> dict[str, Any]:
    """Return the configuration of a registry of distribution."""
    config: dict[str, Any] = {
        "version": 0.1,
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "http": {"addr": address},
    }
    if mode != ANONYMOUS:
        config["http"]["tls"] = {"certificate": str(files[0]), "key": str(files[1])}
    if mode == BASIC:
        (folder / "htpasswd").write_text(_HTPASSWD)
        config["auth"] = {"htpasswd": {"realm": "test", "path": str(folder / "htpasswd")}}
    if mode == BEARER:
        token = {"realm": realm, "service": _SERVICE, "issuer": _ISSUER, "rootcertbundle": str(files[0])}
        config["auth"] = {"token": token}
    return config


@contextmanager
def _issuing(files: tuple[Path, Path]) -> Iterator[str]:
    """Yield the address of a server that issues tokens for a registry of distribution."""
    key = serialization.load_pem_private_key(files[1].read_bytes(), None)
    der = x509.load_pem_x509_certificate(files[0].read_bytes()).public_bytes(serialization.Encoding.DER)
    headers = {"x5c": [base64.b64encode(der).decode()]}
    login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()

    class Issuer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers.get("Authorization") != f"Basic {login}":
                self.send_error(401)
                return
            now = int(time.time())
            claims = {
                "iss": _ISSUER,
                "aud": _SERVICE,
                "sub": USER,
                "iat": now,
                "nbf": now - 5,
                "jti": str(uuid.uuid4()),
            }
            claims |= {"exp": now + _VALIDITY, "access": [*map(_access, parse_qs(urlsplit(self.path).query)["scope"])]}
            token = jwt.encode(claims, key, "ES256", headers)  # type: ignore[arg-type]
            content = json.dumps({"token": token, "expires_in": _VALIDITY}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Issuer)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*files)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"https://localhost:{server.server_port}/token"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _access(scope: str) -> dict[str, Any]:
    kind, name, actions = scope.split(":")
    return {"type": kind, "name": name, "actions": actions.split(",")}


def free_port(address: str = "127.0.0.1") -> int:
    """Return a port of this machine that nothing listens on."""
    with socket.create_server((address, 0)) as server:
        return int(server.getsockname()[1])


def _wait(address: str, port: int, server: subprocess.Popen[bytes]) -> None:
    """Wait until a server listens on a port."""
    for _ in range(600):
        assert server.poll() is None, "the registry has ended"
        try:
            socket.create_connection((address, port)).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("the registry does not start")

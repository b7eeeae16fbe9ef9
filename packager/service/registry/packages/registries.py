"""Pulls packages from registries in server.yaml, with the read-only part of the OCI distribution API.

A registry may send anything: this module limits sizes and time, and checks digests. The password is sent only to the
registry itself and to the token host in server.yaml. Redirects may lead only to public addresses.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import re
import ssl
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base import jsonio, rest
from packager.base.errors import ToolError, UsageError, unreadable
from packager.base.names import IMAGE_PATH, TAG
from packager.base.problems import show
from packager.base.values import Value
from packager.service.callbacks.addresses import Allowed, InvalidAddressError
from packager.service.callbacks.transport import NoAnswerError, Transport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from packager.base.values import Json
    from packager.service.callbacks.transport import StreamedAnswer
    from packager.service.config import RegistryConfig

OCI = "oci://"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
PACKAGE_LAYER = "application/vnd.mlpack.package.v1.tar+gzip"
LAYERS = (PACKAGE_LAYER, "application/vnd.oci.image.layer.v1.tar+gzip", "application/vnd.oci.image.layer.v1.tar")
"""The media types of the layer with the package: ours, and those of `oras push` for folders and files."""

MOST_BYTES = 128 << 20
SECONDS = 120.0
"""The time limit of a pull, in seconds."""

_READ_SECONDS = 15.0
_MANIFEST_BYTES = 64 << 10
_TOKEN_BYTES = 64 << 10
_LONGEST_TOKEN = 16 << 10
_MOST_REDIRECTS = 3
_MOVED = (301, 302, 303, 307, 308)

_REFERENCE = re.compile(
    rf"(?P<host>[a-z0-9.-]{{1,253}}(?::[1-9][0-9]{{0,4}})?)/(?P<repository>{IMAGE_PATH})"
    rf"(?::(?P<tag>{TAG})|@(?P<digest>sha256:[0-9a-f]{{64}}))"
)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PARAMETER = re.compile(r'([A-Za-z]+)="([^"\\]{0,1000})"')


class Reference(Value, frozen=True):
    """The reference to a package: `oci://HOST/REPOSITORY:TAG`, or with a digest in place of the tag."""

    host: str
    repository: str
    tag: str | None
    digest: str | None

    def pinned(self, digest: str) -> str:
        """Return the reference with a digest, which always identifies the same package."""
        return f"{OCI}{self.host}/{self.repository}@{digest}"


class Registry(Value, frozen=True):
    """A registry from which packages may be pulled.

    Attributes:
        host: The host, and the port if it is not the default port.
        credentials: The user name and the password; None for pulls without a password.
        token_host: Another host that issues the registry's tokens and may receive the credentials.
        is_insecure: Whether the registry is used over http.
        ca_file: The certificates of the registry's own authority.
    """

    host: str
    credentials: tuple[str, str] | None = None
    token_host: str | None = None
    is_insecure: bool = False
    ca_file: str | None = None

    def __repr__(self) -> str:
        return f"Registry({self.host!r})"

    @property
    def url(self) -> str:
        """The address of the registry."""
        return f"{'http' if self.is_insecure else 'https'}://{self.host}"


def read_registries(configured: Mapping[str, RegistryConfig], place: str) -> dict[str, Registry]:
    """Return the registries from a place in the configuration, with their passwords.

    Raises:
        ToolError: A file with a password or certificates cannot be read.
        UsageError: A password is missing.
    """
    registries = {}
    for host, settings in configured.items():
        credentials = (settings.username, _password(host, settings, place)) if settings.username is not None else None
        if settings.ca_file is not None:
            _context(settings.ca_file)
        registries[host] = Registry(host, credentials, settings.token_host, settings.insecure, settings.ca_file)
    return registries


def _password(host: str, settings: RegistryConfig, place: str) -> str:
    if settings.password_file is not None:
        try:
            password = Path(settings.password_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise unreadable(settings.password_file, OSError(str(error))) from None
    else:
        password = os.environ.get(settings.password_variable or "", "")
    if not password or not password.isprintable():
        raise UsageError(f"{place}: expected one line with the password for {host}")
    return password


def _context(ca_file: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError):
        raise ToolError(f"{ca_file} cannot be read as certificates") from None


def parse(source: str) -> Reference:
    """Return the reference in `oci://…`. Raises UsageError."""
    match = _REFERENCE.fullmatch(source.removeprefix(OCI))
    if match is None or len(match["repository"]) > 255:
        hint = "name a tag or a digest: oci://registry.example.com/team/model:1.0"
        raise UsageError(f"expected oci://HOST/REPOSITORY:TAG or @sha256:…, found {show(source)}", hint=hint)
    return Reference(match["host"], match["repository"], match["tag"], match["digest"])


def pull(source: str, registries: Mapping[str, Registry], file: Path) -> str:
    """Write the package at `oci://…` to a new file, and return the reference with the digest of its manifest.

    Raises:
        UsageError: The reference is faulty, or the server may not pull from its registry.
        ToolError: The registry does not respond as it must, or sends something other than a package.
    """
    reference = parse(source)
    registry = registries.get(reference.host)
    if registry is None:
        hint = f"there are {', '.join(registries)}" if registries else "list it in server.yaml"
        raise UsageError(f"the server pulls no packages from {reference.host}", hint=hint)
    return asyncio.run(_pull(reference, registry, file))


async def _pull(reference: Reference, registry: Registry, file: Path) -> str:
    session = _Session(registry, reference)
    try:
        async with asyncio.timeout(SECONDS):
            digest, layer = await _manifest(session, reference)
            await _blob(session, layer, file)
    except TimeoutError:
        raise ToolError(f"{registry.host} has not sent {reference.repository} in {SECONDS:g} s") from None
    except (InvalidAddressError, NoAnswerError) as error:
        raise ToolError(f"{registry.host}: {error}") from None
    finally:
        await session.close()
    return reference.pinned(digest)


class _Layer(Value, frozen=True):
    """The layer with the package: its digest, and its size in bytes."""

    digest: str
    size: int


async def _manifest(session: _Session, reference: Reference) -> tuple[str, _Layer]:
    """Return the digest of an artifact's manifest, and its only layer. Raises ToolError."""
    name = reference.digest or reference.tag
    async with session.get(f"manifests/{name}", MANIFEST) as answer:
        content = await _bounded(answer, _MANIFEST_BYTES, "the manifest")
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    if reference.digest not in (None, digest):
        raise ToolError(f"{reference.host} has sent another manifest: expected {reference.digest}, found {digest}")
    manifest = _json(content)
    if "manifests" in manifest:
        raise ToolError(f"{reference.repository}:{name} is an index of several artifacts, not a package")
    layers = manifest.get("layers")
    if not isinstance(layers, list) or len(layers) != 1 or not isinstance(layers[0], dict):
        count = len(layers) if isinstance(layers, list) else "no"
        raise ToolError(f"{reference.repository}:{name} is not a package: expected one layer, found {count}")
    kind, size, layer_digest = (layers[0].get(key) for key in ("mediaType", "size", "digest"))
    if kind not in LAYERS:
        raise ToolError(f"expected a layer of the type {PACKAGE_LAYER}, found {show(kind)}")
    if not isinstance(layer_digest, str) or not _DIGEST.fullmatch(layer_digest):
        raise ToolError(f"expected a layer with a sha256, found {show(layer_digest)}")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 < size <= MOST_BYTES:
        raise ToolError(f"expected a layer of at most {MOST_BYTES >> 20} MiB, found {show(size)}")
    return digest, _Layer(layer_digest, size)


async def _blob(session: _Session, layer: _Layer, file: Path) -> None:
    """Write a layer to a new file. Raises ToolError if its size or digest is wrong."""
    digest, size = hashlib.sha256(), 0
    async with session.get(f"blobs/{layer.digest}", "application/octet-stream") as answer:
        with file.open("xb") as stream:
            async for chunk in answer.chunks:
                size += len(chunk)
                if size > layer.size:
                    raise ToolError(f"the layer has more than the {layer.size:,} bytes of its manifest")
                digest.update(chunk)
                stream.write(chunk)
    if f"sha256:{digest.hexdigest()}" != layer.digest:
        raise ToolError(f"the layer has another digest: expected {layer.digest}, found sha256:{digest.hexdigest()}")


class _Session:
    """The requests of one pull.

    Args:
        registry: The registry.
        reference: The reference to the package.
    """

    def __init__(self, registry: Registry, reference: Reference) -> None:
        self._registry = registry
        self._reference = reference
        self._authorization: str | None = None
        self._transports: dict[str | None, Transport] = {}

    async def close(self) -> None:
        """Close all connections."""
        for transport in self._transports.values():
            await transport.close()

    def _transport(self, host: str | None) -> Transport:
        """Return the transport to a host that server.yaml names; for None, the transport to public addresses only."""
        if host not in self._transports:  # a new transport reads the certificates of the system
            names = frozenset() if host is None else frozenset({host.partition(":")[0]})
            ca_file = None if host is None else self._registry.ca_file
            tls = None if ca_file is None else _context(ca_file)
            allowed = Allowed(names, ports=(443,) if host is None else None)
            self._transports[host] = Transport(allowed, tls=tls, seconds=_READ_SECONDS)
        return self._transports[host]

    @asynccontextmanager
    async def get(self, path: str, accept: str) -> AsyncIterator[StreamedAnswer]:
        """Yield the response for a path of the repository; if required, authenticate first. Raises ToolError."""
        url = f"{self._registry.url}/v2/{self._reference.repository}/{path}"
        challenge = None
        async with self._followed(url, accept) as answer:
            if answer.status != 401 or self._authorization is not None:
                yield self._checked(answer)
                return
            challenge = answer.headers.get("www-authenticate", "")
        self._authorization = await self._authorized(challenge)
        async with self._followed(url, accept) as answer:
            yield self._checked(answer)

    def _checked(self, answer: StreamedAnswer) -> StreamedAnswer:
        """Return a response with status 200. Raises ToolError for other responses."""
        if answer.status == 200:
            return answer
        where = f"{self._registry.host}/{self._reference.repository}"
        if answer.status == 404:
            raise ToolError(f"{where}: {self._reference.tag or self._reference.digest} not found")
        if answer.status in (401, 403):
            raise ToolError(f"{where}: the registry does not let this server read it (status {answer.status})")
        raise ToolError(f"{where}: the registry has answered with status {answer.status}")

    @asynccontextmanager
    async def _followed(self, url: str, accept: str) -> AsyncIterator[StreamedAnswer]:
        """Yield the response to a request, after a few redirects; only the registry receives credentials."""
        for _ in range(_MOST_REDIRECTS + 1):
            is_home = url.startswith(f"{self._registry.url}/")
            headers = {"Accept": accept, "Accept-Encoding": "identity"}
            if is_home and self._authorization is not None:
                headers["Authorization"] = self._authorization
            async with self._transport(self._registry.host if is_home else None).opened(url, headers) as answer:
                if answer.status not in _MOVED:
                    yield answer
                    return
                url = self._next(url, answer.headers.get("location", ""))
        raise ToolError(f"{self._registry.host} redirects more than {_MOST_REDIRECTS} times")

    @staticmethod
    def _next(url: str, location: str) -> str:
        if location.startswith("/") and not location.startswith("//"):
            scheme, _, rest_of = url.partition("://")
            return f"{scheme}://{rest_of.partition('/')[0]}{location}"
        return location

    async def _authorized(self, challenge: str) -> str:
        """Return the Authorization header that a registry requires. Raises ToolError."""
        scheme, _, rest_of = challenge.partition(" ")
        credentials = self._registry.credentials
        if scheme.lower() == "basic" and credentials is not None:
            return _basic(credentials)
        parameters = {key.lower(): value for key, value in _PARAMETER.findall(rest_of[:4096])}
        realm = parameters.get("realm", "")
        if scheme.lower() != "bearer" or not realm:
            raise ToolError(f"{self._registry.host} asks for a password, and the server has none for it")
        query = rest.path(service=parameters.get("service"), scope=f"repository:{self._reference.repository}:pull")
        url = f"{realm}&{query[1:]}" if "?" in realm else f"{realm}{query}"
        return f"Bearer {await self._token(url)}"

    async def _token(self, url: str) -> str:
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        is_home = url.startswith(f"{self._registry.url}/")
        is_issuer = self._registry.token_host is not None and url.startswith(f"https://{self._registry.token_host}/")
        if self._registry.credentials is not None and (is_home or is_issuer):
            headers["Authorization"] = _basic(self._registry.credentials)
        host = self._registry.host if is_home else self._registry.token_host if is_issuer else None
        async with self._transport(host).opened(url, headers) as answer:
            if answer.status != 200:
                raise ToolError(f"{self._registry.host}: no token was issued (status {answer.status})")
            body = _json(await _bounded(answer, _TOKEN_BYTES, "the token"))
        token = body.get("token", body.get("access_token"))
        if not isinstance(token, str) or not 0 < len(token) <= _LONGEST_TOKEN or not re.fullmatch(r"[!-~]+", token):
            raise ToolError(f"{self._registry.host}: what was issued is not a token")
        return token


def _basic(credentials: tuple[str, str]) -> str:
    return f"Basic {base64.b64encode(':'.join(credentials).encode()).decode()}"


async def _bounded(answer: StreamedAnswer, most: int, what: str) -> bytes:
    content = bytearray()
    async for chunk in answer.chunks:
        content += chunk
        if len(content) > most:
            raise ToolError(f"{what} has more than {most >> 10} KiB")
    return bytes(content)


def _json(content: bytes) -> dict[str, Json]:
    try:
        body = jsonio.read(content)
    except jsonio.JsonError:
        body = None
    if not isinstance(body, dict):
        raise ToolError("the registry has sent something that is not a JSON object")
    return body

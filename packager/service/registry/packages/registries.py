"""Pulls packages from the registries in server.yaml: the rules of the server for the client in `publish/`.

A registry may have any address, because an administrator has named it; the password is sent only to the registry itself
and to the token host in server.yaml. Whatever a registry redirects to has to be public.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base import web
from packager.base.errors import ToolError, UsageError, VerificationError, unreadable
from packager.base.values import Value
from packager.base.web import Network
from packager.publish import artefact, credentials, keys
from packager.publish.client import Access
from packager.publish.reference import parse
from packager.publish.registry import Repository
from packager.publish.signatures import find
from packager.service.callbacks import addresses
from packager.service.callbacks.addresses import Allowed, InvalidAddressError
from packager.service.callbacks.transport import system_addresses

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.base.web import Address
    from packager.publish.credentials import Login
    from packager.publish.keys import PublicKey
    from packager.publish.reference import PackageReference
    from packager.service.config import RegistryConfig

MOST_BYTES = 128 << 20
SECONDS = 120.0
"""The time limit of a pull, in seconds."""

_SILENT_SECONDS = 15.0
_NAME_SECONDS = 3.0
_MOST_ADDRESSES = 4
_MOST_REASONS = 3


class Registry(Value, frozen=True):
    """A registry from which packages may be pulled.

    Attributes:
        host: The host, and the port if it is not the default port.
        login: The user name and the password; None for pulls without a password.
        token_host: Another host that issues the registry's tokens and may receive the credentials.
        is_insecure: Whether the registry is used over http.
        ca_file: Certificates of authorities that are trusted in addition to the system's.
        key: The public key that must have signed each package; None for none.
    """

    host: str
    login: Login | None = None
    token_host: str | None = None
    is_insecure: bool = False
    ca_file: str | None = None
    key: PublicKey | None = None

    def __repr__(self) -> str:
        return f"Registry({self.host!r})"


def read_registries(configured: Mapping[str, RegistryConfig], place: str) -> dict[str, Registry]:
    """Return the registries from a place in the configuration, with their passwords.

    Raises:
        ToolError: A file with a password, certificates or a key cannot be read.
        UsageError: A password is missing, or a file has no public key.
    """
    registries = {}
    for host, settings in configured.items():
        login = None
        if settings.username is not None:
            login = credentials.Login(settings.username, _password(host, settings, place), source="server.yaml")
        if settings.ca_file is not None:
            web.trusted(settings.ca_file)
        key = None if settings.key is None else _key(Path(settings.key), f"{place}.{host}.key")
        registries[host] = Registry(host, login, settings.token_host, settings.insecure, settings.ca_file, key)
    return registries


def _key(file: Path, place: str) -> PublicKey:
    try:
        with file.open("rb") as stream:
            content = stream.read(keys.KEY_BYTES)
    except OSError as error:
        raise unreadable(file, error) from None
    return keys.public(content, file.name.removesuffix(".pub"), f"{place}: {file}")


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


def pull(source: str, registries: Mapping[str, Registry], file: Path) -> str:
    """Write the package at `oci://…` to a new file, and return the reference with the digest of its manifest.

    Raises:
        UsageError: The reference is faulty, or the server may not pull from its registry.
        ToolError: The registry does not respond as it must, or sends something other than a package.
    """
    reference = parse(source)
    if reference.version is None:
        raise UsageError(f"{reference} names neither a tag nor a digest", hint=f"for example {reference}:1.0")
    registry = registries.get(reference.host)
    if registry is None:
        hint = f"there are {', '.join(registries)}" if registries else "list it in server.yaml"
        raise UsageError(f"the server pulls no packages from {reference.host}", hint=hint)
    try:
        digest = _pull(reference, registry, file)
    except InvalidAddressError as error:
        raise ToolError(f"{registry.host}: {error}") from None
    except (ToolError, VerificationError) as error:  # hints are for the command line
        raise ToolError(str(error)) from None
    return reference.pinned(digest)


def _pull(reference: PackageReference, registry: Registry, file: Path) -> str:
    """Write a package to a new file, and return the digest of its manifest."""
    with Repository(reference, _access(registry, reference)) as repository:
        content, digest = repository.manifest(reference.version or "")
        if registry.key is not None:
            _require_signature(repository, reference.pinned(digest), digest, registry.key)
        layer = artefact.described(content, str(reference)).layer
        if not 0 < layer.size <= MOST_BYTES:
            most = f"{MOST_BYTES >> 20} MiB"
            raise ToolError(f"{reference}: expected a layer of at most {most}, found {layer.size:,} bytes")
        with file.open("xb") as stream:
            repository.download(layer, stream)
    return digest


def _require_signature(repository: Repository, shown: str, digest: str, key: PublicKey) -> None:
    """Refuse an artefact that a key has not signed. Raises ToolError."""
    signatures = find(repository, digest, (key,))
    if not any(signature.is_trusted for signature in signatures):
        reasons = "; ".join(f"a signature is {signature}" for signature in signatures[:_MOST_REASONS])
        raise ToolError(
            f"{shown} is not signed by {key.name}, as the server requires{f': {reasons}' if reasons else ''}"
        )


def _access(registry: Registry, reference: PackageReference) -> Access:
    """Return the access to a registry, by the rules of the server."""
    scheme = "http" if registry.is_insecure else "https"
    home = web.address(f"{scheme}://{reference.api_host}/")
    named = {home.origin}
    if registry.token_host is not None:
        named.add(web.address(f"https://{registry.token_host}/").origin)

    def resolve(url: Address) -> list[str]:
        allowed = Allowed(frozenset({url.host})) if url.origin in named else Allowed(ports=(443,))
        return _resolved(url, allowed)

    return Access(
        Network(registry.ca_file, resolve, silent=_SILENT_SECONDS, seconds=SECONDS),
        lambda _reference: registry.login,
        plain_http=registry.is_insecure,
        may_receive=lambda issuer: issuer.origin in named,
        tries_http=False,
    )


def _resolved(url: Address, allowed: Allowed) -> list[str]:
    """Return the addresses of a host, all of which are allowed. Raises InvalidAddressError."""
    target = addresses.parse(url.text, allowed)
    if target.address is not None:
        return [str(target.address)]
    resolver = ThreadPoolExecutor(1, thread_name_prefix="resolver")  # a slow name server delays this pull alone
    try:
        answer = resolver.submit(system_addresses, target.host, target.port).result(_NAME_SECONDS)
    except (OSError, TimeoutError):
        raise InvalidAddressError(f"the name server does not know {target.host}") from None
    finally:
        resolver.shutdown(wait=False, cancel_futures=True)
    return [str(address) for address in addresses.check(target.host, answer, allowed)[:_MOST_ADDRESSES]]

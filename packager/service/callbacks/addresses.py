"""Decides which addresses callbacks may use: none that only this machine or its networks can reach.

An address is parsed once, strictly, and the request is made from the checked parts.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

from packager.base.errors import MlpackError
from packager.base.problems import show
from packager.base.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable

IP = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_LONGEST = 2048
_PARTS = re.compile(r"(?P<scheme>[a-z]+)://(?P<authority>[^/?#]*)(?P<path>[/?][^#]*)?", re.IGNORECASE)
_AUTHORITY = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[^:\[\]]+))(?::(?P<port>[0-9]{1,5}))?")
_NAME = re.compile(r"(?=.{1,253}$)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*")
_NUMERIC_END = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
_PORTS = {"http": 80, "https": 443}

_GLOBAL_SIX = ipaddress.IPv6Network("2000::/3")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_TEREDO = ipaddress.IPv6Network("2001::/32")

_NOT_GLOBAL = tuple(
    map(
        ipaddress.ip_network,
        # Networks that some versions of `ipaddress` treat as global (IANA's special-purpose registries).
        ("100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "2001::/23", "3fff::/20"),
    )
)


class InvalidAddressError(MlpackError):
    """Requests to the address are not permitted."""


class Receiver(Value, frozen=True):
    """The receiver of a request.

    Attributes:
        scheme: http or https.
        host: A name in lower case, or an address without brackets.
        port: The port.
        path: The path and the query.
        address: The host, if it is an address; None for a name.
    """

    scheme: str
    host: str
    port: int
    path: str
    address: IP | None

    @property
    def authority(self) -> str:
        """The value of the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


class Allowed(Value, frozen=True):
    """The receivers that an administrator allows in addition to public addresses.

    Attributes:
        names: Hosts that may have any address and may be used over http.
        networks: Addresses that hosts of any name may have; these addresses may be used over http.
        ports: The permitted ports; None for all.
    """

    names: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()
    ports: tuple[int, ...] | None = None

    def has(self, address: IP) -> bool:
        """Whether an address is in one of the networks."""
        return any(address in network for network in self.networks)


def read_allowed(entries: Iterable[str], ports: Iterable[int] | None = None) -> tuple[Allowed, dict[int, str]]:
    """Return the receivers that the entries and ports allow, and the message about each faulty entry, by index."""
    names: set[str] = set()
    networks: list[Network] = []
    problems: dict[int, str] = {}
    for index, entry in enumerate(entries):
        name = entry.lower()
        try:
            networks.append(ipaddress.ip_network(name.strip("[]")))
        except ValueError:
            if "/" not in name and _NAME.fullmatch(name) and not _NUMERIC_END.fullmatch(name):
                names.add(name)
            else:
                problems[index] = f"expected a host, an address or a network such as 10.1.0.0/16, found {show(entry)}"
    return Allowed(frozenset(names), tuple(networks), None if ports is None else tuple(ports)), problems


def parse(url: str, allowed: Allowed) -> Receiver:
    """Return the receiver of a request to `url`, without asking a name server.

    Raises:
        InvalidAddressError: The address is faulty, or callbacks may not use it.
    """
    if len(url) > _LONGEST:
        raise InvalidAddressError(f"expected at most {_LONGEST} characters, found {len(url)}")
    if not url.isascii() or not url.isprintable() or set(url) & set(' "<>\\^`{|}'):
        hint = "write other characters as %XX, and those of a host in its ASCII form"
        raise InvalidAddressError("expected the characters of an address only", hint=hint)
    parts = _PARTS.fullmatch(url)
    if parts is None:
        raise InvalidAddressError(f"expected https://HOST/PATH without a fragment, found {show(url)}")
    scheme, authority, path = parts["scheme"].lower(), parts["authority"], parts["path"] or "/"
    if scheme not in _PORTS:
        raise InvalidAddressError(f"expected https, found {scheme}")
    if "@" in authority:
        raise InvalidAddressError("has a user or a password in it", hint="use headers")
    host, address, port = _authority(authority, _PORTS[scheme])
    if allowed.ports is not None and port not in allowed.ports:
        ports = " or ".join(map(str, allowed.ports))
        hint = "an administrator can add it to callbacks.ports of the server"
        raise InvalidAddressError(f"expected port {ports}, found {port}", hint=hint)
    if scheme == "http" and host not in allowed.names and not (address and allowed.has(address)):
        hint = "http needs an entry for the host in callbacks.allow of the server"
        raise InvalidAddressError("expected https, found http", hint=hint)
    if address:
        check(host, [address], allowed)
    elif host == "localhost" or host.endswith(".localhost"):
        check(host, [], allowed)
    return Receiver(scheme, host, port, path if path.startswith("/") else f"/{path}", address)


def _authority(authority: str, default: int) -> tuple[str, IP | None, int]:
    match = _AUTHORITY.fullmatch(authority)
    port = int(match["port"] or default) if match else 0
    if match is None or not 0 < port < 65_536:
        raise InvalidAddressError(f"expected a host and a port, found {show(authority)}")
    return *_host(match["six"], match["name"]), port


def _host(six: str | None, name: str | None) -> tuple[str, IP | None]:
    try:
        if six is not None:
            address: IP = ipaddress.IPv6Address(six)
            return str(address), address
        assert name is not None
        host = name.lower()
        if _NUMERIC_END.fullmatch(host):  # some programs read 2130706433, 0177.0.0.1, 0x7f000001 and 127.1 as 127.0.0.1
            address = ipaddress.IPv4Address(host)
            return host, address
    except ValueError:
        message = f"expected a host name, or an address in its usual form, found {show(six or name)}"
        raise InvalidAddressError(message) from None
    if not _NAME.fullmatch(host):
        raise InvalidAddressError(f"expected a host name, found {show(host)}")
    return host, None


def check(host: str, addresses: Iterable[IP], allowed: Allowed) -> list[IP]:
    """Return the addresses of a host as a list, if callbacks may use all of them.

    Raises:
        InvalidAddressError: There is no address, or callbacks may not use one. The message does not contain addresses,
            because the caller may not know them.
    """
    items = list(addresses)
    if host in allowed.names:
        return items
    if not items or not all(is_public(part) or allowed.has(part) for item in items for part in unwrapped(item)):
        hint = "an administrator can name the host in callbacks.allow of the server"
        raise InvalidAddressError(f"{host} is not a public address, or has one that is not", hint=hint)
    return items


def unwrapped(address: IP) -> tuple[IP, ...]:
    """Return the addresses that receive packets to `address`: those in a mapped, 6to4, Teredo or NAT64 address."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped:
            return (address.ipv4_mapped,)
        if address.sixtofour:
            return (address.sixtofour,)
        if address in _TEREDO and address.teredo:
            return address.teredo
        if address in _NAT64:
            return (ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF),)
    return (address,)


def is_public(address: IP) -> bool:
    """Whether an address is a global unicast address."""
    if isinstance(address, ipaddress.IPv6Address) and address not in _GLOBAL_SIX:
        return False
    special = address.is_multicast or address.is_reserved or address.is_unspecified or address.is_link_local
    special = special or address.is_private or address.is_loopback
    return address.is_global and not special and not any(address in network for network in _NOT_GLOBAL)

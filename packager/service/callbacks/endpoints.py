"""Checks the endpoints of type `event` in filled values: their addresses, which an admin has listed, and headers."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

from packager.base.errors import MlpackError
from packager.base.problems import show
from packager.base.values import Value
from packager.kubernetes.manifest import listing, mapping
from packager.service.failures import Complaint, pointer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from packager.base.yamlio import Location

MOST = 10
"""The maximum number of endpoints of type `event` in a job."""

_LONGEST = 2048
_ADDRESS = re.compile(
    r"(?P<scheme>https?)://(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[^:\[\]/?#@]+))(?::(?P<port>[0-9]{1,5}))?(?P<path>[/?].*)?",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?=.{1,253}$)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*")
_MOST_HEADERS = 20
_LONGEST_HEADERS = 8 << 10
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")  # RFC 9110, section 5.6.2
_VALUE = re.compile(r"(?:[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?)?")
_OURS = re.compile(
    r"host|content-length|transfer-encoding|connection|keep-alive|te|trailer|upgrade|expect|proxy-.*|webhook-.*"
)
_HINT = "an administrator can list the host in callbacks.allow of the server"


class InvalidAddressError(MlpackError):
    """No callbacks are sent to the address."""


class Receivers(Value, frozen=True):
    """The receivers to which an administrator lets callbacks be sent."""

    names: frozenset[str] = frozenset()
    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()  # for hosts that are addresses

    def check(self, url: str) -> None:
        """Raise InvalidAddressError unless callbacks may be sent to an address."""
        if len(url) > _LONGEST:
            raise InvalidAddressError(f"expected at most {_LONGEST} characters, found {len(url)}")
        is_plain = url.isascii() and url.isprintable() and not set(url) & set(' "<>\\^`{|}#')
        parts = _ADDRESS.fullmatch(url) if is_plain else None
        if parts is None:
            hint = "write other characters as %XX, and passwords as headers"
            raise InvalidAddressError(f"expected https://HOST/PATH, found {show(url)}", hint=hint)
        host = (parts["six"] or parts["name"]).lower()
        address = _address(host)
        if host not in self.names and not (address and any(address in network for network in self.networks)):
            raise InvalidAddressError(f"callbacks are not sent to {show(host)}", hint=_HINT)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return a host as an address in its usual form; None for a name, and for forms such as 0x7f.1."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def read_receivers(entries: Iterable[str]) -> tuple[Receivers, dict[int, str]]:
    """Return the receivers that the entries allow, and the message about each faulty entry, by index."""
    names: set[str] = set()
    networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
    problems: dict[int, str] = {}
    for index, entry in enumerate(entries):
        name = entry.lower()
        try:
            networks.append(ipaddress.ip_network(name.strip("[]")))
        except ValueError:
            if _NAME.fullmatch(name) and not name.rpartition(".")[2].isdecimal():
                names.add(name)
            else:
                problems[index] = f"expected a host, an address or a network such as 10.1.0.0/16, found {show(entry)}"
    return Receivers(frozenset(names), tuple(networks)), problems


def complaints(filled: Mapping[str, object], allowed: Receivers) -> list[Complaint]:
    """Return the complaints about the endpoints of type `event`, in filled values of any shape."""
    events = [
        (("endpoints", index), item)
        for index, item in enumerate(map(mapping, listing(filled.get("endpoints"))))
        if item.get("type") == "event"
    ]
    problems = [problem for location, item in events for problem in _problems(location, item, allowed)]
    if len(events) > MOST:
        problems.append(Complaint("/endpoints", f"expected at most {MOST} of type 'event', found {len(events)}"))
    return problems


def _problems(location: Location, item: Mapping[str, object], allowed: Receivers) -> Iterator[Complaint]:
    url = item.get("endpoint")
    if isinstance(url, str):
        try:
            allowed.check(url)
        except InvalidAddressError as error:
            yield Complaint(pointer((*location, "endpoint")), str(error), error.hint)
    elif url is not None:
        yield Complaint(pointer((*location, "endpoint")), f"expected an address, found {show(url)}")
    yield from _header_problems((*location, "headers"), mapping(item.get("headers")))


def _header_problems(location: Location, headers: Mapping[str, object]) -> Iterator[Complaint]:
    if len(headers) > _MOST_HEADERS:
        yield Complaint(pointer(location), f"expected at most {_MOST_HEADERS}, found {len(headers)}")
    if sum(len(name) + len(str(value)) for name, value in headers.items()) > _LONGEST_HEADERS:
        yield Complaint(pointer(location), f"expected at most {_LONGEST_HEADERS >> 10} KiB")
    seen: set[str] = set()
    for name, value in headers.items():
        place = pointer((*location, name))
        if not _TOKEN.fullmatch(name):
            yield Complaint(place, "expected the name of a header (RFC 9110)")
        elif _OURS.fullmatch(name.lower()):
            yield Complaint(place, f"the header {name} is the server's to set")
        elif name.lower() in seen:
            yield Complaint(place, f"the header {name} is there twice")
        seen.add(name.lower())
        if not isinstance(value, str) or not _VALUE.fullmatch(value):
            yield Complaint(place, "expected printable ASCII without spaces at its ends")

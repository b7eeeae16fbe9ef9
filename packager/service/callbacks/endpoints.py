"""Checks the endpoints of type `event` in filled values: their addresses and their headers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base.problems import show
from packager.kubernetes.manifest import listing, mapping
from packager.service.callbacks import addresses
from packager.service.complaints import Complaint, pointer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.base.yamlio import Location
    from packager.service.callbacks.addresses import Allowed

MOST = 10
"""The maximum number of endpoints of type `event` in a job."""

_MOST_HEADERS = 20
_LONGEST_HEADERS = 8 << 10
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")  # RFC 9110, section 5.6.2
_VALUE = re.compile(r"(?:[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?)?")
_OURS = re.compile(
    r"host|content-length|transfer-encoding|connection|keep-alive|te|trailer|upgrade|expect|proxy-.*|webhook-.*"
)


def complaints(filled: Mapping[str, object], allowed: Allowed) -> list[Complaint]:
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


def _problems(location: Location, item: Mapping[str, object], allowed: Allowed) -> Iterator[Complaint]:
    url = item.get("endpoint")
    if isinstance(url, str):
        try:
            addresses.parse(url, allowed)
        except addresses.InvalidAddressError as error:
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

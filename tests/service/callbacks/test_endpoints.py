from __future__ import annotations

from typing import Any

import pytest

from packager.service.callbacks.endpoints import InvalidAddressError, complaints, read_receivers

LISTED = read_receivers(["h.example", "10.1.0.0/16", "fd00::1"])[0]


def told(**item: Any) -> list[tuple[str, str]]:
    filled = {"endpoints": [{"endpoint": "s3://b/x", "type": "dataset"}, {"type": "event", **item}]}
    return [(complaint.pointer, complaint.detail) for complaint in complaints(filled, LISTED)]


def test_complaints_name_faulty_addresses() -> None:
    place = "/endpoints/1/endpoint"
    assert told(endpoint="http://h.example/x") == []
    assert told(endpoint=7) == [(place, "expected an address, found the number 7")]
    message = "callbacks are not sent to '169.254.169.254'"
    assert told(endpoint="https://169.254.169.254/latest") == [(place, message)]


@pytest.mark.parametrize(
    "url",
    [
        "https://h.example/x",
        "http://H.EXAMPLE:8080/x?y=%20",
        "https://10.1.2.3/",
        "http://[fd00::1]:80",
        "https://[FD00:0::1]/",
    ],
)
def test_listed_receivers_get_callbacks(url: str) -> None:
    LISTED.check(url)


@pytest.mark.parametrize(
    "url",
    ["https://other.example/", "https://x.h.example/", "https://h.example.evil/", "https://h.example@evil/",
     "https://evil/@h.example", "https://h.example\\@evil/", "https://h.example:1:2/", "https://10.2.0.1/",
     "https://0x0a.1.2.3/", "https://10.1/", "https://010.1.2.3/", "https://167903747/", "https://[::ffff:10.1.2.3]/",
     "ftp://h.example/", "//h.example/", "https://", "https://h.example/a b", "https://h.example/ä", "https://h.example./",
     "https://h.example/#x", "https://h.example/" + "x" * 2048],
)  # fmt: skip
def test_callbacks_go_to_no_other_address(url: str) -> None:
    with pytest.raises(InvalidAddressError):
        LISTED.check(url)


def test_faulty_entries_of_receivers_are_named() -> None:
    _, problems = read_receivers(["h.example", "x_y", "10.1.0.1/16", "1.2.3"])
    assert {index: message.split(" such as")[0] for index, message in problems.items()} == dict.fromkeys(
        (1, 2, 3), "expected a host, an address or a network"
    )


@pytest.mark.parametrize(
    ("name", "value", "detail"),
    [
        ("x-key", "a\r\nEvil: 1", "expected printable ASCII without spaces at its ends"),
        ("x-key", " a", "expected printable ASCII without spaces at its ends"),
        ("x-key", 5, "expected printable ASCII without spaces at its ends"),
        ("x-key\r\nEvil", "1", "expected the name of a header (RFC 9110)"),
        ("", "1", "expected the name of a header (RFC 9110)"),
        ("Host", "169.254.169.254", "the header Host is the server's to set"),
        ("content-LENGTH", "0", "the header content-LENGTH is the server's to set"),
        ("Transfer-Encoding", "chunked", "the header Transfer-Encoding is the server's to set"),
        ("Webhook-Signature", "v1,x", "the header Webhook-Signature is the server's to set"),
    ],
)
def test_complaints_name_headers_that_would_change_the_request(name: str, value: object, detail: str) -> None:
    ((pointer, message),) = told(endpoint="https://h.example/x", headers={name: value})
    assert (pointer.startswith("/endpoints/1/headers/"), message) == (True, detail)


def test_complaints_name_too_many_headers_and_endpoints() -> None:
    url = "https://h.example/x"
    twenty = {f"x-{number}": "1" for number in range(20)}
    assert told(endpoint=url, headers=twenty) == []
    assert told(endpoint=url, headers={**twenty, "y": "1"}) == [
        ("/endpoints/1/headers", "expected at most 20, found 21")
    ]
    assert told(endpoint=url, headers={"y": "1" * 9000}) == [("/endpoints/1/headers", "expected at most 8 KiB")]
    assert told(endpoint=url, headers={"X-a": "1", "x-A": "2"}) == [
        ("/endpoints/1/headers/x-A", "the header x-A is there twice")
    ]
    many = {"endpoints": [{"endpoint": url, "type": "event"}] * 11}
    assert [item.detail for item in complaints(many, LISTED)] == ["expected at most 10 of type 'event', found 11"]

from __future__ import annotations

from typing import Any

import pytest

from packager.service.callbacks.addresses import Allowed
from packager.service.callbacks.endpoints import complaints


def told(**item: Any) -> list[tuple[str, str]]:
    filled = {"endpoints": [{"endpoint": "s3://b/x", "type": "dataset"}, {"type": "event", **item}]}
    return [(complaint.pointer, complaint.detail) for complaint in complaints(filled, Allowed())]


def test_complaints_accept_endpoints_with_headers() -> None:
    assert told(endpoint="https://h.example/x", headers={"x-api-key": "123qweasd", "Authorization": "Bearer a b"}) == []
    assert told(endpoint=None) == told() == []
    assert complaints({}, Allowed()) == complaints({"endpoints": "x"}, Allowed()) == []


def test_complaints_name_faulty_addresses() -> None:
    place = "/endpoints/1/endpoint"
    assert told(endpoint="http://h.example/x") == [(place, "expected https, found http")]
    assert told(endpoint=7) == [(place, "expected an address, found the number 7")]
    message = "169.254.169.254 is not a public address, or has one that is not"
    assert told(endpoint="https://169.254.169.254/latest") == [(place, message)]


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
    assert [item.detail for item in complaints(many, Allowed())] == ["expected at most 10 of type 'event', found 11"]

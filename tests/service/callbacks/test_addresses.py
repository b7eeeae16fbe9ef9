from __future__ import annotations

import ipaddress

import pytest

from packager.service.callbacks.addresses import Allowed, InvalidAddressError, check, parse, read_allowed

NONE = Allowed()


@pytest.mark.parametrize(
    ("url", "authority", "path"),
    [
        ("https://hooks.example.com/v1/x?y=1", "hooks.example.com", "/v1/x?y=1"),
        ("HTTPS://Hooks.Example.com", "hooks.example.com", "/"),
        ("https://hooks.example.com:8443?x", "hooks.example.com:8443", "/?x"),
        ("https://[2606:2800:220:1::1]:443/x", "[2606:2800:220:1::1]", "/x"),
    ],
)
def test_parse_accepts_public_addresses(url: str, authority: str, path: str) -> None:
    target = parse(url, NONE)
    assert (target.scheme, target.authority, target.path) == ("https", authority, path)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "[::]", "10.0.0.1", "169.254.169.254", "100.64.0.1", "224.0.0.1", "192.88.99.1", "[::1]",
        "[fe80::1]", "[fc00::1]", "[fec0::1]", "[::ffff:127.0.0.1]", "[::127.0.0.1]", "[2002:7f00:1::]",
        "[64:ff9b::127.0.0.1]", "[64:ff9b:1::1]", "[2001:0:53aa:64c:0:0:f5ff:fffe]", "localhost", "x.localhost",
    ],
)  # fmt: skip
def test_parse_refuses_addresses_that_are_not_public(host: str) -> None:
    with pytest.raises(InvalidAddressError, match="is not a public address, or has one that is not"):
        parse(f"https://{host}/", NONE)


@pytest.mark.parametrize(
    "host",
    [
        "2130706433", "0177.0.0.1", "0x7f000001", "127.1", "example.0x7f", "[fe80::1%25eth0]", "[::1", "[1.2.3.4]",
        "[zz::1]", "", "example.com.", "a.example:65536", "a.example:8o", "user@a.example", "a.example\\@b.example",
        "a.example\r\nX: y", "\u24d4xample.com", "a.example#@b.example",
    ],
)  # fmt: skip
def test_parse_refuses_hosts_in_unusual_forms(host: str) -> None:
    with pytest.raises(InvalidAddressError):
        parse(f"https://{host}", NONE)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://hooks.example.com/", "expected https, found http"),
        ("//hooks.example.com/", "expected https://HOST/PATH without a fragment, found '//hooks.example.com/'"),
        ("https://u:p@hooks.example.com", "has a user or a password in it"),
        ("https://hooks.example.com/" + "a" * 3000, "expected at most 2048 characters, found 3026"),
    ],
)
def test_parse_reports_the_fault_of_an_address(url: str, message: str) -> None:
    with pytest.raises(InvalidAddressError) as caught:
        parse(url, NONE)
    assert str(caught.value) == message


def test_parse_and_check_accept_allowed_hosts_and_networks() -> None:
    allowed, problems = read_allowed(["Hooks.internal.example", "10.1.0.0/16", "127.0.0.1", "[fd00::]/8"])
    assert problems == {3: "expected a host, an address or a network such as 10.1.0.0/16, found '[fd00::]/8'"}
    for url in ("http://hooks.internal.example:8080/x", "https://10.1.2.3/", "http://10.1.2.3/", "http://127.0.0.1:1/"):
        assert parse(url, allowed).port
    assert check("hooks.internal.example", [ipaddress.ip_address("10.9.9.9")], allowed)
    assert check("other.example", [ipaddress.ip_address("10.1.9.9")], allowed)
    for url in ("http://10.2.0.1/", "http://other.example/", "https://127.0.0.2/"):
        with pytest.raises(InvalidAddressError):
            parse(url, allowed)


def test_parse_accepts_only_allowed_ports() -> None:
    allowed, _ = read_allowed(["hooks.internal"], [443, 8443])
    assert [parse(url, allowed).port for url in ("https://h.example/", "https://h.example:8443/")] == [443, 8443]
    for url, port in {"https://h.example:22/": 22, "http://hooks.internal/": 80, "https://1.1.1.1:8080/": 8080}.items():
        with pytest.raises(InvalidAddressError) as error:
            parse(url, allowed)
        assert str(error.value) == f"expected port 443 or 8443, found {port}"
        assert error.value.hint == "an administrator can add it to callbacks.ports of the server"


@pytest.mark.parametrize("entry", ["*", "2130706433", "10.1.2.3/16"])
def test_read_allowed_refuses_faulty_entries(entry: str) -> None:
    assert read_allowed([entry])[1].keys() == {0}


def test_check_refuses_names_with_an_address_that_is_not_public() -> None:
    public, private = ipaddress.ip_address("93.184.216.34"), ipaddress.ip_address("::ffff:10.0.0.1")
    assert check("a.example", [public], NONE) == [public]
    for addresses in ([public, private], []):
        with pytest.raises(InvalidAddressError, match=r"^a\.example is not a public address, or has one that is not"):
            check("a.example", addresses, NONE)

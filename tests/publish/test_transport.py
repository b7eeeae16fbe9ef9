"""The limits of time and size of answers, and servers that do not speak TLS."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import pytest

from packager.base import rest, web
from packager.base.errors import ToolError
from packager.base.web import Network
from packager.publish.artefact import Descriptor
from packager.publish.client import Access
from packager.publish.reference import parse
from packager.publish.registry import Repository
from tests.publish.fake_registry import digest_of, status

if TYPE_CHECKING:
    from tests.publish.fake_registry import FakeRegistry


BLOB = Descriptor(digest_of(b"content"), 7)


def repository(host: str, *, plain_http: bool = True) -> Repository:
    """Return a repository of a host, which is asked again without waiting."""
    return Repository(parse(f"oci://{host}/team/x:1"), Access(Network(sleep=lambda _: None), plain_http=plain_http))


@pytest.fixture
def _elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat registries of this machine as those of others, for which http is not tried."""
    monkeypatch.setattr(rest, "is_loopback", lambda _host: False)


@pytest.mark.usefixtures("_elsewhere")
def test_time_limit_ends_a_handshake_that_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that accepts connections, and never speaks TLS."""
    monkeypatch.setattr(web, "SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        host = f"127.0.0.1:{server.getsockname()[1]}"
        with (
            repository(host, plain_http=False) as client,
            pytest.raises(ToolError, match="not sent everything in time"),
        ):
            client.digest_of("1")


@pytest.mark.parametrize(
    ("proxy", "message"),
    [
        ("http://127.0.0.1:99999", "the proxy is not valid"),
        ("socks5://127.0.0.1:1", "unsupported scheme socks5"),
    ],
)
def test_invalid_proxy_is_refused(monkeypatch: pytest.MonkeyPatch, proxy: str, message: str) -> None:
    monkeypatch.setenv("https_proxy", proxy)
    monkeypatch.delenv("no_proxy", raising=False)
    with repository("registry.example", plain_http=False) as client, pytest.raises(ToolError, match=message):
        client.digest_of("1")


@pytest.mark.parametrize("name", ["a..b", f"{'a' * 64}.example"])
def test_name_that_no_host_can_have_is_refused(registry: FakeRegistry, name: str) -> None:
    registry.fault = lambda handler, _number: status(307, Location=f"http://{name}/x")(handler)
    with repository(registry.host) as client, pytest.raises(ToolError, match="is not valid"):
        client.digest_of("1")


@pytest.mark.usefixtures("_elsewhere")
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"\x15\x03\x03\x00\x02\x02\x28", "no connection by TLS is made: sslv3 alert handshake failure"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak TLS"),
    ],
)
def test_server_that_refuses_a_connection_by_tls_is_not_one_without_tls(answer: bytes, message: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        host = f"127.0.0.1:{server.getsockname()[1]}"
        with repository(host, plain_http=False) as client, pytest.raises(ToolError) as refused:
            client.digest_of("1")
        thread.join()
    assert message in str(refused.value)
    assert ("--plain-http" in (refused.value.hint or "")) is ("TLS is" not in message)

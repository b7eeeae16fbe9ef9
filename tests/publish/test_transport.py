"""The rules that a caller gives to the client: addresses, time, and the hosts that may receive credentials."""

from __future__ import annotations

import io
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.errors import MlpackError, ToolError
from packager.base.web import Network
from packager.publish.client import Access
from packager.publish.credentials import Login
from packager.publish.reference import parse
from packager.publish.registry import Repository
from packager.publish.upload import Descriptor
from tests.publish import fake_registry
from tests.publish.fake_registry import PASSWORD, USER, digest_of, endless_body, status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.base.web import Address
    from tests.publish.fake_registry import FakeRegistry, Handler

LOGIN = Login(USER, PASSWORD, source="test")
BLOB = Descriptor(digest_of(b"content"), 7)


class ForbiddenError(MlpackError):
    """An address is forbidden."""


class Rules:
    """Allows named hosts, which are all on this machine, and records which connections are asked for."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.asked: list[tuple[str, int]] = []

    def __call__(self, url: Address) -> Sequence[str]:
        self.asked.append((url.host, url.port))
        if url.host not in self.names:
            raise ForbiddenError(f"{url.host} is forbidden")
        return ["127.0.0.1"]


def repository(registry: FakeRegistry, rules: Rules, name: str = "registry.test", **options: Any) -> Repository:
    network = {key: options.pop(key) for key in ("seconds", "silent", "sleep") if key in options}
    port = registry.host.rpartition(":")[2]
    access = Access(Network(resolve=rules, **{"sleep": lambda _: None, **network}), plain_http=True, **options)
    return Repository(parse(f"oci://{name}:{port}/team/x:1"), access)


@pytest.fixture
def other() -> Iterator[FakeRegistry]:
    """Another host, with the same blob."""
    with fake_registry.serving() as registry:
        registry.blobs[BLOB.digest] = b"content"
        yield registry


def test_connections_go_to_the_checked_addresses_and_not_to_those_of_the_name(registry: FakeRegistry) -> None:
    """The system does not know the name, so no second look-up can lead elsewhere."""
    rules = Rules("registry.test")
    registry.blobs[BLOB.digest] = b"content"
    with repository(registry, rules) as client:
        stream = io.BytesIO()
        client.download(BLOB, stream)
        client.tags()
    assert stream.getvalue() == b"content"
    assert {*rules.asked} == {("registry.test", int(registry.host.rpartition(":")[2]))}


def test_each_new_connection_is_checked_again(registry: FakeRegistry) -> None:
    """A name that gets a forbidden address between two connections is not used any more."""
    rules = Rules("registry.test")
    registry.fault = lambda handler, _number: status(503)(handler)  # closes the connection
    with (
        repository(registry, rules, sleep=lambda _: setattr(rules, "names", ())) as client,
        pytest.raises(ForbiddenError, match=r"^registry.test is forbidden$"),
    ):
        client.tags()
    assert len(registry.requests) == 1
    assert len(rules.asked) == 2


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "metadata.test"])
def test_redirect_to_forbidden_host_is_not_followed(registry: FakeRegistry, other: FakeRegistry, host: str) -> None:
    port = other.host.rpartition(":")[2]
    registry.redirect = f"http://{host}:{port}"
    rules = Rules("registry.test")
    with repository(registry, rules) as client, pytest.raises(ForbiddenError, match=r"is forbidden$"):
        client.download(BLOB, io.BytesIO())
    assert other.requests == []
    assert rules.asked[-1] == (host.strip("[]"), int(port))


def test_redirect_to_allowed_host_is_followed(registry: FakeRegistry, other: FakeRegistry) -> None:
    registry.asks_for = "basic"
    registry.redirect = f"http://cdn.test:{other.host.rpartition(':')[2]}"
    with repository(registry, Rules("registry.test", "cdn.test"), login=lambda _: LOGIN) as client:
        client.download(BLOB, io.BytesIO())
    assert [authorization for _, _, authorization in other.requests] == [None]


def test_issuer_of_tokens_is_checked(registry: FakeRegistry) -> None:
    registry.asks_for = "bearer"  # the realm is on localhost
    rules = Rules("registry.test")
    with repository(registry, rules, login=lambda _: LOGIN) as client, pytest.raises(ForbiddenError, match="localhost"):
        client.tags()
    assert registry.forms == []


@pytest.mark.parametrize("is_trusted", [1, 0])
def test_password_is_sent_only_to_issuers_that_may_receive_it(registry: FakeRegistry, is_trusted: int) -> None:
    registry.asks_for = "bearer"
    rules = Rules("registry.test", "localhost")
    with repository(registry, rules, login=lambda _: LOGIN, may_receive=lambda _issuer: bool(is_trusted)) as client:
        client.tags()
    (sent,) = (authorization for _, path, authorization in registry.requests if path.startswith("/token"))
    assert sent == (LOGIN.basic if is_trusted else None)


def test_password_is_not_sent_to_an_issuer_on_another_host_without_permission(
    registry: FakeRegistry, other: FakeRegistry
) -> None:
    """An identity token is a secret of the same kind."""
    registry.asks_for = "bearer"
    place = registry.url
    registry.url = other.url
    login = Login(identity_token="refresh-it", source="test")  # noqa: S106 - of the test
    rules = Rules("localhost")
    with Repository(
        parse(f"oci://{place.partition('://')[2]}/team/x:1"),
        Access(Network(resolve=rules), lambda _: login, plain_http=True, may_receive=lambda _: False),
    ) as client:
        client.tags()
    assert other.requests[0][0] == "GET"
    assert "refresh-it" not in str(other.requests + other.forms)


def test_environment_proxy_is_not_used_with_rules(registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy")
    with repository(registry, Rules("registry.test")) as client:
        assert client.tags() == ()


def test_http_is_not_tried_where_a_caller_forbids_it(registry: FakeRegistry) -> None:
    access = Access(Network(), tries_http=False)
    with (
        Repository(parse(f"oci://{registry.host}/team/x:1"), access) as client,
        pytest.raises(ToolError, match="does not speak TLS"),
    ):
        client.tags()
    assert registry.requests == []


def test_time_limit_counts_pauses_between_tries(registry: FakeRegistry) -> None:
    registry.fault = lambda handler, _number: status(503, Retry_After="30")(handler)
    waited: list[float] = []
    with (
        repository(registry, Rules("registry.test"), seconds=5, sleep=waited.append) as client,
        pytest.raises(ToolError, match="status 503"),
    ):
        client.tags()
    assert waited == []
    assert len(registry.requests) == 1


def test_time_limit_ends_an_answer_that_drips(registry: FakeRegistry) -> None:
    def drip(handler: Handler, _number: int) -> bool:
        handler.send_response(200)
        handler.end_headers()
        with suppress(OSError):
            for _ in range(200):
                handler.wfile.write(b" ")
                time.sleep(0.02)
        return True

    registry.fault = drip
    begin = time.monotonic()
    with repository(registry, Rules("registry.test"), seconds=0.4) as client, pytest.raises(ToolError):
        client.tags()
    assert time.monotonic() - begin < 2


def test_time_limit_ends_a_handshake_that_stops() -> None:
    """A server that accepts connections, and never speaks TLS."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        access = Access(Network(resolve=Rules("registry.test"), seconds=0.3), tries_http=False)
        begin = time.monotonic()
        with (
            Repository(parse(f"oci://registry.test:{port}/team/x:1"), access) as client,
            pytest.raises(ToolError, match="not sent everything in time"),
        ):
            client.tags()
        assert time.monotonic() - begin < 2


def test_endless_answers_are_cut(registry: FakeRegistry) -> None:
    registry.fault = lambda handler, _number: endless_body(handler)
    for ask in (Repository.tags, lambda client: client.download(BLOB, io.BytesIO())):
        with (
            repository(registry, Rules("registry.test"), seconds=20) as client,
            pytest.raises(MlpackError, match=r"has more than|has sent more than"),
        ):
            ask(client)


def test_answers_that_only_announce_another_answer_have_an_end() -> None:
    def announce(server: socket.socket) -> None:
        with suppress(OSError):  # the server was closed
            while True:
                connected, _ = server.accept()
                with connected, suppress(OSError):
                    while True:
                        connected.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=announce, args=(server,), daemon=True).start()
        reference = parse(f"oci://127.0.0.1:{server.getsockname()[1]}/x:1")
        access = Access(Network(sleep=lambda _: None, seconds=0.5), plain_http=True)
        with Repository(reference, access) as client, pytest.raises(ToolError, match="not sent everything in time"):
            client.tags()


@pytest.mark.parametrize(
    ("proxy", "message"),
    [
        ("http://127.0.0.1:99999", "is not the address of a proxy"),
        ("http://[::1", "is not the address of a proxy"),
        ("socks5://127.0.0.1:1", "is not the address of a proxy"),
        ("http://a..b:1", "it is not the name of a host"),
    ],
)
def test_invalid_proxy_is_refused(monkeypatch: pytest.MonkeyPatch, proxy: str, message: str) -> None:
    monkeypatch.setenv("https_proxy", proxy)
    monkeypatch.delenv("no_proxy", raising=False)
    access = Access(Network(sleep=lambda _: None))
    with Repository(parse("oci://registry.example/x:1"), access) as client, pytest.raises(ToolError, match=message):
        client.tags()


@pytest.mark.parametrize("name", ["a..b", f"{'a' * 64}.example"])
def test_name_that_no_host_can_have_is_refused(registry: FakeRegistry, name: str) -> None:
    registry.fault = lambda handler, _number: status(307, Location=f"http://{name}/x")(handler)
    with repository(registry, Rules("registry.test", name)) as client, pytest.raises(ToolError):
        client.tags()
    access = Access(Network(sleep=lambda _: None), plain_http=True)
    with (
        Repository(parse(f"oci://{registry.host}/x:1"), access) as client,
        pytest.raises(ToolError, match="not the name of"),
    ):
        client.tags()


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
        reference = parse(f"oci://127.0.0.1:{server.getsockname()[1]}/team/x:1")
        with Repository(reference, Access(Network(), tries_http=False)) as client, pytest.raises(ToolError) as refused:
            client.tags()
        thread.join()
    assert message in str(refused.value)
    assert ("--plain-http" in (refused.value.hint or "")) is ("TLS is" not in message)

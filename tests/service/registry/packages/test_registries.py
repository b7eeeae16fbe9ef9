"""Packages from registries, which may send any response."""

from __future__ import annotations

import ipaddress
import json
import re
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.errors import MlpackError, ToolError, UsageError
from packager.publish import artefact, client, signatures, signer
from packager.publish.artefact import FORMER_LAYER, LAYER
from packager.publish.bundle import BUNDLE
from packager.publish.credentials import Login
from packager.publish.signatures import SignedArtefact
from packager.publish.upload import Descriptor
from packager.service.callbacks import addresses
from packager.service.callbacks.addresses import Allowed, parse
from packager.service.config import RegistryConfig
from packager.service.registry.packages import registries
from packager.service.registry.packages.registries import Registry, pull, read_registries
from tests.service.registry.packages.fake_registry import FakeRegistry, digest_of, registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from packager.publish.signer import Signer
    from tests.service.registry.packages.fake_registry import Answer

CONTENT = b"what a package is does not matter here" * 100
MANIFEST_PATH = "/v2/team/demo/manifests/1.0"


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_FIRST_PAUSE", 0.001)


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    with registry() as fake:
        fake.push("team/demo", "1.0", CONTENT)
        yield fake


def pulled(fake: FakeRegistry, folder: Path, source: str = "team/demo:1.0", **options: Any) -> tuple[bytes, str]:
    options = {"is_insecure": True, **options}
    known = {fake.host: Registry(fake.host, **options)}
    reference = pull(f"oci://{fake.host}/{source}", known, folder / "pulled")
    return (folder / "pulled").read_bytes(), reference


def refused(fake: FakeRegistry, folder: Path, source: str = "team/demo:1.0", **options: Any) -> str:
    with pytest.raises((ToolError, UsageError)) as error:
        pulled(fake, folder, source, **options)
    return str(error.value).replace(fake.host, "HOST")


OURS, OTHER = signer.new("prod"), signer.new("other")


def sign(fake: FakeRegistry, *signers: Signer, digest: str | None = None) -> None:
    """Attach a bundle by each key to the package, in the index that replaces the API for referrers."""
    actual = fake.contents[MANIFEST_PATH][1]
    digest = digest or digest_of(actual)
    subject = SignedArtefact(Descriptor(digest, 1), "x.tar.gz", digest_of(CONTENT))
    entries = []
    for one in signers:
        bundle = signatures.sign(subject, one)
        fake.contents[f"/v2/team/demo/blobs/{digest_of(bundle)}"] = ("application/octet-stream", bundle)
        manifest = artefact.referring(BUNDLE, bundle, subject.manifest, {})
        fake.put("team/demo", digest_of(manifest), manifest)
        entries.append({"digest": digest_of(manifest), "size": len(manifest), "artifactType": BUNDLE})
    tag = digest_of(actual).replace(":", "-")
    fake.put("team/demo", tag, json.dumps({"schemaVersion": 2, "manifests": entries}).encode())


def test_pull_requires_the_signature_of_the_key(fake: FakeRegistry, tmp_path: Path) -> None:
    key = OURS.public
    assert re.fullmatch(
        r"oci://HOST/team/demo@sha256:[0-9a-f]{64} is not signed by prod, as the server requires",
        refused(fake, tmp_path, key=key),
    )
    sign(fake, OTHER)
    assert "a signature is by an unknown key" in refused(fake, tmp_path, key=key)
    sign(fake, OURS, digest=digest_of(b"another"))
    assert "a signature is not accepted: it is of something else" in refused(fake, tmp_path, key=key)
    assert not (tmp_path / "pulled").exists()
    assert not any(digest_of(CONTENT) in path for path, _ in fake.requests)
    sign(fake, OTHER, OURS)
    content, reference = pulled(fake, tmp_path, key=key)
    assert content == CONTENT
    (tmp_path / "pulled").unlink()
    assert pulled(fake, tmp_path, reference.partition(f"{fake.host}/")[2], key=key)[0] == CONTENT


def test_key_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "prod.pub").write_text(OURS.public.pem)
    configured = {"registry.example.com": RegistryConfig(key=str(tmp_path / "prod.pub"))}
    assert read_registries(configured, "packages.registries")["registry.example.com"].key == OURS.public
    (tmp_path / "prod.pub").write_bytes(OURS.pem(None))
    with pytest.raises(
        UsageError, match=r"packages\.registries\.registry\.example\.com\.key: .*prod\.pub: expected one"
    ):
        read_registries(configured, "packages.registries")
    (tmp_path / "prod.pub").unlink()
    with pytest.raises(ToolError, match=r"prod\.pub cannot be read"):
        read_registries(configured, "packages.registries")


def moved(location: str) -> Callable[[], Answer]:
    return lambda: (307, {"Location": location}, b"")


def test_tag_is_resolved_to_the_digest_of_a_manifest(fake: FakeRegistry, tmp_path: Path) -> None:
    digest = fake.push("team/demo", "2.0", CONTENT + b"2")
    content, reference = pulled(fake, tmp_path, "team/demo:2.0")
    assert (content, reference) == (CONTENT + b"2", f"oci://{fake.host}/team/demo@{digest}")
    fake.push("team/demo", "2.0", b"another package, under the same tag")
    (tmp_path / "pulled").unlink()
    assert pulled(fake, tmp_path, f"team/demo@{digest}") == (CONTENT + b"2", reference)


@pytest.mark.parametrize("kind", [LAYER, FORMER_LAYER, LAYER.removesuffix("+gzip")])
def test_pull_accepts_each_layer_type(fake: FakeRegistry, tmp_path: Path, kind: str) -> None:
    fake.push("team/demo", "1.0", CONTENT, mediaType=kind)
    assert pulled(fake, tmp_path)[0] == CONTENT


@pytest.mark.parametrize(
    "source",
    [
        "",
        "host",
        "host/demo",
        "host/demo:",
        "host/demo:a b",
        "host/Demo:1",
        "host/../x:1",
        "host/a//b:1",
        "host/a/../b:1",
        "host/demo@sha256:12",
        "host/demo@sha512:" + "0" * 64,
        "user:password@host/demo:1",
        "host:0/demo:1",
        "host/demo:1?x=1",
        "host/demo:1#x",
        "host/demo%2f..:1",
        "h\nost/demo:1",
        "host/" + "a/" * 200 + "b:1",
    ],
)
def test_pull_refuses_faulty_references(tmp_path: Path, source: str) -> None:
    with pytest.raises(
        UsageError, match=r"^invalid reference .*: expected oci://HOST|names neither a tag nor a digest$"
    ):
        pull(f"oci://{source}", {"host": Registry("host")}, tmp_path / "pulled")


def test_pull_refuses_hosts_that_are_not_listed(fake: FakeRegistry, tmp_path: Path) -> None:
    for source in (f"oci://{fake.host}/team/demo:1.0", "oci://169.254.169.254/team/demo:1.0"):
        with pytest.raises(UsageError, match=r"^the server pulls no packages from [0-9.:]+$") as error:
            pull(source, {"registry.example.com": Registry("registry.example.com")}, tmp_path / "pulled")
        assert error.value.hint == "there are registry.example.com"
    assert fake.requests == []


def test_pull_uses_http_only_for_insecure_registries(fake: FakeRegistry, tmp_path: Path) -> None:
    assert refused(fake, tmp_path, is_insecure=False) == "HOST does not speak TLS"
    assert fake.requests == []


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (b"", ": the manifest is not valid: line 1, column 1: Expecting value"),
        (b"[]", ": the manifest is not valid: expected a JSON object, found an empty list"),
        (b"[" * 60_000, ": the manifest is not valid: expected values in at most 64 others, found deeper ones"),
        (
            b'{"layers": [' + b"1" * 60_000 + b"]}",
            ": the manifest is not valid: expected a number of at most 64 bits, found 111111111111111111111111",
        ),
        (b"{" + b" " * (4 << 20) + b"}", None),
        (b'{"manifests": []}', " is an index of several artefacts, not a package"),
        (b"{}", " is not a package: expected one layer, found no, with a config of the type nothing"),
        (b'{"layers": [{}, {}]}', " is not a package: expected one layer, found 2, with a config of the type nothing"),
        (b'{"layers": [5]}', " is not a package: expected one layer, found 1, with a config of the type nothing"),
    ],
)
def test_pull_refuses_faulty_manifests(
    fake: FakeRegistry, tmp_path: Path, manifest: bytes, message: str | None
) -> None:
    fake.put("team/demo", "1.0", manifest)
    too_large = f"http://HOST{MANIFEST_PATH}: the manifest has more than 4,096 KiB"
    assert refused(fake, tmp_path) == (too_large if message is None else f"oci://HOST/team/demo:1.0{message}")
    assert not (tmp_path / "pulled").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mediaType": "application/octet-stream"}, "expected a layer of the type"),
        ({"digest": "sha256:0"}, "the layer: expected a digest of sha256, found 'sha256:0'"),
        ({"digest": "sha256:../../x"}, "the layer: expected a digest of sha256"),
        ({"digest": 5}, "the layer: expected a digest of sha256, found the number 5"),
        ({"size": 129 << 20}, "expected a layer of at most 128 MiB, found 135,266,304 bytes"),
        ({"size": 0}, "expected a layer of at most 128 MiB"),
        ({"size": -1}, "the layer: expected a size"),
        ({"size": True}, "the layer: expected a size"),
        ({"size": 10}, "the registry has sent more than 10 bytes"),
        (
            {"digest": digest_of(b"x")},
            "the registry has sent other content: expected 3,800 bytes, found 3,800 with the digest sha256:",
        ),
    ],
)
def test_pull_refuses_layers_with_a_wrong_type_size_or_digest(
    fake: FakeRegistry, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    fake.push("team/demo", "1.0", CONTENT, **changes)
    shown = refused(fake, tmp_path)
    assert shown.startswith("oci://HOST/team/demo")
    assert message in shown


def test_pull_refuses_a_manifest_with_another_digest(fake: FakeRegistry, tmp_path: Path) -> None:
    digest = fake.push("team/demo", "1.0", CONTENT)
    fake.contents[f"/v2/team/demo/manifests/{digest}"] = fake.contents.pop(MANIFEST_PATH)
    other = fake.push("team/demo", "2.0", b"other")
    fake.contents[f"/v2/team/demo/manifests/{digest}"] = fake.contents[f"/v2/team/demo/manifests/{other}"]
    message = f"oci://HOST/team/demo@{digest}: the registry has sent another manifest: expected {digest}, found {other}"
    assert refused(fake, tmp_path, f"team/demo@{digest}") == message


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (404, "oci://HOST/team/demo:1.0 not found"),
        (403, "HOST refuses a request without credentials (status 403)"),
        (500, "oci://HOST/team/demo: the registry has answered with status 500"),
    ],
)
def test_pull_reports_error_status_of_registry(fake: FakeRegistry, tmp_path: Path, status: int, message: str) -> None:
    fake.answers[MANIFEST_PATH] = lambda: (status, {}, b"<html>")
    assert refused(fake, tmp_path) == message


LOGIN = Login("robot", "secret-word", source="server.yaml")
BASIC = "Basic cm9ib3Q6c2VjcmV0LXdvcmQ="


def test_password_is_sent_to_a_registry_that_requires_it(fake: FakeRegistry, tmp_path: Path) -> None:
    fake.asks_for = "basic"
    assert refused(fake, tmp_path) == "HOST asks for a user name and a password"
    assert pulled(fake, tmp_path, login=LOGIN)[0] == CONTENT
    assert [header for _, header in fake.requests[-2:]] == [BASIC, BASIC]
    assert "secret-word" not in repr(Registry("h", LOGIN))


def test_token_of_the_registry_is_requested_with_the_password(fake: FakeRegistry, tmp_path: Path) -> None:
    fake.asks_for = f"http://{fake.host}/token"
    assert pulled(fake, tmp_path, login=LOGIN)[0] == CONTENT
    issuing = "/token?service=registry&scope=repository%3Ateam%2Fdemo%3Apull"
    paths = [(MANIFEST_PATH, None), (issuing, BASIC), (MANIFEST_PATH, "Bearer issued")]
    assert fake.requests[:3] == paths
    assert fake.requests[3][1] == "Bearer issued"


def test_password_is_not_sent_to_other_token_issuers(fake: FakeRegistry, tmp_path: Path) -> None:
    with registry() as other:
        for realm, message in (
            (f"http://{other.host}/token", "HOST: expected port 443, found "),
            ("http://127.0.0.1:443/token", "HOST: expected https, found http"),
            ("https://127.0.0.1/token", "HOST: 127.0.0.1 is not a public address, or has one that is not"),
        ):
            fake.asks_for = realm
            assert refused(fake, tmp_path, login=LOGIN).startswith(message)
        assert other.requests == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"token": 5}',
        b'{"token": "a b"}',
        b'{"token": "a\\r\\nx: y"}',
        b'{"token": ""}',
        b"x" * 270_000,
    ],
)
def test_pull_refuses_faulty_tokens(fake: FakeRegistry, tmp_path: Path, body: bytes) -> None:
    fake.asks_for = f"http://{fake.host}/token"
    fake.answers["/token"] = lambda: (200, {}, body)
    assert re.search("not a token|more than 256 KiB", refused(fake, tmp_path))


def test_pull_ends_when_the_registry_rejects_its_own_token(fake: FakeRegistry, tmp_path: Path) -> None:
    fake.asks_for = f"http://{fake.host}/token"
    fake.answers["/token"] = lambda: (200, {}, b'{"token": "other"}')
    assert refused(fake, tmp_path) == "HOST refuses a request without credentials (status 401)"
    assert [path for path, _ in fake.requests].count(MANIFEST_PATH) == 2


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("http://169.254.169.254/latest/meta-data", "HOST: expected port 443, found 80"),
        ("https://169.254.169.254/latest/meta-data", "HOST: 169.254.169.254 is not a public address"),
        ("https://[fe80::1]/x", "HOST: fe80::1 is not a public address"),
        ("https://[::ffff:10.0.0.1]/x", "HOST: ::ffff:a00:1 is not a public address"),
        ("https://2130706433/x", "HOST: expected a host name, or an address in its usual form, found '2130706433'"),
        ("https://localhost/x", "HOST: localhost is not a public address"),
        ("https://127.0.0.1:6443/api", "HOST: expected port 443, found 6443"),
        ("http://127.0.0.1:443/api", "HOST: expected https, found http"),
        ("https://user:password@example.com/x", "expected an http or https address, found"),
        ("//example.com/x", "HOST: expected port 443, found 80"),
        ("file:///etc/passwd", "expected an http or https address, found"),
        ("", "http://HOST/v2/team/demo/"),
    ],
)
def test_redirects_lead_only_to_public_addresses(
    fake: FakeRegistry, tmp_path: Path, location: str, message: str
) -> None:
    for path in (MANIFEST_PATH, f"/v2/team/demo/blobs/{digest_of(CONTENT)}"):
        fake.answers = {path: moved(location)}
        assert refused(fake, tmp_path).startswith(message)


def test_redirect_to_another_host_gets_no_credentials(fake: FakeRegistry, tmp_path: Path) -> None:
    fake.asks_for = "basic"
    blob = f"/v2/team/demo/blobs/{digest_of(CONTENT)}"
    fake.contents["/elsewhere"] = ("application/octet-stream", CONTENT)
    fake.answers[blob] = moved("/elsewhere")
    assert pulled(fake, tmp_path, login=LOGIN)[0] == CONTENT
    assert fake.requests[-1] == ("/elsewhere", BASIC)
    with registry() as other, pytest.MonkeyPatch.context() as patch:
        other.contents["/cdn"] = ("application/octet-stream", CONTENT)
        fake.answers[blob] = moved(f"http://{other.host}/cdn")
        (tmp_path / "pulled").unlink()
        patch.setattr(addresses, "parse", lambda url, _allowed: parse(url, Allowed(frozenset({"127.0.0.1"}))))
        assert pulled(fake, tmp_path, login=LOGIN)[0] == CONTENT
        assert other.requests == [("/cdn", None)]


def test_redirected_name_is_resolved_once_and_must_have_public_addresses_only(
    fake: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later answers of the name server, with other addresses, have no effect on a connection."""
    fake.answers[f"/v2/team/demo/blobs/{digest_of(CONTENT)}"] = moved("https://cdn.example.com/x")
    answers = [["8.8.8.8", "10.0.0.1"], ["8.8.8.8"], ["127.0.0.1"]]
    asked: list[str] = []
    connected: list[object] = []
    create_connection = socket.create_connection

    def resolve(host: str, _port: int) -> list[object]:
        asked.append(host)
        return [ipaddress.ip_address(address) for address in answers[len(asked) - 1]]

    def connect(address: tuple[str, int], seconds: float) -> socket.socket:
        if address[0] == "127.0.0.1":
            return create_connection(address, seconds)
        connected.append(address)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(registries, "system_addresses", resolve)
    monkeypatch.setattr(socket, "create_connection", connect)
    assert refused(fake, tmp_path) == "HOST: cdn.example.com is not a public address, or has one that is not"
    assert (asked, connected) == (["cdn.example.com"], [])
    (tmp_path / "pulled").unlink()
    assert "cdn.example.com cannot be reached" in refused(fake, tmp_path)
    assert (asked[1:], connected) == (["cdn.example.com"], [("8.8.8.8", 443)])


def test_slow_name_server_ends_a_pull(fake: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registries, "_NAME_SECONDS", 0.1)
    monkeypatch.setattr(registries, "system_addresses", lambda _host, _port: time.sleep(0.5))
    fake.answers[MANIFEST_PATH] = moved("https://slow.example.com/x")
    assert refused(fake, tmp_path) == "HOST: the name server does not know slow.example.com"


def test_password_is_sent_to_the_token_host_only_over_https(fake: FakeRegistry, tmp_path: Path) -> None:
    with registry() as issuer:
        fake.asks_for = f"http://{issuer.host}/token"
        assert "expected" in refused(fake, tmp_path, login=LOGIN, token_host=issuer.host)
        fake.asks_for = f"https://{issuer.host}/token"
        assert refused(fake, tmp_path, login=LOGIN, token_host=issuer.host) == f"{issuer.host} does not speak TLS"
        assert issuer.requests == []


def test_busy_registry_cannot_prolong_a_pull(
    fake: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registries, "SECONDS", 5)
    fake.answers[MANIFEST_PATH] = lambda: (503, {"Retry-After": "30"}, b"")
    begin = time.monotonic()
    assert "status 503" in refused(fake, tmp_path)
    assert time.monotonic() - begin < 3


def test_pull_follows_at_most_five_redirects(fake: FakeRegistry, tmp_path: Path) -> None:
    fake.answers[MANIFEST_PATH] = moved(MANIFEST_PATH)
    assert refused(fake, tmp_path) == "HOST redirects more than 5 times"
    assert len(fake.requests) == 6


def test_pull_times_out_on_a_slow_registry(fake: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registries, "SECONDS", 0.3)

    def slow() -> Answer:
        time.sleep(1)
        return 200, {}, b"{}"

    fake.answers[MANIFEST_PATH] = slow
    assert refused(fake, tmp_path).startswith("the registry has not sent everything in time: ")


def test_pull_refuses_truncated_layers(fake: FakeRegistry, tmp_path: Path) -> None:
    blob = f"/v2/team/demo/blobs/{digest_of(CONTENT)}"
    fake.answers[blob] = lambda: (200, {"Content-Length": str(len(CONTENT) + 9)}, CONTENT)
    assert refused(fake, tmp_path).startswith("http://HOST/v2/team/demo/blobs/")


def test_compressed_responses_are_not_expanded(fake: FakeRegistry, tmp_path: Path) -> None:
    fake.answers[MANIFEST_PATH] = lambda: (200, {"Content-Encoding": "gzip"}, b"\x1f\x8b" + b"0" * 100)
    assert "the manifest is not valid" in refused(fake, tmp_path)


def test_passwords_are_read_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "password").write_text("one\n", encoding="utf-8")
    monkeypatch.setenv("REGISTRY_PASSWORD", "two")
    configured = {
        "a.example.com": RegistryConfig(username="robot", password_file=str(tmp_path / "password")),
        "b.example.com": RegistryConfig(username="robot", password_variable="REGISTRY_PASSWORD"),  # noqa: S106 - a name
        "c.example.com": RegistryConfig(insecure=True),
    }
    known = read_registries(configured, "packages.registries")
    assert [item.login and item.login.password for item in known.values()] == ["one", "two", None]
    assert [item.is_insecure for item in known.values()] == [False, False, True]
    for wrong in (
        RegistryConfig(username="robot", password_variable="NOT_SET"),  # noqa: S106 - a name
        RegistryConfig(username="robot", password_file=str(tmp_path / "no")),
        RegistryConfig(ca_file=str(tmp_path / "password")),
    ):
        with pytest.raises(MlpackError):
            read_registries({"a.example.com": wrong}, "packages.registries")

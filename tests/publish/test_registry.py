"""Tests of the client: what it sends and accepts, and that faults and hostile answers leave nothing behind."""

from __future__ import annotations

import io
import json
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.errors import MlpackError, ToolError, UsageError, VerificationError
from packager.base.process import SYSTEM
from packager.base.web import Network
from packager.publish import registry as client
from packager.publish.artefact import MANIFEST, Descriptor
from packager.publish.client import Access
from packager.publish.credentials import Login
from packager.publish.pull import pull
from packager.publish.push import push
from packager.publish.reference import parse
from packager.publish.registry import Repository
from packager.verify import Checks
from tests.publish import fake_registry
from tests.publish.fake_registry import (
    IDENTITY_TOKEN,
    PASSWORD,
    USER,
    cut,
    digest_of,
    endless_body,
    no_http,
    other_digest,
    short_body,
    silent,
    status,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.publish.fake_registry import FakeRegistry, Fault, Handler

LOGIN = Login(USER, PASSWORD, source="test")


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for answers as long as a busy machine needs."""
    monkeypatch.setitem(WAITING, "silent", 20.0)


WAITING: dict[str, Any] = {"silent": 20.0}


def access(login: Login | None = None, **options: Any) -> Access:
    return Access(Network(sleep=lambda _seconds: None, **WAITING, **options), lambda _: login, plain_http=True)


def quiet(*_arguments: object, **_options: object) -> nullcontext[Callable[[int], None]]:
    return nullcontext(lambda _: None)


def pushed(registry: FakeRegistry, archive: Path, kubectl: Path, login: Login | None = None, **options: Any) -> Any:
    reference = parse(f"oci://{registry.host}/team/hello-mpi:1.0")
    checks = Checks((str(kubectl),), runner=SYSTEM)
    quietly: Any = {"tell": lambda _: None, "progress": quiet}
    return push(archive, reference, access(login), checks, is_verified=True, **quietly, **options)


def pulled(registry: FakeRegistry, folder: Path, login: Login | None = None) -> Path:
    reference = parse(f"oci://{registry.host}/team/hello-mpi:1.0")
    with Repository(reference, access(login)) as repository:
        return pull(repository, reference, folder, progress=quiet).path


def repository(registry: FakeRegistry, login: Login | None = None, **options: Any) -> Repository:
    return Repository(parse(f"oci://{registry.host}/team/x:1"), access(login, **options), may_push=True)


def test_push_sends_blobs_then_manifest_then_tag_and_nothing_again(
    registry: FakeRegistry, archive: Path, kubectl: Path, tmp_path: Path
) -> None:
    result = pushed(registry, archive, kubectl)
    changing = [(method, path.partition("?")[0]) for method, path, _ in registry.requests if method != "HEAD"]
    base = "/v2/team/hello-mpi"
    assert changing == [
        ("POST", f"{base}/blobs/uploads/"),
        ("PUT", f"{base}/blobs/uploads/u0"),
        ("POST", f"{base}/blobs/uploads/"),
        ("PUT", f"{base}/blobs/uploads/u0"),
        ("PUT", f"{base}/manifests/{result.artefact.digest}"),
        ("PUT", f"{base}/manifests/1.0"),
    ]
    assert registry.artefact("team/hello-mpi", "1.0") == archive.read_bytes()
    assert pulled(registry, tmp_path).read_bytes() == archive.read_bytes()
    before = len(registry.requests)
    again = pushed(registry, archive, kubectl)
    assert (result.is_new, again.is_new, again.sent) == (True, False, ())
    assert [method for method, _, _ in registry.requests[before:]] == ["HEAD"]


def test_push_moves_tag_only_with_force(registry: FakeRegistry, archive: Path, kubectl: Path) -> None:
    first = pushed(registry, archive, kubectl)
    with pytest.raises(VerificationError, match="names another artefact") as error:
        pushed(registry, archive, kubectl, annotations={"team": "x"})
    assert first.artefact.digest in str(error.value)
    assert error.value.hint == "--force moves the tag"
    moved = pushed(registry, archive, kubectl, annotations={"team": "x"}, force=True)
    assert digest_of(registry.manifests["team/hello-mpi", "1.0"]) == moved.artefact.digest


FAULTS: dict[str, Fault] = {
    "cut": cut,
    "silent": silent,
    "no-http": no_http,
    "endless": endless_body,
    "short": short_body,
    "other-digest": other_digest,
    "500": status(500),
    "429": status(429, Retry_After="99999"),
    "401": status(401),
    "413": status(413),
    "302-nowhere": status(302),
    "307-loop": status(307, Location="/v2/"),
}
EACH = [pytest.param(name, marks=() if name == "cut" else pytest.mark.thorough) for name in FAULTS]


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of temporary files, which is to be empty in the end."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def exit_code(call: Callable[..., object], *arguments: Any) -> int:
    """Return the exit code of the command that makes the call."""
    try:
        call(*arguments)
    except MlpackError as error:
        return error.exit_code
    return 0


def at(number: int, fault: Fault, *, always: bool = False) -> Callable[[Handler, int], bool]:
    """Return the fault for one request, or for all from that one on."""
    return lambda handler, count: (count >= number if always else count == number) and fault(handler)


@pytest.mark.parametrize("name", EACH)
def test_push_is_whole_or_the_tag_is_absent(
    archive: Path, kubectl: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if name == "silent":
        monkeypatch.setitem(WAITING, "silent", 0.1)
        monkeypatch.setattr(client, "_FINISH_SECONDS", 0.1)
    results = []
    for number, always in [*((number, False) for number in range(10)), (0, True), (6, True)]:
        with fake_registry.serving() as registry:
            registry.fault = at(number, FAULTS[name], always=always)
            code = exit_code(pushed, registry, archive, kubectl)
            content = registry.artefact("team/hello-mpi", "1.0")
            results.append(code)
            assert content in (None, archive.read_bytes())
            assert code != 0 or content is not None
            assert code in (0, 5, 6)
            assert [*temporary.iterdir()] == []
    if name in ("cut", "500", "429", "no-http"):
        assert results == [0] * 10 + [6] * 2


@pytest.mark.parametrize("name", EACH)
def test_pull_writes_the_archive_or_nothing(
    registry: FakeRegistry, archive: Path, kubectl: Path, tmp_path: Path, temporary: Path, name: str
) -> None:
    pushed(registry, archive, kubectl)
    if name == "silent":
        WAITING["silent"] = 0.1
    for number, always in [(0, False), (1, False), (2, False), (0, True), (2, True)]:
        folder = tmp_path / f"out-{number}-{always}"
        folder.mkdir()
        registry.requests.clear()
        registry.fault = at(number, FAULTS[name], always=always)
        code = exit_code(pulled, registry, folder)
        written = [file.read_bytes() for file in folder.iterdir()]
        assert (code, written) in ((0, [archive.read_bytes()]), (5, []), (6, []))
        assert [*temporary.iterdir()] == []


def test_download_continues_where_the_connection_broke(registry: FakeRegistry) -> None:
    content = bytes(range(256)) * 4096
    registry.blobs[digest_of(content)] = content

    def fault(handler: Handler, count: int) -> bool:
        handler.cut_body = 300_000 if count < 2 else None
        return False

    registry.fault = fault
    stream = io.BytesIO()
    with repository(registry) as client:
        client.download(Descriptor(digest_of(content), len(content)), stream)
    assert stream.getvalue() == content
    assert len(registry.requests) == 3


@pytest.mark.parametrize(
    ("kind", "login"),
    [
        ("basic", LOGIN),
        ("bearer", LOGIN),
        ("bearer", Login(identity_token=IDENTITY_TOKEN, source="test")),
    ],
    ids=["basic", "bearer", "identity-token"],
)
def test_push_and_pull_authenticate(
    registry: FakeRegistry, archive: Path, kubectl: Path, tmp_path: Path, kind: str, login: Login
) -> None:
    registry.asks_for = kind
    pushed(registry, archive, kubectl, login)
    assert registry.requests[0][::2] == ("HEAD", None)
    assert pulled(registry, tmp_path, login).read_bytes() == archive.read_bytes()
    if login.identity_token:
        assert registry.forms[0] == {
            "grant_type": ["refresh_token"],
            "service": ["registry"],
            "client_id": ["mlpack"],
            "scope": ["repository:team/hello-mpi:pull,push"],
            "refresh_token": [IDENTITY_TOKEN],
        }


def test_token_is_renewed_in_the_middle_of_a_push(registry: FakeRegistry, archive: Path, kubectl: Path) -> None:
    registry.asks_for, registry.uses = "bearer", 3
    pushed(registry, archive, kubectl, LOGIN)
    assert registry.artefact("team/hello-mpi", "1.0") is not None
    assert len(registry.forms) > 2


def test_push_without_credentials_suggests_login(registry: FakeRegistry, archive: Path, kubectl: Path) -> None:
    registry.asks_for = "basic"
    with pytest.raises(ToolError, match="asks for a user name and a password") as error:
        pushed(registry, archive, kubectl)
    assert error.value.hint == f"log in: podman login {registry.host}"
    with pytest.raises(ToolError, match="refuses the credentials from test"):
        pushed(registry, archive, kubectl, Login(USER, "wrong", source="test"))


@pytest.fixture
def other() -> Iterator[FakeRegistry]:
    """Another host with blobs."""
    with fake_registry.serving() as registry:
        yield registry


def test_credentials_do_not_follow_redirects_to_other_hosts(
    registry: FakeRegistry, other: FakeRegistry, archive: Path, kubectl: Path, tmp_path: Path
) -> None:
    registry.asks_for = "bearer"
    pushed(registry, archive, kubectl, LOGIN)
    other.blobs, registry.redirect = registry.blobs, other.url
    assert pulled(registry, tmp_path, LOGIN).read_bytes() == archive.read_bytes()
    assert len(other.requests) == 2
    assert {authorization for _, _, authorization in other.requests} == {None}


def test_redirect_from_https_to_http_is_refused(other: FakeRegistry, certificate: tuple[str, str]) -> None:
    with fake_registry.serving(certificate) as safe:
        safe.redirect = other.url
        secured = Access(Network(ca_file=certificate[0], sleep=lambda _: None))
        with (
            Repository(parse(f"oci://{safe.host}/team/x:1"), secured) as client,
            pytest.raises(ToolError, match="leads to an address without encryption"),
        ):
            client.download(Descriptor(digest_of(b"x"), 1), io.BytesIO())
    assert other.requests == []


def test_unknown_certificate_is_refused_and_not_bypassed(certificate: tuple[str, str]) -> None:
    with fake_registry.serving(certificate) as safe:
        with (
            Repository(parse(f"oci://{safe.host}/team/x:1"), Access(Network(sleep=lambda _: None))) as client,
            pytest.raises(ToolError, match="certificate of localhost is not accepted") as error,
        ):
            client.digest_of("1")
        hint = "--ca-file FILE, or SSL_CERT_FILE in the environment, trusts the authority that has signed it"
        assert error.value.hint == hint
        assert safe.requests == []
        with Repository(parse(f"oci://{safe.host}/team/x:1"), Access(Network(ca_file=certificate[0]))) as client:
            assert client.digest_of("1") is None


def descriptor(content: bytes = b"x", **changes: Any) -> dict[str, Any]:
    layer = "application/vnd.oci.image.layer.v1.tar+gzip"
    return {"mediaType": layer, "digest": digest_of(content), "size": len(content), **changes}


def manifest(*layers: Any, **changes: Any) -> bytes:
    config = descriptor(b"{}", mediaType="application/vnd.oci.image.config.v1+json")
    value = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [*layers], **changes}
    return json.dumps(value).encode()


LARGE_CONFIG = descriptor(mediaType="application/vnd.oci.image.config.v1+json", size=100 << 20)
HOSTILE = {
    "no-json": (b"{", "is not a valid manifest"),
    "a-list": (b"[]", "Expected `object`, got `array`"),
    "no-layer": (manifest(), "expected one layer, found 0"),
    "many-layers": (manifest(*[descriptor()] * 10_000), "expected one layer, found 10,000"),
    "index": (manifest(manifests=[]), "is an index of several artefacts"),
    "negative": (manifest(descriptor(size=-1)), r"at `\$.layers\[0\].size`"),
    "huge": (manifest(descriptor(size=2**63)), r"at `\$.layers\[0\].size`"),
    "true": (manifest(descriptor(size=True)), r"at `\$.layers\[0\].size`"),
    "sha512": (manifest(descriptor(digest="sha512:" + "0" * 128)), r"at `\$.layers\[0\].digest`"),
    "helm": (manifest(descriptor(mediaType="x/y")), "found 'x/y', with a config of the type"),
    "large-config": (manifest(descriptor(), config=LARGE_CONFIG), "expected at most 4 MiB"),
    "long": (b" " * (5 << 20), "has more than 4,096 KiB"),
}


def test_pull_refuses_hostile_manifests(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.blobs[digest_of(b"{}")] = b"{}"
    for name, (content, message) in HOSTILE.items():
        registry.put("team/hello-mpi", "1.0", content)
        with pytest.raises(MlpackError, match=message) as error:
            pulled(registry, tmp_path)
        assert error.value.exit_code in (5, 6), name
        assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("layer", "size", "message"),
    [
        (b"not a gzip", None, "is not a package, or is damaged"),
        (b"more", 3, "has sent more than 3 bytes"),
        (b"less", 5, "has sent other content"),
    ],
)
def test_pull_refuses_hostile_layers(
    registry: FakeRegistry, tmp_path: Path, layer: bytes, size: int | None, message: str
) -> None:
    registry.blobs |= {digest_of(layer): layer, digest_of(b"{}"): b"{}"}
    registry.put("team/hello-mpi", "1.0", manifest(descriptor(layer, size=len(layer) if size is None else size)))
    with pytest.raises(VerificationError, match=message):
        pulled(registry, tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_pull_takes_the_name_of_the_repository_instead_of_a_hostile_one(
    registry: FakeRegistry, archive: Path, tmp_path: Path
) -> None:
    """The artefact is one of Flux: it has other types than ours."""
    content = archive.read_bytes()
    registry.blobs |= {digest_of(content): content, digest_of(b"{}"): b"{}"}
    config = descriptor(b"{}", mediaType="application/vnd.cncf.flux.config.v1+json")
    for number, title in enumerate(["../../evil.tar.gz", "/etc/x.tar.gz", "x.sh", ".tar.gz", "\x1b.tar.gz"]):
        annotations = {"org.opencontainers.image.title": title}
        kind = "application/vnd.cncf.flux.content.v1.tar+gzip"
        layer = descriptor(content, mediaType=kind, annotations=annotations)
        registry.put("team/hello-mpi", "1.0", manifest(layer, config=config))
        folder = tmp_path / str(number)
        folder.mkdir()
        assert pulled(registry, folder) == folder / "hello-mpi.tar.gz"
        assert (folder / "hello-mpi.tar.gz").read_bytes() == content


def test_tag_with_another_digest_than_claimed_is_refused(
    registry: FakeRegistry, archive: Path, kubectl: Path, tmp_path: Path
) -> None:
    pushed(registry, archive, kubectl)
    registry.fault = at(len(registry.requests), other_digest)
    with pytest.raises(VerificationError, match="the registry has sent another manifest"):
        pulled(registry, tmp_path)


def test_reference_without_version_is_refused(registry: FakeRegistry) -> None:
    reference = parse(f"oci://{registry.host}/team/hello-mpi")
    with Repository(reference, access()) as repository, pytest.raises(UsageError, match="neither a tag nor a digest"):
        repository.stored(reference.version, str(reference))
    assert registry.requests == []

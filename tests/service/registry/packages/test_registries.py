"""Packages from registries, which may send any response."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.errors import ToolError, UsageError
from packager.publish import artefact, client, signatures, signer
from packager.publish.credentials import Login
from packager.publish.dsse import BUNDLE
from packager.publish.signatures import SignedArtefact
from packager.publish.upload import Descriptor
from packager.service.registry.packages.registries import Registry, pull
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


def moved(location: str) -> Callable[[], Answer]:
    return lambda: (307, {"Location": location}, b"")


def test_pull_refuses_hosts_that_are_not_listed(fake: FakeRegistry, tmp_path: Path) -> None:
    for source in (f"oci://{fake.host}/team/demo:1.0", "oci://169.254.169.254/team/demo:1.0"):
        with pytest.raises(UsageError, match=r"^the server pulls no packages from [0-9.:]+$") as error:
            pull(source, {"registry.example.com": Registry("registry.example.com")}, tmp_path / "pulled")
        assert error.value.hint == "there are registry.example.com"
    assert fake.requests == []


def test_pull_uses_http_only_for_insecure_registries(fake: FakeRegistry, tmp_path: Path) -> None:
    assert refused(fake, tmp_path, is_insecure=False) == "HOST does not speak TLS"
    assert fake.requests == []


def test_pull_refuses_a_manifest_with_another_digest(fake: FakeRegistry, tmp_path: Path) -> None:
    digest = fake.push("team/demo", "1.0", CONTENT)
    fake.contents[f"/v2/team/demo/manifests/{digest}"] = fake.contents.pop(MANIFEST_PATH)
    other = fake.push("team/demo", "2.0", b"other")
    fake.contents[f"/v2/team/demo/manifests/{digest}"] = fake.contents[f"/v2/team/demo/manifests/{other}"]
    message = f"oci://HOST/team/demo@{digest}: the registry has sent another manifest: expected {digest}, found {other}"
    assert refused(fake, tmp_path, f"team/demo@{digest}") == message


def test_pull_refuses_a_layer_with_another_digest(fake: FakeRegistry, tmp_path: Path) -> None:
    fake.push("team/demo", "1.0", CONTENT, digest=digest_of(b"x"))
    assert "the registry has sent other content: expected 3,800 bytes" in refused(fake, tmp_path)


LOGIN = Login("robot", "secret-word", source="server.yaml")
BASIC = "Basic cm9ib3Q6c2VjcmV0LXdvcmQ="


def test_password_is_sent_to_a_registry_that_requires_it(fake: FakeRegistry, tmp_path: Path) -> None:
    fake.asks_for = "basic"
    assert refused(fake, tmp_path) == "HOST asks for a user name and a password"
    assert pulled(fake, tmp_path, login=LOGIN)[0] == CONTENT
    assert [header for _, header in fake.requests[-2:]] == [BASIC, BASIC]
    assert "secret-word" not in repr(Registry("h", LOGIN))


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
    ("location", "message"),
    [
        ("http://169.254.169.254/latest/meta-data", "HOST: expected port 443, found 80"),
        ("https://169.254.169.254/latest/meta-data", "HOST: 169.254.169.254 is not a public address"),
        ("file:///etc/passwd", "expected an http or https address, found"),
    ],
)
def test_redirects_lead_only_to_public_addresses(
    fake: FakeRegistry, tmp_path: Path, location: str, message: str
) -> None:
    for path in (MANIFEST_PATH, f"/v2/team/demo/blobs/{digest_of(CONTENT)}"):
        fake.answers = {path: moved(location)}
        assert refused(fake, tmp_path).startswith(message)

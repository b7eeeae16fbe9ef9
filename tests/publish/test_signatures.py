"""Tests of signatures of packages: what is written, what is accepted, and hostile answers of registries."""

from __future__ import annotations

import base64
import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from packager.base.errors import ToolError, UsageError, VerificationError
from packager.base.web import Network
from packager.publish import artefact, keys
from packager.publish.artefact import INDEX, MANIFEST, Artefact, Descriptor, Layer
from packager.publish.client import Access
from packager.publish.reference import parse
from packager.publish.registry import Repository
from packager.publish.signatures import (
    BUNDLE,
    SIGNATURE,
    attach,
    bundle,
    find,
    judge,
    referring,
    sign,
    statement,
)
from tests import tools
from tests.publish.fake_registry import digest_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packager.publish.keys import Signer
    from tests.publish.fake_registry import FakeRegistry

OURS = keys.Signer(ec.generate_private_key(ec.SECP256R1()), "prod")
OTHER = keys.Signer(ec.generate_private_key(ec.SECP256R1()), "other")
PACKAGE = b'{"schemaVersion":2}'
DIGEST = digest_of(PACKAGE)
LAYER = digest_of(b"archive")


@pytest.fixture
def repository(registry: FakeRegistry) -> Iterator[Repository]:
    """A repository with an artefact."""
    registry.put("team/x", "1.0", PACKAGE)
    reference = parse(f"oci://{registry.host}/team/x:1.0")
    with Repository(reference, Access(Network(sleep=lambda _: None)), may_push=True) as repository:
        yield repository


SIGNED = Artefact(PACKAGE, b"{}", Layer("x.tar.gz", Descriptor(LAYER, 7), LAYER))


def put_blob(registry: FakeRegistry, content: bytes) -> dict[str, Any]:
    registry.blobs[digest_of(content)] = content
    return {"digest": digest_of(content), "size": len(content)}


def put_bundle(registry: FakeRegistry, content: bytes, **changes: Any) -> None:
    """Let a manifest with a bundle refer to the artefact."""
    put_blob(registry, content)
    put_blob(registry, b"{}")
    value = json.loads(referring(content, Descriptor(DIGEST, len(PACKAGE)), len(registry.manifests)))
    value["layers"][0] |= changes
    registry.has_referrers = True
    registry.put("team/x", "attached", json.dumps(value).encode())


def bundle_by(key: Signer, *subjects: str, predicate: str = SIGNATURE, **changes: Any) -> bytes:
    payload = statement((digest, "") for digest in subjects or (DIGEST,))
    value = json.loads(bundle(payload.replace(SIGNATURE.encode(), predicate.encode()), key))
    value["dsseEnvelope"] |= changes
    return json.dumps(value).encode()


@pytest.mark.parametrize(("has_referrers", "lists_configs"), [(True, True), (True, False), (False, False)])
def test_signature_is_attached_once(
    registry: FakeRegistry, repository: Repository, *, has_referrers: bool, lists_configs: bool
) -> None:
    registry.has_referrers, registry.lists_configs = has_referrers, lists_configs
    assert attach(repository, SIGNED, [OURS])
    (one,) = find(repository, DIGEST, [OTHER.public, OURS.public])
    assert (one.signer, one.fingerprint, one.problem) == ("prod", OURS.public.fingerprint, None)
    assert str(one) == f"by prod {OURS.public.fingerprint}"
    (one,) = find(repository, DIGEST, [])
    assert str(one) == f"by an unknown key {OURS.public.fingerprint}: not trusted"
    fallback = ("team/x", f"sha256-{DIGEST[7:]}") in registry.manifests
    assert fallback is not has_referrers
    assert not attach(repository, SIGNED, [OURS])
    assert attach(repository, SIGNED, [OTHER, OURS])
    assert {one.signer for one in find(repository, DIGEST, [OURS.public, OTHER.public])} == {"prod", "other"}


def test_bundle_has_the_bytes_of_the_documentation() -> None:
    value = json.loads(sign(SIGNED, OURS))
    assert list(value) == ["mediaType", "verificationMaterial", "dsseEnvelope"]
    assert value["mediaType"] == "application/vnd.dev.sigstore.bundle.v0.3+json"
    assert value["verificationMaterial"] == {"publicKey": {"hint": OURS.public.fingerprint}}
    envelope = value["dsseEnvelope"]
    payload = base64.b64decode(envelope["payload"])
    assert payload.decode() == (
        '{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":"' + DIGEST[7:] + '"}},'
        '{"name":"x.tar.gz","digest":{"sha256":"' + LAYER[7:] + '"}}],'
        '"predicateType":"https://sigstore.dev/cosign/sign/v1","predicate":{}}'
    )
    pae = f"DSSEv1 28 application/vnd.in-toto+json {len(payload)} ".encode() + payload
    assert OURS.public.has_signed(pae, base64.b64decode(envelope["signatures"][0]["sig"]))
    assert sign(SIGNED, OURS) == sign(SIGNED, OURS)


def test_referring_manifest_names_type_subject_and_predicate(registry: FakeRegistry, repository: Repository) -> None:
    attach(repository, SIGNED, [OURS], 1_767_225_600)
    index = json.loads(registry.manifests["team/x", f"sha256-{DIGEST[7:]}"])
    assert index["mediaType"] == INDEX
    (entry,) = index["manifests"]
    assert entry["artifactType"] == BUNDLE
    manifest = json.loads(registry.manifests["team/x", entry["digest"]])
    assert manifest["artifactType"] == manifest["layers"][0]["mediaType"] == BUNDLE
    assert len(manifest["layers"]) == 1
    assert manifest["config"] == {
        "mediaType": "application/vnd.oci.empty.v1+json",
        "digest": "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
        "size": 2,
    }
    assert manifest["subject"] == {"mediaType": MANIFEST, "digest": DIGEST, "size": len(PACKAGE)}
    assert manifest["annotations"] == entry["annotations"] | {
        "dev.sigstore.bundle.content": "dsse-envelope",
        "dev.sigstore.bundle.predicateType": SIGNATURE,
        "org.opencontainers.image.created": "2026-01-01T00:00:00Z",
    }


@pytest.mark.parametrize("is_always", [False, True])
def test_lost_update_of_the_fallback_tag_is_repeated(
    registry: FakeRegistry, repository: Repository, *, is_always: bool
) -> None:
    count = 0

    def lose(handler: Any, _number: int) -> bool:
        nonlocal count
        is_lost = handler.command == "PUT" and handler.path.endswith(f"sha256-{DIGEST[7:]}")
        if is_lost and (is_always or count == 0):
            count += 1
            handler.rfile.read(int(handler.headers["Content-Length"]))
            handler.answer(201, b"", {})
            return True
        return False

    registry.fault = lose
    if is_always:
        with pytest.raises(ToolError, match="is changed by other programs again and again"):
            attach(repository, SIGNED, [OURS])
    else:
        assert attach(repository, SIGNED, [OURS])
        assert find(repository, DIGEST, [OURS.public])[0].is_trusted


BUNDLES = {
    "another-key": (bundle_by(OTHER), "by an unknown key"),
    "another-digest": (bundle_by(OURS, digest_of(b"another")), "it is of something else"),
    "the-digest-in-another-algorithm": (bundle_by(OURS, "sha512:" + DIGEST[7:] * 2), "it is of something else"),
    "an-attestation": (bundle_by(OURS, predicate="https://in-toto.io/attestation/svr/v0.2"), "it is not a signature"),
    "signature-not-der": (bundle_by(OURS, signatures=[{"sig": "AAAA"}]), "by an unknown key"),
    "no-json": (b"{", "not accepted: it is not a signature in a bundle: Input data was truncated"),
    "deep": (b"[" * 200_000, "not accepted: it is not a signature in a bundle"),
    "another-type": (b'{"mediaType": "text/plain"}', "Invalid enum value 'text/plain' - at `$.mediaType`"),
    "payload-type": (bundle_by(OURS, payloadType="application/json"), "at `$.dsseEnvelope.payloadType`"),
    "no-signature": (bundle_by(OURS, signatures=[]), "at `$.dsseEnvelope.signatures`"),
    "two-signatures": (bundle_by(OURS, signatures=[{"sig": "eA=="}] * 2), "at `$.dsseEnvelope.signatures`"),
    "signature-not-base64": (bundle_by(OURS, signatures=[{"sig": "ä"}]), "Invalid base64 encoded string"),
    "payload-not-json": (bundle_by(OURS, payload="AAAA"), "not accepted: it is not a signature in a bundle"),
}


def test_hostile_bundles_count_for_nothing() -> None:
    for name, (content, message) in BUNDLES.items():
        one = judge(content, DIGEST, [OURS.public])
        assert not one.is_trusted, name
        assert message in str(one)


def test_hostile_bundle_does_not_hide_a_signature(registry: FakeRegistry, repository: Repository) -> None:
    put_bundle(registry, b"{")
    attach(repository, SIGNED, [OURS])
    assert [one.is_trusted for one in find(repository, DIGEST, [OURS.public])] == [False, True]


STATEMENTS = {
    "other-type": ({"_type": "https://in-toto.io/Statement/v0.1"}, "at `$._type`"),
    "no-subject": ({"subject": []}, "it is of something else"),
    "no-predicate-type": ({"predicateType": 1}, "at `$.predicateType`"),
    "control-characters": ({"predicateType": "\x1b[2J"}, r"a statement of the type '\x1b[2J'"),
    "subject-a-text": ({"subject": [DIGEST]}, "at `$.subject[0]`"),
    "uppercase": ({"subject": [{"digest": {"sha256": DIGEST[7:].upper()}}]}, "it is of something else"),
}


def test_hostile_statements_count_for_nothing_though_signed() -> None:
    for name, (changes, message) in STATEMENTS.items():
        value = json.loads(statement([(DIGEST, "")])) | changes
        one = judge(bundle(json.dumps(value).encode(), OURS), DIGEST, [OURS.public])
        assert not one.is_trusted, name
        assert message in str(one)


def test_flipped_bits_of_a_bundle_are_found() -> None:
    content = bundle_by(OURS)
    place = content.index(b'"payload"')
    end = content.index(b'"payloadType"')
    for offset in range(place + 12, end - 3, 29):
        damaged = bytearray(content)
        damaged[offset] ^= 1
        assert not judge(bytes(damaged), DIGEST, [OURS.public]).is_trusted, offset


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": (256 << 10) + 1}, "expected at most 256 KiB"),
        ({"digest": "sha512:" + "0" * 128}, "at `$.layers[0].digest`"),
        ({"mediaType": "text/plain"}, "expected a layer of the type"),
    ],
)
def test_hostile_layers_of_bundles_count_for_nothing(
    registry: FakeRegistry, repository: Repository, changes: dict[str, Any], message: str
) -> None:
    put_bundle(registry, bundle_by(OURS), **changes)
    (one,) = find(repository, DIGEST, [OURS.public])
    assert not one.is_trusted
    assert message in str(one)
    assert not any("/blobs/" in path for _, path, _ in registry.requests)


def test_bundle_with_other_bytes_than_its_digest_is_refused(registry: FakeRegistry, repository: Repository) -> None:
    content = bundle_by(OURS)
    put_bundle(registry, content)
    registry.blobs[digest_of(content)] = content.replace(b"sig", b"gis")
    with pytest.raises(VerificationError, match="the registry has sent other content"):
        find(repository, DIGEST, [OURS.public])


def test_only_some_of_many_bundles_are_read(registry: FakeRegistry, repository: Repository) -> None:
    for number in range(40):
        put_bundle(registry, bundle_by(OTHER) + b" " * number)
    found = find(repository, DIGEST, [OURS.public])
    assert len(found) == 17
    assert str(found[-1]) == "not accepted: 24 more bundles were not read"
    assert sum("/blobs/" in path for _, path, _ in registry.requests) == 16


def test_other_statements_are_not_read(registry: FakeRegistry, repository: Repository) -> None:
    provenance = "https://slsa.dev/provenance/v1"
    for number in range(40):
        content = bundle_by(OURS, predicate=provenance) + b" " * number
        put_blob(registry, content)
        annotations = {"dev.sigstore.bundle.predicateType": provenance}
        manifest = artefact.referring(BUNDLE, content, Descriptor(DIGEST, len(PACKAGE)), annotations)
        registry.put("team/x", "attached", manifest)
    registry.has_referrers = True
    assert find(repository, DIGEST, [OURS.public]) == ()
    attach(repository, SIGNED, [OURS])
    assert [one.is_trusted for one in find(repository, DIGEST, [OURS.public])] == [True]


INDEXES = {
    "no-json": (b"{", VerificationError, "is not valid"),
    "no-list": (b"{}", VerificationError, "is not valid"),
    "long": (b" " * (5 << 20), ToolError, "has more than 4,096 KiB"),
}


@pytest.mark.parametrize("name", INDEXES)
@pytest.mark.parametrize("has_referrers", [True, False])
def test_hostile_lists_of_referrers_are_refused(
    registry: FakeRegistry, repository: Repository, name: str, *, has_referrers: bool
) -> None:
    content, kind, message = INDEXES[name]
    registry.put("team/x", f"sha256-{DIGEST[7:]}", content)

    def answer(handler: Any, _number: int) -> bool:
        if has_referrers and "/referrers/" in handler.path:
            handler.answer(200, content)
            return True
        return False

    registry.fault = answer
    with pytest.raises(kind, match=message):
        find(repository, DIGEST, [OURS.public])


@pytest.mark.parametrize(
    "entry",
    [
        {"artifactType": BUNDLE},
        {"artifactType": BUNDLE, "digest": "../x", "size": 1},
        {"artifactType": BUNDLE, "digest": digest_of(b"?"), "size": 1 << 40},
        {"artifactType": BUNDLE, "digest": digest_of(b"?"), "size": "1"},
        {"artifactType": BUNDLE, "digest": digest_of(b"?"), "size": 7, "annotations": []},
    ],
)
def test_hostile_entries_of_referrers_count_for_nothing(
    registry: FakeRegistry, repository: Repository, entry: dict[str, Any]
) -> None:
    registry.put("team/x", f"sha256-{DIGEST[7:]}", json.dumps({"manifests": [{}, entry]}).encode())
    (one,) = find(repository, DIGEST, [OURS.public])
    assert one.problem is not None


def pem(key: Any) -> bytes:
    return bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


def pkcs8(key: Any) -> bytes:
    return bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


PUBLIC_KEYS = {
    "p384": pem(ec.generate_private_key(ec.SECP384R1())),
    "ed25519": pem(ed25519.Ed25519PrivateKey.generate()),
    "private": pkcs8(ec.generate_private_key(ec.SECP256R1())),
    "two": OURS.public.pem.encode() * 2,
    "no-pem": b"ssh-ed25519 AAAA",
    "damaged": OURS.public.pem.encode().replace(b"MFkw", b"MFkx"),
    "base64": b"-----BEGIN PUBLIC KEY-----\nAAA\n-----END PUBLIC KEY-----\n",
}


def test_other_public_keys_are_refused() -> None:
    for name, content in PUBLIC_KEYS.items():
        with pytest.raises(UsageError, match="expected one public key in PEM") as error:
            keys.public(content, "k", "k.pub")
        assert (error.value.hint is not None) == (name == "private")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pkcs8(ed25519.Ed25519PrivateKey.generate()), "only ECDSA P-256 keys sign"),
        (pkcs8(ec.generate_private_key(ec.SECP384R1())), "only ECDSA P-256 keys sign"),
        (OURS.public.pem.encode(), "expected a private key in PEM"),
        (OURS.pem(b"secret"), "the password is wrong"),
    ],
)
def test_private_keys_that_do_not_sign_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        keys.read(content, "k", "k.key", lambda: b"wrong")


@pytest.mark.thorough
def test_key_of_openssl_signs(tmp_path: Path) -> None:
    path = tmp_path / "k.key"
    openssl = tools.require("openssl")
    subprocess.run([openssl, "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path], check=True)
    key = keys.read(path.read_bytes(), "k", "k.key", lambda: b"")
    assert key.public.has_signed(b"x", key.sign(b"x"))


@pytest.mark.thorough
def test_openssl_reads_an_encrypted_key(tmp_path: Path) -> None:
    (tmp_path / "k.key").write_bytes(OURS.pem(b"secret"))
    argv = [tools.require("openssl"), "pkey", "-in", str(tmp_path / "k.key"), "-passin", "pass:secret", "-pubout"]
    shown = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    assert shown == OURS.public.pem

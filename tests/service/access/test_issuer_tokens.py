"""Tokens of an issuer: accepted tokens, refused tokens, and the rotation of the keys."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from typing import TYPE_CHECKING, Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from packager.base.errors import MlpackError
from packager.service.access.issuer_tokens import Issuer
from packager.service.access.tokens import EVERY
from packager.service.config import OidcConfig
from packager.service.failures import Failure
from tests.service.api.conftest import FILLED, Service
from tests.service.issuer import CURVE, RSA, FakeIssuer, public, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OTHER = rsa.generate_private_key(65537, 2048)
WEAK = rsa.generate_private_key(65537, 1024)  # noqa: S505 - to be refused
ROLES: dict[str, Any] = {"ml-admins": "admin", "ml-users": {"default": "user"}, "ml-leads": {"default": "developer"}}


@pytest.fixture
def fake() -> Iterator[FakeIssuer]:
    with running() as fake:
        yield fake


class Trusting:
    """The issuer of a server, with a clock that the test sets."""

    def __init__(self, fake: FakeIssuer, **more: Any) -> None:
        self.time = 0.0
        settings = OidcConfig(issuer=fake.url, audience="mlpack", roles=ROLES, **more)
        self.issuer = Issuer(settings, clock=lambda: self.time)

    def roles(self, text: str) -> dict[str, str]:
        return dict(asyncio.run(self.issuer.caller(text)).roles)

    def refusal(self, text: str) -> tuple[str, str]:
        with pytest.raises(Failure) as error:
            asyncio.run(self.issuer.caller(text))
        return error.value.kind, str(error.value)


@pytest.mark.parametrize(
    ("groups", "roles"),
    [
        (["ml-admins"], {EVERY: "admin"}),
        (["ml-users", "ml-leads"], {"default": "developer"}),
        ("ml-users", {"default": "user"}),
    ],
)
def test_groups_of_a_token_are_mapped_to_roles(fake: FakeIssuer, groups: Any, roles: dict[str, str]) -> None:
    assert Trusting(fake).roles(fake.token(groups=groups)) == roles


def test_both_algorithms_are_accepted_and_keys_are_fetched_once(fake: FakeIssuer) -> None:
    trusting = Trusting(fake)
    assert trusting.roles(fake.token()) == {"default": "user"}
    assert trusting.roles(fake.token(CURVE, "e1", "ES256")) == {"default": "user"}
    assert trusting.roles(fake.token(identifier=None)) == {"default": "user"}
    assert trusting.roles(fake.token(aud=["x", "mlpack"])) == {"default": "user"}
    assert fake.requests == ["/.well-known/openid-configuration", "/keys"]


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"exp": 1}, "unauthenticated", "Signature has expired"),
        ({"exp": None}, "unauthenticated", "not valid"),
        ({"aud": "other"}, "unauthenticated", "Audience doesn't match"),
        ({"iss": "https://evil.example"}, "unauthenticated", "Invalid issuer"),
        ({"nbf": 1 << 40}, "unauthenticated", "not valid"),
        ({"key": OTHER}, "unauthenticated", "Signature verification failed"),
        ({"key": OTHER, "identifier": "r2"}, "unauthenticated", "a key that its issuer does not have"),
        ({"key": CURVE, "identifier": "r1", "algorithm": "ES256"}, "unauthenticated", "does not have"),
        ({"algorithm": "RS512"}, "unauthenticated", "it is signed with 'RS512': expected RS256 or ES256"),
        ({"key": None, "algorithm": "none"}, "unauthenticated", "it is signed with 'none'"),
        ({"padding": "x" * 20_000}, "unauthenticated", "it is too long"),
        ({"preferred_username": None}, "forbidden", "the claim preferred_username is nothing"),
        ({"preferred_username": "a@b.example"}, "forbidden", "a name becomes a label"),
        ({"groups": ["else"]}, "forbidden", "ada is in no group that has a role"),
        ({"groups": {"ml-admins": 1}}, "forbidden", "ada is in no group"),
    ],
)
def test_tokens_with_invalid_claims_or_signatures_are_refused(
    fake: FakeIssuer, options: dict[str, Any], kind: str, message: str
) -> None:
    refusal = Trusting(fake).refusal(fake.token(**options))
    assert refusal[0] == kind
    assert message in refusal[1]


def test_token_signed_with_the_public_key_as_secret_is_refused(fake: FakeIssuer) -> None:
    """The signature is HS256 with the public key as the secret, which a careless library accepts as valid."""
    pem = RSA.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
        for part in ({"alg": "HS256", "kid": "r1"}, {"iss": fake.url, "aud": "mlpack", "exp": 1 << 40})
    ]
    signature = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(b".".join(parts), pem)
    text = b".".join([*parts, base64.urlsafe_b64encode(signature).rstrip(b"=")]).decode()
    assert Trusting(fake).refusal(text)[0] == "unauthenticated"


def test_keys_are_rotated_without_a_restart(fake: FakeIssuer) -> None:
    trusting = Trusting(fake)
    assert trusting.roles(fake.token())
    fake.keys = [public(OTHER, "r2")]
    assert "does not have" in trusting.refusal(fake.token(OTHER, "r2"))[1]  # the keys were just fetched
    trusting.time = 31
    assert trusting.roles(fake.token(OTHER, "r2"))
    assert "does not have" in trusting.refusal(fake.token())[1]
    fetched = len(fake.requests)
    for number in range(5):
        assert "does not have" in trusting.refusal(fake.token(RSA, f"x{number}"))[1]
    assert len(fake.requests) == fetched
    fake.keys = [public(RSA, "r1")]
    trusting.time = 31 + 3601
    assert "does not have" in trusting.refusal(fake.token(OTHER, "r2"))[1]


def test_unreachable_issuer_is_reported_and_its_keys_are_kept(fake: FakeIssuer) -> None:
    trusting = Trusting(fake)
    fake.is_away = True
    kind, message = trusting.refusal(fake.token())
    assert kind == "issuer-unreachable"
    assert "has answered with status 500" in message
    assert trusting.refusal(fake.token())[0] == "issuer-unreachable"
    assert len(fake.requests) == 1
    fake.is_away = False
    trusting.time = 31
    assert trusting.roles(fake.token())
    fake.is_away = True
    trusting.time = 31 + 4000
    assert trusting.roles(fake.token())


def test_hanging_issuer_delays_no_token_with_a_kept_key(fake: FakeIssuer, monkeypatch: pytest.MonkeyPatch) -> None:
    trusting = Trusting(fake)
    assert trusting.roles(fake.token())
    asked, may_end = threading.Event(), threading.Event()

    def hang(_issuer: Issuer) -> None:
        asked.set()
        assert may_end.wait(60)
        raise MlpackError("no answer")

    monkeypatch.setattr(Issuer, "_fetch", hang)

    async def run(token: str) -> None:
        asked.clear()
        may_end.clear()
        waiting = asyncio.create_task(trusting.issuer.caller(token))
        try:
            assert await asyncio.to_thread(asked.wait, 60)
            await asyncio.wait_for(trusting.issuer.caller(fake.token()), 10)
            await asyncio.wait_for(trusting.issuer.provider(), 10)
        finally:
            may_end.set()
            await asyncio.gather(waiting, return_exceptions=True)

    trusting.time = 31  # whoever has no token of the issuer can name a key, too
    asyncio.run(run(fake.token(OTHER, "unknown")))
    trusting.time = 4000
    asyncio.run(run(fake.token()))


@pytest.mark.parametrize(
    "keys",
    [
        [5, None, {}, {"kty": "RSA"}],
        [public(WEAK, "r1")],
        [public(RSA, "r1", use="enc")],
        [{"kty": "oct", "k": "eHh4eA", "kid": "r1"}],
        [public(CURVE, "r1", crv="P-384")],
    ],
)
def test_unusable_keys_of_an_issuer_are_ignored(fake: FakeIssuer, keys: list[Any]) -> None:
    fake.keys = keys
    assert Trusting(fake).refusal(fake.token())[0] == "issuer-unreachable"


def test_issuer_with_another_name_in_its_metadata_is_refused(fake: FakeIssuer) -> None:
    fake.name = "https://evil.example"
    kind, message = Trusting(fake).refusal(fake.token())
    assert kind == "issuer-unreachable"
    assert "the issuer calls itself 'https://evil.example'" in message


def test_names_and_groups_can_be_in_other_claims(fake: FakeIssuer) -> None:
    trusting = Trusting(fake, name_claim="sub", groups_claim="roles")
    assert trusting.roles(fake.token(sub="x1", roles=["ml-admins"])) == {EVERY: "admin"}


def test_api_accepts_tokens_of_the_server_and_of_the_issuer(fake: FakeIssuer, tmp_path: Path) -> None:
    service = Service(tmp_path / "server.db")
    service.server.issuer = Trusting(fake).issuer
    with service.client:
        headers = {"Authorization": f"Bearer {fake.token()}"}
        assert service.get("/v1/whoami", None, headers=headers).json()["name"] == "ada"
        refused = service.post("/v1/templates", {"name": "x", "template": "y"}, None, headers=headers)
        assert refused.status_code == 403
        faulty = service.post("/v1/jobs", FILLED, None, headers={"Authorization": "Bearer x.y.z"})
        assert (faulty.status_code, faulty.headers["www-authenticate"]) == (401, "Bearer")
        assert service.get("/v1/whoami", "admin").json()["name"] == "admin"
        assert service.get("/v1/whoami", None).status_code == 401
        fake.is_away = True
        service.server.issuer = Trusting(fake).issuer
        away = service.get("/v1/whoami", None, headers=headers)
        assert (away.status_code, away.json()["type"]) == (503, "urn:mlpack:problem:issuer-unreachable")
    assert not any(fake.token()[-20:] in line for line in service.log)

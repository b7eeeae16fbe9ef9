"""Checks tokens of an OpenID Connect issuer, and fetches its metadata and keys: the only importer of jwt.

OpenID Connect Core 1.0, section 3.1.3.7, and RFC 8725: signature, issuer, audience and expiry are checked, and the
algorithm is one of our list, whatever the token names.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import jwt

from packager.base import rest
from packager.base.errors import MlpackError
from packager.base.names import is_label_value
from packager.base.problems import show
from packager.base.values import Value
from packager.kubernetes.manifest import text
from packager.service.access.tokens import EVERY, ROLES, Caller, Person, key_of_person
from packager.service.failures import Failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from packager.base.values import Json
    from packager.service.config import OidcConfig

_ALGORITHMS = ("RS256", "ES256")
_LEEWAY = 30
"""Seconds by which clocks may differ."""

_KEEP_SECONDS = 3600.0
"""Seconds after which keys are fetched again."""

_AGAIN_SECONDS = 30.0
"""Seconds before the issuer is asked again after an unknown key or a failed request."""

_LONGEST = 16 << 10
_LONGEST_SUBJECT = 255  # OpenID Connect Core 1.0, section 2
_MOST_GROUPS = 1000
_LEAST_RSA_BITS = 2048


class Provider(Value, frozen=True):
    """The metadata of an issuer (OpenID Connect Discovery 1.0, section 3), and its keys."""

    authorization: str  # where people sign in
    token: str  # where codes are exchanged for tokens
    takes_basic: bool  # whether clients send their secret in the header Authorization; otherwise, in the form
    keys: tuple[jwt.PyJWK, ...]


class Issuer:
    """One issuer, and its keys."""

    def __init__(self, settings: OidcConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self._clock = clock
        self._provider: Provider | None = None
        self._fetched = self._tried = float("-inf")
        self._lock = asyncio.Lock()

    async def caller(self, text: str) -> Caller:
        """Return the caller for a token for the API. Raises Failure."""
        return self.caller_of(self.person(await self.claims(text, self.settings.audience)))

    async def claims(self, text: str, audience: str) -> dict[str, Any]:
        """Return the claims of a valid token of the issuer for an audience. Raises Failure."""
        if len(text) > _LONGEST:
            raise _refused("it is too long")
        try:
            header = jwt.get_unverified_header(text)
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise _refused("expected a token of this server, or a JSON Web Token of its issuer") from None
        algorithm = header.get("alg")
        if algorithm not in _ALGORITHMS:
            raise _refused(f"it is signed with {show(algorithm)}: expected {' or '.join(_ALGORITHMS)}")
        key = await self._key(header.get("kid"), algorithm)
        try:
            claims: dict[str, Any] = jwt.decode(
                text,
                key,
                algorithms=[algorithm],
                audience=audience,
                issuer=self.settings.issuer,
                leeway=_LEEWAY,
                options={"require": ["exp", "iss", "aud"]},
            )
        except jwt.PyJWTError as error:
            raise _refused(str(error)) from None
        except (ValueError, TypeError, OverflowError, RecursionError):
            raise _refused("its claims are not valid") from None
        return claims

    def person(self, claims: dict[str, Json]) -> Person:
        """Return the person in the claims of a token. Raises Failure if the subject or a usable name is missing."""
        subject = claims.get("sub")
        if not isinstance(subject, str) or not 0 < len(subject) <= _LONGEST_SUBJECT or not subject.isprintable():
            raise _refused("it has no subject")
        name = claims.get(self.settings.name_claim)
        if not isinstance(name, str) or not name or not is_label_value(name):
            raise Failure(
                "forbidden",
                f"the claim {self.settings.name_claim} is {show(name)}: a name becomes a label, and has "
                "at most 63 letters, digits and '-_.'",
            )
        claimed = claims.get(self.settings.groups_claim)
        groups = claimed[:_MOST_GROUPS] if isinstance(claimed, list) else [claimed]
        known = (group for group in groups if isinstance(group, str) and group in self.settings.roles)
        return Person(subject, name, tuple(known))

    def caller_of(self, person: Person) -> Caller:
        """Return the caller for a person, with roles by groups. Raises Failure if no group has a role."""
        roles: dict[str, str] = {}
        for group in person.groups:
            given = self.settings.roles.get(group, {})
            for project, role in ({EVERY: given} if isinstance(given, str) else given).items():
                roles[project] = max(role, roles.get(project, role), key=ROLES.index)
        if not roles:
            raise Failure("forbidden", f"{person.name} is in no group that has a role")
        return Caller(person.name, key_of_person(self.settings.issuer, person.subject), roles)

    async def provider(self, *, is_missing: bool = False) -> Provider:
        """Return the metadata and the keys of the issuer: the kept ones, or new ones if they are old or lack a key.

        Raises Failure.
        """
        is_missing = is_missing or self._provider is None
        if is_missing or (self._is_old() and not self._lock.locked()):
            async with self._lock:
                if (is_missing or self._is_old()) and self._clock() - self._tried > _AGAIN_SECONDS:
                    await self._fetch_again()
        if self._provider is None:
            raise Failure("issuer-unreachable", "the keys of the issuer are not known")
        return self._provider

    def _is_old(self) -> bool:
        return self._clock() - self._fetched > _KEEP_SECONDS

    async def _fetch_again(self) -> None:
        self._tried = self._clock()
        try:
            self._provider = await asyncio.to_thread(self._fetch)
            self._fetched = self._tried
        except MlpackError as error:
            if self._provider is None:
                raise Failure("issuer-unreachable", f"the keys of the issuer: {error}") from None

    async def _key(self, identifier: object, algorithm: str) -> jwt.PyJWK:
        """Return the key of a token. Raises Failure."""
        for is_missing in (False, True):
            keys = [key for key in (await self.provider(is_missing=is_missing)).keys if key.algorithm_name == algorithm]
            if identifier is not None:
                keys = [key for key in keys if key.key_id == identifier]
            if len(keys) == 1:
                return keys[0]
        raise _refused("it is signed with a key that its issuer does not have")

    def _fetch(self) -> Provider:
        """Return the metadata of the issuer, and its keys. Raises MlpackError."""
        issuer = self.settings.issuer
        document = _json(issuer.rstrip("/") + "/.well-known/openid-configuration")
        if document.get("issuer") != issuer:
            raise MlpackError(f"the issuer calls itself {show(document.get('issuer'))}, not {issuer}")
        try:
            content = _json(str(document.get("jwks_uri"))).get("keys")
            listed = [item for item in content if isinstance(item, dict)] if isinstance(content, list) else []
            keys = [key for key in jwt.PyJWKSet([item for item in listed if "d" not in item]).keys if _is_usable(key)]
        except (jwt.PyJWTError, ValueError, TypeError):
            keys = []
        if not keys:
            raise MlpackError(f"the issuer has no key for {' or '.join(_ALGORITHMS)}")
        methods = document.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        return Provider(
            authorization=text(document.get("authorization_endpoint")),
            token=text(document.get("token_endpoint")),
            takes_basic=isinstance(methods, list) and "client_secret_basic" in methods,
            keys=tuple(keys),
        )


def _is_usable(key: jwt.PyJWK) -> bool:
    """Whether a key signs with one of the accepted algorithms, and is long enough."""
    is_weak = key.key_type == "RSA" and key.key.key_size < _LEAST_RSA_BITS
    return key.algorithm_name in _ALGORITHMS and key.public_key_use in ("sig", None) and not is_weak


def _json(url: str) -> dict[str, Json]:
    answer = rest.ask(rest.server(url, None), "GET", "")
    if not answer.is_ok or not isinstance(answer.body, dict):
        raise MlpackError(f"{url} has answered with status {answer.status} ({answer.kind or 'no content type'})")
    return answer.body


def _refused(why: str) -> Failure:
    return Failure("unauthenticated", f"the token is not valid: {why}")

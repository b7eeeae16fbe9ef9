"""Checks tokens of an OpenID Connect issuer: the only importer of jwt.

OpenID Connect Core 1.0, section 3.1.3.7, and RFC 8725: signature, issuer, audience and expiry are checked, and the
algorithm is one that we choose, never one that the token does.
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
from packager.service.failures import Failure
from packager.service.tokens import EVERY, ROLES, Caller

if TYPE_CHECKING:
    from collections.abc import Callable

    from packager.service.config import OidcConfig

_ALGORITHMS = {"RS256": "RSA", "ES256": "EC"}
"""What a token may be signed with, and the type of its key."""

_LEEWAY = 30
"""Seconds by which clocks may differ."""

_KEEP_SECONDS = 3600.0
"""How long keys are kept before they are fetched again."""

_AGAIN_SECONDS = 30.0
"""How long the issuer is not asked again, after an unknown key or without an answer."""

_LONGEST = 16 << 10
_MOST_KEYS = 100
_MOST_GROUPS = 1000
_LEAST_RSA_BITS = 2048


class Issuer:
    """One issuer, and its keys.

    Args:
        settings: Which issuer, and what its claims mean.
        clock: Tells the seconds since some moment in the past.
    """

    def __init__(self, settings: OidcConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._fetched = self._tried = float("-inf")
        self._lock = asyncio.Lock()

    async def caller(self, text: str) -> Caller:
        """Return who a token belongs to. Raises Failure."""
        if len(text) > _LONGEST:
            raise _refused("it is too long")
        try:
            header = jwt.get_unverified_header(text)
        except jwt.InvalidTokenError:
            raise _refused("expected a token of this server, or a JSON Web Token of its issuer") from None
        algorithm, identifier = header.get("alg"), header.get("kid")
        if algorithm not in _ALGORITHMS:
            raise _refused(f"it is signed with {show(algorithm)}: expected {' or '.join(_ALGORITHMS)}")
        key = await self._key(identifier if isinstance(identifier, str) else None, algorithm)
        return self._caller(self._claims(text, key, algorithm))

    def _claims(self, text: str, key: jwt.PyJWK, algorithm: str) -> dict[str, Any]:
        try:
            claims: dict[str, Any] = jwt.decode(
                text,
                key.key,
                algorithms=[algorithm],
                audience=self._settings.audience,
                issuer=self._settings.issuer,
                leeway=_LEEWAY,
                options={"require": ["exp", "iss", "aud"]},
            )
        except jwt.ExpiredSignatureError:
            raise _refused("it has expired") from None
        except jwt.InvalidAudienceError:
            raise _refused(f"it is not for {self._settings.audience}") from None
        except jwt.InvalidIssuerError:
            raise _refused(f"it is not of {self._settings.issuer}") from None
        except (jwt.InvalidTokenError, ValueError, TypeError):
            raise _refused("its signature or its claims are not valid") from None
        return claims

    def _caller(self, claims: dict[str, Any]) -> Caller:
        """Return who the claims name, with the roles of their groups."""
        name = claims.get(self._settings.name_claim)
        if not isinstance(name, str) or not name or not is_label_value(name):
            raise Failure(
                "forbidden",
                f"the claim {self._settings.name_claim} is {show(name)}: a name becomes a label, and has "
                "at most 63 letters, digits and '-_.'",
            )
        claimed = claims.get(self._settings.groups_claim)
        groups = claimed if isinstance(claimed, list) else [claimed]
        roles: dict[str, str] = {}
        for group in groups[:_MOST_GROUPS]:
            given = self._settings.roles.get(group, {}) if isinstance(group, str) else {}
            for project, role in ({EVERY: given} if isinstance(given, str) else given).items():
                roles[project] = max(role, roles.get(project, role), key=ROLES.index)
        if not roles:
            raise Failure("forbidden", f"{name} is in no group that has a role")
        return Caller(name, roles)

    async def _key(self, identifier: str | None, algorithm: str) -> jwt.PyJWK:
        """Return the key of a token, from what is kept or from the issuer. Raises Failure."""
        async with self._lock:
            time_now = self._clock()
            is_old = time_now - self._fetched > _KEEP_SECONDS
            if (is_old or self._kept(identifier, algorithm) is None) and time_now - self._tried > _AGAIN_SECONDS:
                self._tried = time_now
                try:
                    self._keys = await asyncio.to_thread(self._fetch)
                    self._fetched = time_now
                except MlpackError as error:
                    if not self._keys:
                        raise Failure("issuer-unreachable", f"the keys of the issuer: {error}") from None
        key = self._kept(identifier, algorithm)
        if key is not None:
            return key
        if not self._keys:
            raise Failure("issuer-unreachable", "the keys of the issuer are not known")
        raise _refused("it is signed with a key that its issuer does not have")

    def _kept(self, identifier: str | None, algorithm: str) -> jwt.PyJWK | None:
        """Return a key that is kept; without an identifier, the only one of its type."""
        if identifier is not None:
            key = self._keys.get(identifier)
            return key if key is not None and key.key_type == _ALGORITHMS[algorithm] else None
        keys = [key for key in self._keys.values() if key.key_type == _ALGORITHMS[algorithm]]
        return keys[0] if len(keys) == 1 else None

    def _fetch(self) -> dict[str | None, jwt.PyJWK]:
        """Return the keys of the issuer, by their identifiers. Raises MlpackError."""
        issuer = self._settings.issuer
        document = _json(issuer.rstrip("/") + "/.well-known/openid-configuration")
        if document.get("issuer") != issuer:
            raise MlpackError(f"the issuer calls itself {show(document.get('issuer'))}, not {issuer}")
        keys = _json(str(document.get("jwks_uri"))).get("keys")
        if not isinstance(keys, list):
            raise MlpackError("the issuer has no list of keys")
        usable = {item.get("kid"): key for item in keys[:_MOST_KEYS] if (key := _usable(item)) is not None}
        if not usable:
            raise MlpackError(f"the issuer has no key for {' or '.join(_ALGORITHMS)}")
        return usable


def _usable(item: Any) -> jwt.PyJWK | None:
    """Return a key for signatures that we accept; None for any other."""
    if not isinstance(item, dict) or item.get("use", "sig") != "sig":
        return None
    for algorithm, kind in _ALGORITHMS.items():
        if item.get("kty") == kind and item.get("alg", algorithm) == algorithm:
            try:
                key = jwt.PyJWK({name: value for name, value in item.items() if name != "d"}, algorithm)
            except (jwt.PyJWTError, ValueError, TypeError):
                return None
            is_weak = kind == "RSA" and key.key.key_size < _LEAST_RSA_BITS
            is_other = kind == "EC" and item.get("crv") != "P-256"
            return None if is_weak or is_other else key
    return None


def _json(url: str) -> dict[str, Any]:
    answer = rest.ask(rest.server(url, None), "GET", "")
    if not answer.is_ok or not isinstance(answer.body, dict):
        raise MlpackError(f"{url} has answered with status {answer.status} ({answer.kind or 'no content type'})")
    return answer.body


def _refused(why: str) -> Failure:
    return Failure("unauthenticated", f"the token is not valid: {why}")

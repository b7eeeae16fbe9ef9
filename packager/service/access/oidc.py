"""Checks tokens of an OpenID Connect issuer, and fetches its metadata and keys: the only importer of jwt.

OpenID Connect Core 1.0, section 3.1.3.7, and RFC 8725: signature, issuer, audience and expiry are checked, and the
algorithm is one of our list, whatever the token names.
"""

from __future__ import annotations

import asyncio
import base64
import time
from typing import TYPE_CHECKING, Any

import jwt

from packager.base import jsonio, rest
from packager.base.errors import MlpackError, UsageError
from packager.base.names import is_label_value
from packager.base.problems import show
from packager.base.values import Value
from packager.service.access.tokens import EVERY, ROLES, Caller, Person, key_of_person
from packager.service.failures import Failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from packager.base.values import Json
    from packager.service.config import OidcConfig

_ALGORITHMS = {"RS256": "RSA", "ES256": "EC"}
"""The accepted algorithms of signatures, each with the type of its key."""

_LEEWAY = 30
"""Seconds by which clocks may differ."""

_KEEP_SECONDS = 3600.0
"""Seconds after which keys are fetched again."""

_AGAIN_SECONDS = 30.0
"""Seconds before the issuer is asked again after an unknown key or a failed request."""

_LONGEST = 16 << 10
_LONGEST_SUBJECT = 255  # OpenID Connect Core 1.0, section 2
_MOST_KEYS = 100
_MOST_GROUPS = 1000
_LEAST_RSA_BITS = 2048


class Provider(Value, frozen=True):
    """The metadata of an issuer (OpenID Connect Discovery 1.0, section 3).

    Attributes:
        authorization: The address at which people sign in; None if missing.
        token: The address at which codes are exchanged for tokens; None if missing.
        end_session: The address at which people sign out; None if missing.
        takes_basic: Whether clients send their secret in the header Authorization; otherwise, in the form.
        names_itself: Whether each authorization response names the issuer (RFC 9207).
    """

    authorization: str | None
    token: str | None
    end_session: str | None
    takes_basic: bool
    names_itself: bool


class Issuer:
    """One issuer, and its keys.

    Args:
        settings: The address of the issuer, and the meaning of its claims.
        clock: Returns the seconds since some moment in the past.
    """

    def __init__(self, settings: OidcConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self._clock = clock
        self._provider: Provider | None = None
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._fetched = self._tried = float("-inf")
        self._lock = asyncio.Lock()

    async def caller(self, text: str) -> Caller:
        """Return the caller for a token for the API. Raises Failure."""
        return self.caller_of(self.person(await self.claims(text, self.settings.audience)))

    async def claims(self, text: str, audience: str) -> dict[str, Any]:
        """Return the claims of a valid token of the issuer for an audience. Raises Failure."""
        if len(text) > _LONGEST:
            raise _refused("it is too long")
        header = _header(text)
        algorithm, identifier = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in _ALGORITHMS:
            raise _refused(f"it is signed with {show(algorithm)}: expected {' or '.join(_ALGORITHMS)}")
        key = await self._key(identifier if isinstance(identifier, str) else None, algorithm)
        try:
            claims: dict[str, Any] = jwt.decode(
                text,
                key.key,
                algorithms=[algorithm],
                audience=audience,
                issuer=self.settings.issuer,
                leeway=_LEEWAY,
                options={"require": ["exp", "iss", "aud"]},
            )
        except jwt.ExpiredSignatureError:
            raise _refused("it has expired") from None
        except jwt.InvalidAudienceError:
            raise _refused(f"it is not for {audience}") from None
        except jwt.InvalidIssuerError:
            raise _refused(f"it is not of {self.settings.issuer}") from None
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError):
            raise _refused("its signature or its claims are not valid") from None
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
        groups = claimed if isinstance(claimed, list) else [claimed]
        return Person(subject, name, tuple(group for group in groups[:_MOST_GROUPS] if isinstance(group, str)))

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

    async def provider(self) -> Provider:
        """Return the metadata of the issuer. Raises Failure."""
        if self._must_ask(is_missing=self._provider is None):
            async with self._lock:
                await self._fetch_again(is_missing=self._provider is None)
        if self._provider is None:
            raise Failure("issuer-unreachable", "the addresses of the issuer are not known")
        return self._provider

    async def _key(self, identifier: str | None, algorithm: str) -> jwt.PyJWK:
        """Return the key of a token, from the kept keys or from the issuer. Raises Failure."""
        if self._must_ask(is_missing=self._kept(identifier, algorithm) is None):
            async with self._lock:
                await self._fetch_again(is_missing=self._kept(identifier, algorithm) is None)
        key = self._kept(identifier, algorithm)
        if key is not None:
            return key
        if not self._keys:
            raise Failure("issuer-unreachable", "the keys of the issuer are not known")
        raise _refused("it is signed with a key that its issuer does not have")

    def _must_ask(self, *, is_missing: bool) -> bool:
        """Whether a request has to wait for the issuer: not for something old that another one fetches again."""
        return is_missing or (self._is_old() and not self._lock.locked())

    def _is_old(self) -> bool:
        return self._clock() - self._fetched > _KEEP_SECONDS

    async def _fetch_again(self, *, is_missing: bool) -> None:
        """Fetch metadata and keys if missing or old, unless they were just requested. Raises Failure."""
        time_now = self._clock()
        if not (self._is_old() or is_missing) or time_now - self._tried <= _AGAIN_SECONDS:
            return
        self._tried = time_now
        try:
            self._provider, self._keys = await asyncio.to_thread(self._fetch)
            self._fetched = time_now
        except MlpackError as error:
            if not self._keys:
                raise Failure("issuer-unreachable", f"the keys of the issuer: {error}") from None

    def _kept(self, identifier: str | None, algorithm: str) -> jwt.PyJWK | None:
        """Return a kept key; without an identifier, the only key of the type; None if there is no such key."""
        if identifier is not None:
            key = self._keys.get(identifier)
            return key if key is not None and key.key_type == _ALGORITHMS[algorithm] else None
        keys = [key for key in self._keys.values() if key.key_type == _ALGORITHMS[algorithm]]
        return keys[0] if len(keys) == 1 else None

    def _fetch(self) -> tuple[Provider, dict[str | None, jwt.PyJWK]]:
        """Return the metadata of the issuer, and its keys by identifier. Raises MlpackError."""
        issuer = self.settings.issuer
        document = _json(issuer.rstrip("/") + "/.well-known/openid-configuration")
        if document.get("issuer") != issuer:
            raise MlpackError(f"the issuer calls itself {show(document.get('issuer'))}, not {issuer}")
        keys = _json(str(document.get("jwks_uri"))).get("keys")
        if not isinstance(keys, list):
            raise MlpackError("the issuer has no list of keys")
        usable = dict(pair for item in keys[:_MOST_KEYS] if (pair := _usable(item)) is not None)
        if not usable:
            raise MlpackError(f"the issuer has no key for {' or '.join(_ALGORITHMS)}")
        return _provider(document), usable


def _provider(document: dict[str, Json]) -> Provider:
    methods = document.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
    return Provider(
        authorization=_endpoint(document, "authorization_endpoint"),
        token=_endpoint(document, "token_endpoint"),
        end_session=_endpoint(document, "end_session_endpoint"),
        takes_basic=isinstance(methods, list) and "client_secret_basic" in methods,
        names_itself=document.get("authorization_response_iss_parameter_supported") is True,
    )


def _endpoint(document: dict[str, Json], key: str) -> str | None:
    """Return an address in the metadata, which may have a query; None if the address is missing or not one of https."""
    url = document.get(key)
    if not isinstance(url, str) or not (url.isascii() and url.isprintable()) or {" ", "#", "\\", '"'} & {*url}:
        return None
    try:
        rest.server(url.partition("?")[0], None)
    except UsageError:
        return None
    return url


def _usable(item: Json) -> tuple[str | None, jwt.PyJWK] | None:
    """Return a key for signatures of the accepted algorithms after its identifier; None for any other key."""
    if not isinstance(item, dict) or item.get("use", "sig") != "sig":
        return None
    identifier = item.get("kid")
    if not isinstance(identifier, str | None):
        return None
    for algorithm, kind in _ALGORITHMS.items():
        if item.get("kty") == kind and item.get("alg", algorithm) == algorithm:
            try:
                key = jwt.PyJWK({name: value for name, value in item.items() if name != "d"}, algorithm)
            except (jwt.PyJWTError, ValueError, TypeError):
                return None
            is_weak = kind == "RSA" and key.key.key_size < _LEAST_RSA_BITS
            is_other = kind == "EC" and item.get("crv") != "P-256"
            return None if is_weak or is_other else (identifier, key)
    return None


def _json(url: str) -> dict[str, Json]:
    answer = rest.ask(rest.server(url, None), "GET", "")
    if not answer.is_ok or not isinstance(answer.body, dict):
        raise MlpackError(f"{url} has answered with status {answer.status} ({answer.kind or 'no content type'})")
    return answer.body


def _header(text: str) -> dict[str, Json]:
    """Return the header of a token whose parts are JSON objects (RFC 7519, section 7.2). Raises Failure."""
    parts = text.split(".")
    header = _part(parts[0])
    if len(parts) != 3 or header is None:
        raise _refused("expected a token of this server, or a JSON Web Token of its issuer")
    if _part(parts[1]) is None:
        raise _refused("its signature or its claims are not valid")
    return header


def _part(text: str) -> dict[str, Json] | None:
    """Return the JSON object in a part of a token; None if the part is not one."""
    try:
        value = jsonio.read(base64.urlsafe_b64decode(f"{text}=="))
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _refused(why: str) -> Failure:
    return Failure("unauthenticated", f"the token is not valid: {why}")

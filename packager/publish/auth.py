"""Answers the challenges of registries: Basic, and Bearer with the tokens of an issuer.

distribution, docs/content/spec/auth: token.md and oauth.md.

Tests: publish/test_registry.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base import jsonio, rest
from packager.base.errors import ToolError
from packager.base.masking import MASK
from packager.base.values import Value
from packager.base.web import BUSY, Content, TransientError, address

if TYPE_CHECKING:
    from collections.abc import Callable

    from packager.base.web import Address, HttpTransport
    from packager.publish.credentials import Login

_PARAMETER = re.compile(r'([A-Za-z]+)="([^"\\]{0,1000})"')
_SCHEME = re.compile(r"(?:^|,)\s{0,9}(Basic|Bearer)\s", re.IGNORECASE)
_LONGEST_CHALLENGE = 4 << 10
_TOKEN_BYTES = 256 << 10
_LONGEST_TOKEN = 64 << 10
_TOKEN = re.compile(r"[!-~]+")
_CLIENT = "mlpack"


class Challenge(Value, frozen=True):
    """The authentication that a registry asks for."""

    is_bearer: bool  # whether it asks for a token rather than a password
    realm: str = ""  # the address that issues tokens
    service: str | None = None  # the name of the registry for the issuer


def challenge(header: str) -> Challenge | None:
    """Return the challenge in WWW-Authenticate, Bearer before Basic; None if there is no other than these."""
    header = header[:_LONGEST_CHALLENGE]
    matches = [*_SCHEME.finditer(header)]
    ends = [*(match.start() for match in matches[1:]), len(header)]
    parts: dict[str, dict[str, str]] = {}
    for match, end in zip(matches, ends, strict=False):
        parameters = {key.lower(): value for key, value in _PARAMETER.findall(header[match.end() : end])}
        parts.setdefault(match[1].lower(), parameters)
    if "bearer" in parts and parts["bearer"].get("realm"):
        return Challenge(is_bearer=True, realm=parts["bearer"]["realm"], service=parts["bearer"].get("service"))
    return Challenge(is_bearer=False) if "basic" in parts else None


class Authority:
    """The header Authorization for one registry: none until it asks for one.

    Args:
        registry: The address of the registry.
        transport: Sends requests to the issuer of tokens.
        login: Returns the credentials, which are looked for when the registry asks for some; None without any.
    """

    def __init__(
        self,
        registry: Address,
        transport: HttpTransport,
        login: Callable[[], Login | None],
    ) -> None:
        self._registry = registry
        self._transport = transport
        self._find = login
        self._login: Login | None = None
        self._is_searched = False
        self._headers: dict[str, str] = {}
        self._secrets: set[str] = set()

    def header(self, scope: str) -> str | None:
        """Return the header Authorization for a scope; None until the registry has asked for one."""
        return self._headers.get(scope)

    def forget(self, scope: str) -> bool:
        """Forget the token of a scope, which may be too old; return whether there was one."""
        return self._headers.pop(scope, "").startswith("Bearer ")

    def masked(self, text: str) -> str:
        """Return a text of the registry, which may repeat what it has received, without secrets."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, MASK)
        return text

    def answer(self, asked: str, scope: str) -> None:
        """Keep the header that a registry asks for.

        Raises:
            TransientError: The issuer cannot be asked now.
        """
        expected = challenge(asked)
        login = self._credentials()
        host = self._registry.authority
        if expected is None:
            raise ToolError(f"{host} asks for credentials of a kind that is not supported", hint="use Basic or Bearer")
        if login is not None and login.registry_token:
            self._keep(scope, f"Bearer {login.registry_token}")
        elif expected.is_bearer:
            self._keep(scope, f"Bearer {self._token(expected, scope, login)}")
        elif login is None or login.identity_token:
            raise ToolError(f"{host} asks for a user name and a password", hint=f"log in: podman login {host}")
        else:
            self._keep(scope, login.basic)

    def refused(self, status: int) -> ToolError:
        """Return the error that the registry refuses a request, by the credentials in use."""
        host, login = self._registry.authority, self._login
        by = f"the credentials from {login.source}" if login is not None else "a request without credentials"
        hint = f"log in: podman login {host}" if login is None else None
        return ToolError(f"{host} refuses {by} (status {status})", hint=hint)

    def _credentials(self) -> Login | None:
        if not self._is_searched:
            self._is_searched = True
            self._login = self._find()
            self._secrets |= set(self._login.secrets if self._login else ())
        return self._login

    def _keep(self, scope: str, header: str) -> None:
        self._headers[scope] = header
        self._secrets.add(header.partition(" ")[2])

    def _is_as_safe(self, issuer: Address) -> bool:
        return issuer.scheme == "https" or self._registry.scheme == "http"

    def _token(self, expected: Challenge, scope: str, login: Login | None) -> str:
        """Return a token of the issuer for a scope."""
        issuer = address(expected.realm)
        if not self._is_as_safe(issuer):
            raise ToolError(f"{self._registry.authority} names an issuer of tokens without encryption: {issuer.shown}")
        headers = {"Accept": "application/json"}
        content: Content | None
        if login is not None and login.identity_token:
            form = rest.path(
                grant_type="refresh_token",
                service=expected.service or self._registry.authority,
                client_id=_CLIENT,
                scope=scope,
                refresh_token=login.identity_token,
            )[1:].encode()
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            method, where, content = "POST", issuer, Content(form, len(form))
        else:
            query = rest.path(service=expected.service, scope=scope)[1:]
            joined = f"{expected.realm}{'&' if '?' in expected.realm else '?'}{query}"
            if login is not None:
                headers["Authorization"] = login.basic
            method, where, content = "GET", address(joined), None
        with self._transport.opened(method, where, headers, content) as response:
            if response.status in BUSY:
                raise TransientError(issuer.shown, f"has answered with status {response.status}", join=" ")
            if response.status != 200:
                by = f"the credentials from {login.source}" if login else "a request without credentials"
                hint = None if login else f"log in: podman login {self._registry.authority}"
                raise ToolError(f"{issuer.shown} issues no token for {by} (status {response.status})", hint=hint)
            answer = response.read(_TOKEN_BYTES, "the token")
        try:
            body = jsonio.read(answer)
        except jsonio.JsonError:
            body = None
        token = (body.get("token") or body.get("access_token")) if isinstance(body, dict) else None
        if not isinstance(token, str) or len(token) > _LONGEST_TOKEN or not _TOKEN.fullmatch(token):
            raise ToolError(f"{issuer.shown} has issued something that is not a token")
        return token

"""Sends requests to one repository of a registry: authenticates, follows redirects, and explains refusals.

The challenges of registries are Basic, and Bearer with the tokens of an issuer (distribution, docs/content/spec/auth:
token.md and oauth.md).

Tests: publish/test_registry.py.
"""

from __future__ import annotations

import random
import re
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from packager.base import rest
from packager.base.errors import ToolError, VerificationError
from packager.base.masking import MASK, shortened
from packager.base.values import FieldsError, Meta, Value, from_json
from packager.base.web import BUSY, Content, HttpTransport, Network, OtherProtocolError, TransientError, address
from packager.publish import credentials
from packager.publish.artefact import MANIFEST_BYTES
from packager.publish.reference import is_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from packager.base.process import Runner, Tell
    from packager.base.web import Address, Response
    from packager.publish.credentials import Login
    from packager.publish.reference import PackageReference

T = TypeVar("T")

_TRIES = 5
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 60.0
_ERROR_BYTES = 64 << 10
_MOST_ERRORS = 3
_LONGEST_ERROR = 300
_RETRY_AFTER = re.compile(r"[0-9]{1,5}")

_PARAMETER = re.compile(r'([A-Za-z]+)="([^"\\]{0,1000})"')
_SCHEME = re.compile(r"(?:^|,)\s{0,9}(Basic|Bearer)\s", re.IGNORECASE)
_LONGEST_CHALLENGE = 4 << 10
_TOKEN_BYTES = 64 << 10
_Token = Annotated[str, Meta(pattern=r"^[!-~]*(?![\s\S])")]


class Access(Value, frozen=True):
    """The way to a registry, and the permissions there."""

    network: Network
    login: Callable[[PackageReference], Login | None] = lambda _reference: None  # called when a registry asks for some
    plain_http: bool = False  # whether the registry is used over http


def access(  # noqa: PLR0913 - an option each
    environment: Mapping[str, str],
    *,
    plain_http: bool,
    ca_file: Path | None,
    show: Tell,
    tell: Tell,
    runner: Runner,
) -> Access:
    """Return the access to registries.

    `environment` names the files of docker and podman; `show` receives a line about each
    request, and `tell` one about a helper that has failed.
    """

    def login(reference: PackageReference) -> Login | None:
        return credentials.find(reference, credentials.files(environment), tell, runner)

    network = Network(ca_file=None if ca_file is None else str(ca_file), show=show, sleep=runner.sleep)
    return Access(network, login, plain_http)


class RegistryClient:
    """Requests to one repository; `may_push` asks for the permission to push."""

    def __init__(self, reference: PackageReference, access: Access, *, may_push: bool) -> None:
        self._reference = reference
        self._access = access
        self._transport = HttpTransport(access.network)
        self._scope = f"repository:{reference.repository}:pull{',push' if may_push else ''}"
        self._use("http" if access.plain_http else "https")
        self._authorization = ""  # the header; empty until the registry asks for one
        self._login: Login | None = None  # None without any, and until the registry asks for some

    def close(self) -> None:
        """Close all connections."""
        self._transport.close()

    def retried(self, ask: Callable[[], T]) -> T:
        """Return the result of a function, which is called again after errors that pass."""
        pause = _FIRST_PAUSE
        for _ in range(_TRIES - 1):
            try:
                return ask()
            except TransientError as error:
                jitter = random.uniform(pause / 2, pause)  # noqa: S311 - so that clients do not come back together
                self._access.network.sleep(jitter if error.seconds is None else min(error.seconds, _LONGEST_PAUSE))
                pause *= 2
        return ask()

    def ask(self, method: str, place: str, statuses: tuple[int, ...], **options: Any) -> tuple[Response, bytes]:
        """Send a request, again after errors that pass, and return the answer; see `once`."""
        return self.retried(lambda: self.once(method, place, statuses, **options))

    def once(
        self,
        method: str,
        place: str | Address,
        statuses: tuple[int, ...],
        *,
        version: str | None = None,
        **options: Any,
    ) -> tuple[Response, bytes]:
        """Send a request with the `options` of `opened`, and return the answer and its body.

        Raises ToolError with what the registry says if the answer has another status, for a manifest with `version`.
        """
        with self.opened(method, place, **options) as response:
            self.expect(response, statuses, version)
            return response, response.read(MANIFEST_BYTES, "the answer")

    @contextmanager
    def opened(
        self,
        method: str,
        place: str | Address,
        headers: Mapping[str, str] | None = None,
        content: Content | None = None,
        **limits: float,
    ) -> Iterator[Response]:
        """Send a request for a path of the repository or to an address, and authenticate if required.

        `limits` are `size` and `seconds` of `HttpTransport.opened`.

        Raises:
            TransientError: The registry is busy, or the connection broke.
            ToolError: The registry does not accept the credentials.
        """

        def send() -> AbstractContextManager[Response]:
            """Send it; redirects of what reads are followed, and the registry alone receives credentials."""
            url = address(f"{self._url.text}{self._reference.repository}/{place}") if isinstance(place, str) else place
            secret = self._authorization if url.origin == self._url.origin else None
            follows = method in ("GET", "HEAD")
            return self._transport.opened(
                method,
                url,
                headers or {},
                content,
                authorization=secret,
                follows=follows,
                **limits,  # type: ignore[arg-type]
            )

        with ExitStack() as stack:
            try:
                response = stack.enter_context(send())
            except OtherProtocolError:  # a registry on this machine, perhaps without TLS
                if self._authorization or not rest.is_loopback(self._url.host):
                    raise
                self._use("http")
                response = stack.enter_context(send())
            if self._asks(response) and not self._authorization.startswith("Basic "):  # a token may be too old
                asked = response.header("www-authenticate")
                response.read(_ERROR_BYTES, "the answer")
                stack.close()
                self._authenticate(asked)
                response = stack.enter_context(send())
            if response.status in BUSY:
                pause = response.header("retry-after")
                message = f"the registry has answered with status {response.status}"
                busy = TransientError(self.shown(), f"{message}{self._explained(response)}")
                busy.seconds = float(pause) if _RETRY_AFTER.fullmatch(pause) else None
                raise busy
            if self._asks(response):
                raise self._refused(response.status)
            yield response

    def shown(self, version: str | None = None) -> str:
        """Return the repository with a tag or a digest, for messages."""
        if version is None:
            return self._reference.base
        return f"{self._reference.base}{'@' if is_digest(version) else ':'}{version}"

    def expect(self, response: Response, statuses: tuple[int, ...], version: str | None = None) -> None:
        """Refuse a response with another status. Raises ToolError with what the registry says."""
        if response.status in statuses:
            return
        if response.status == 404:
            raise ToolError(f"{self.shown(version)} not found")
        message = self._explained(response)
        if response.status in (401, 403):
            raise self._refused(response.status, message)
        raise ToolError(f"{self.shown(version)}: the registry has answered with status {response.status}{message}")

    def expect_digest(self, response: Response, digest: str) -> None:
        """Refuse a response that names another digest than the one of what was sent. Raises VerificationError."""
        stored = response.header("docker-content-digest")
        if is_digest(stored) and stored != digest:
            raise VerificationError(
                f"{self.shown()}: the registry has stored other content: expected {digest}, found {stored}"
            )

    def _use(self, scheme: str) -> None:
        """Use the API over http or https."""
        self._url = address(f"{scheme}://{self._reference.api_host}/v2/")

    def _asks(self, response: Response) -> bool:
        """Whether the registry itself asks for credentials."""
        return response.status == 401 and response.url.origin == self._url.origin

    def _authenticate(self, header: str) -> None:
        """Answer the challenge in WWW-Authenticate, Bearer before Basic.

        Raises:
            TransientError: The issuer of tokens cannot be asked now.
        """
        challenges = _challenges(header[:_LONGEST_CHALLENGE])
        realm = challenges.get("bearer", {}).get("realm")
        host = self._url.authority
        if realm is None and "basic" not in challenges:
            raise ToolError(f"{host} asks for credentials of a kind that is not supported", hint="use Basic or Bearer")
        login = self._login = self._login or self._access.login(self._reference)
        if realm is not None:
            self._authorization = f"Bearer {self._token(realm, challenges['bearer'].get('service'))}"
        elif login is None or login.identity_token:
            raise ToolError(f"{host} asks for a user name and a password", hint=f"log in: podman login {host}")
        else:
            self._authorization = login.basic

    def _token(self, realm: str, service: str | None) -> str:
        """Return a token of the issuer at `realm`."""
        issuer, login = address(realm), self._login
        if issuer.scheme != "https" and self._url.scheme == "https":
            raise ToolError(f"{self._url.authority} names an issuer of tokens without encryption: {issuer.shown}")
        headers = {"Accept": "application/json"}
        if login is not None and login.identity_token:
            form = rest.path(
                grant_type="refresh_token",
                service=service or self._url.authority,
                client_id="mlpack",
                scope=self._scope,
                refresh_token=login.identity_token,
            )[1:].encode()
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            opened = self._transport.opened("POST", issuer, headers, Content(form, len(form)))
        else:
            query = rest.path(service=service, scope=self._scope)[1:]
            if login is not None:
                headers["Authorization"] = login.basic
            opened = self._transport.opened("GET", address(f"{realm}{'&' if '?' in realm else '?'}{query}"), headers)
        with opened as response:
            if response.status in BUSY:
                raise TransientError(issuer.shown, f"has answered with status {response.status}", join=" ")
            if response.status != 200:
                raise self._refused(response.status, refuses=f"{issuer.shown} issues no token for")
            answer = response.read(_TOKEN_BYTES, "the token")
        try:
            issued = from_json(answer, _Issued)
        except FieldsError:
            raise ToolError(f"{issuer.shown} has issued something that is not a token") from None
        return issued.token or issued.access_token

    def _refused(self, status: int, message: str = "", *, refuses: str | None = None) -> ToolError:
        """Return the error that the registry refuses a request, by the credentials in use."""
        host, login = self._url.authority, self._login
        by = f"the credentials from {login.source}" if login is not None else "a request without credentials"
        hint = f"log in: podman login {host}" if login is None else None
        return ToolError(f"{refuses or f'{host} refuses'} {by} (status {status}){message}", hint=hint)

    def _explained(self, response: Response) -> str:
        """Return the messages of a registry about an error, to be added to ours; empty without any."""
        try:
            errors = from_json(response.read(_ERROR_BYTES, "the answer"), _Errors).errors
        except (FieldsError, ToolError):
            return ""
        messages = [error.message for error in errors if error.message]
        text = "".join(f": {shortened(message, _LONGEST_ERROR)}" for message in messages[:_MOST_ERRORS])
        sent = self._authorization.partition(" ")[2], "" if self._login is None else self._login.password
        for secret in filter(None, sent):  # it may repeat what it has received
            text = text.replace(secret, MASK)
        return text


class _Error(Value, frozen=True):
    message: str = ""


class _Errors(Value, frozen=True):
    """The messages of a registry about a request that has failed."""

    errors: list[_Error]


class _Issued(Value, frozen=True):
    """The answer of an issuer of tokens."""

    token: _Token = ""
    access_token: _Token = ""


def _challenges(header: str) -> dict[str, dict[str, str]]:
    """Return the parameters of the first Basic and Bearer challenge in a header."""
    matches = [*_SCHEME.finditer(header)]
    ends = [*(match.start() for match in matches[1:]), len(header)]
    challenges: dict[str, dict[str, str]] = {}
    for match, end in zip(matches, ends, strict=False):
        parameters = {key.lower(): value for key, value in _PARAMETER.findall(header[match.end() : end])}
        challenges.setdefault(match[1].lower(), parameters)
    return challenges

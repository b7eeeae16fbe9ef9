"""Sends requests to one repository of a registry: authenticates, follows redirects, and explains refusals.

The challenges of registries are Basic, and Bearer with the tokens of an issuer (distribution, docs/content/spec/auth:
token.md and oauth.md).

Tests: publish/test_registry.py.
"""

from __future__ import annotations

import random
import re
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TypeVar

from packager.base import jsonio, rest
from packager.base.errors import ToolError, VerificationError
from packager.base.masking import MASK, shortened
from packager.base.values import FieldsError, Value, from_json
from packager.base.web import BUSY, Content, HttpTransport, Network, OtherProtocolError, TransientError, address
from packager.publish import credentials
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
_TOKEN = re.compile(r"[!-~]+")


class Retries:
    """Waits between tries, until there were too many; `sleep` waits."""

    def __init__(self, sleep: Callable[[float], object]) -> None:
        self._sleep = sleep
        self._count = 0

    def wait(self, error: TransientError) -> None:
        """Wait before the next try; raise the error if the last try has failed, too."""
        self._count += 1
        if self._count >= _TRIES:
            raise error from None
        pause = _FIRST_PAUSE * 2 ** (self._count - 1)
        jitter = random.uniform(pause / 2, pause)  # noqa: S311 - so that clients do not come back together
        self._sleep(jitter if error.seconds is None else min(error.seconds, _LONGEST_PAUSE))

    def begin(self) -> None:
        """Count from one again."""
        self._count = 0


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
        self._is_certain = access.plain_http or not rest.is_loopback(self._url.host)
        self._authorization = ""  # the header; empty until the registry asks for one
        self._login: Login | None = None  # None without any, and until the registry asks for some
        self._secrets: set[str] = set()

    def close(self) -> None:
        """Close all connections."""
        self._transport.close()

    def retries(self) -> Retries:
        """Return a new count of tries."""
        return Retries(self._access.network.sleep)

    def retried(self, ask: Callable[[], T]) -> T:
        """Return the result of a function, which is called again after errors that pass."""
        retries = self.retries()
        while True:
            try:
                return ask()
            except TransientError as error:
                retries.wait(error)

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
        self._choose_scheme()
        url = address(f"{self._url.text}{self._reference.repository}/{place}") if isinstance(place, str) else place
        with ExitStack() as stack:
            response = stack.enter_context(self._sent(method, url, headers, content, **limits))
            if self._asks(response) and not self._authorization.startswith("Basic "):  # a token may be too old
                asked = response.header("www-authenticate")
                response.read(_ERROR_BYTES, "the answer")
                stack.close()
                self._authenticate(asked)
                response = stack.enter_context(self._sent(method, url, headers, content, **limits))
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

    def _choose_scheme(self) -> None:
        """Use http for a registry on this machine that does not speak TLS."""
        if self._is_certain:
            return
        try:
            with self._transport.opened("GET", self._url, {}) as response:
                response.read(_ERROR_BYTES, "the answer")
        except OtherProtocolError:
            self._use("http")
        self._is_certain = True

    def _asks(self, response: Response) -> bool:
        """Whether the registry itself asks for credentials."""
        return response.status == 401 and response.url.origin == self._url.origin

    def _sent(
        self,
        method: str,
        url: Address,
        headers: Mapping[str, str] | None,
        content: Content | None,
        **limits: float,
    ) -> AbstractContextManager[Response]:
        """Send a request; the redirects of reading ones are followed, and the registry alone receives credentials."""
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
        if login is not None:
            self._secrets |= {*login.secrets}
        if login is not None and login.registry_token:
            self._authorization = f"Bearer {login.registry_token}"
        elif realm is not None:
            self._authorization = f"Bearer {self._token(realm, challenges['bearer'].get('service'))}"
        elif login is None or login.identity_token:
            raise ToolError(f"{host} asks for a user name and a password", hint=f"log in: podman login {host}")
        else:
            self._authorization = login.basic
        self._secrets.add(self._authorization.partition(" ")[2])

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
            issued = _Issued()
        token = issued.token or issued.access_token
        if not _TOKEN.fullmatch(token):
            raise ToolError(f"{issuer.shown} has issued something that is not a token")
        return token

    def _refused(self, status: int, message: str = "", *, refuses: str | None = None) -> ToolError:
        """Return the error that the registry refuses a request, by the credentials in use."""
        host, login = self._url.authority, self._login
        by = f"the credentials from {login.source}" if login is not None else "a request without credentials"
        hint = f"log in: podman login {host}" if login is None else None
        return ToolError(f"{refuses or f'{host} refuses'} {by} (status {status}){message}", hint=hint)

    def _explained(self, response: Response) -> str:
        """Return the messages of a registry about an error, to be added to ours; empty without any."""
        try:
            body = jsonio.read_object(response.read(_ERROR_BYTES, "the answer"))
        except (jsonio.JsonError, ToolError):
            return ""
        errors = body.get("errors")
        explained = ""
        for entry in errors[:_MOST_ERRORS] if isinstance(errors, list) else ():
            text = entry.get("message") if isinstance(entry, dict) else None
            if isinstance(text, str) and text:
                for secret in sorted(self._secrets, key=len, reverse=True):  # it may repeat what it has received
                    text = text.replace(secret, MASK)
                explained += f": {shortened(text, _LONGEST_ERROR)}"
        return explained


class _Issued(Value, frozen=True):
    """The answer of an issuer of tokens."""

    token: str = ""
    access_token: str = ""


def _challenges(header: str) -> dict[str, dict[str, str]]:
    """Return the parameters of the first Basic and Bearer challenge in a header."""
    matches = [*_SCHEME.finditer(header)]
    ends = [*(match.start() for match in matches[1:]), len(header)]
    challenges: dict[str, dict[str, str]] = {}
    for match, end in zip(matches, ends, strict=False):
        parameters = {key.lower(): value for key, value in _PARAMETER.findall(header[match.end() : end])}
        challenges.setdefault(match[1].lower(), parameters)
    return challenges

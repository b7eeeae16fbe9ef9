"""Sends requests to one repository of a registry: authenticates, follows redirects, and explains refusals.

Tests: publish/test_registry.py.
"""

from __future__ import annotations

import random
import re
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TypeVar

from packager.base import jsonio, rest
from packager.base.errors import ToolError, VerificationError
from packager.base.masking import shortened
from packager.base.values import Value
from packager.base.web import BUSY, HttpTransport, Network, OtherProtocolError, TransientError, address
from packager.publish import credentials
from packager.publish.auth import Authority
from packager.publish.reference import is_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from packager.base.runner import Runner
    from packager.base.web import Address, Content, Response
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


class TooLargeError(ToolError):
    """The registry refuses a body of this size."""


class Retries:
    """Waits between tries, until there were too many.

    Args:
        sleep: Waits.
    """

    def __init__(self, sleep: Callable[[float], object]) -> None:
        self._sleep = sleep
        self._count = 0

    def wait(self, error: TransientError) -> None:
        """Wait before the next try.

        Raises:
            TransientError: The last try has failed, too.
        """
        self._count += 1
        if self._count >= _TRIES:
            raise error from None
        pause = _FIRST_PAUSE * 2 ** (self._count - 1)
        jitter = random.uniform(pause / 2, pause)  # noqa: S311 - so that clients do not come back together
        seconds = jitter if error.seconds is None else min(error.seconds, _LONGEST_PAUSE)
        self._sleep(seconds)

    def begin(self) -> None:
        """Count from one again."""
        self._count = 0


class Access(Value, frozen=True):
    """The way to a registry, and the permissions there."""

    network: Network
    login: Callable[[PackageReference], Login | None] = lambda _reference: None  # called when a registry asks for some
    plain_http: bool = False  # whether the registry is used over http


class AccessRequest(Value, frozen=True):
    """The options for the access to registries."""

    environment: Mapping[str, str]  # names the files of docker and podman
    home: Path | None  # None for a user without one
    user: tuple[str, str] | None = None  # the name and the password; None for those in the files
    plain_http: bool = False  # whether registries are used over http
    ca_file: Path | None = None  # certificates to trust in addition to those of the system


def access(
    request: AccessRequest, *, show: Callable[[str], object], tell: Callable[[str], object], runner: Runner
) -> Access:
    """Return the access to registries; `show` receives a line about each request, `tell` one about a failed helper.

    Raises UsageError if the user or the password is not valid.
    """
    given = None if request.user is None else credentials.given(*request.user, "stdin")
    files = credentials.files(request.environment, request.home)

    def login(reference: PackageReference) -> Login | None:
        return given or credentials.find(reference, files, tell, runner)

    ca_file = None if request.ca_file is None else str(request.ca_file)
    return Access(Network(ca_file=ca_file, show=show, sleep=runner.sleep), login, request.plain_http)


class RegistryClient:
    """Requests to one repository; `may_push` asks for the permission to push."""

    def __init__(self, reference: PackageReference, access: Access, *, may_push: bool) -> None:
        self._reference = reference
        self._access = access
        self._transport = HttpTransport(access.network)
        self._scope = f"repository:{reference.repository}:pull{',push' if may_push else ''}"
        self._use("http" if access.plain_http else "https")
        self._is_certain = access.plain_http or not rest.is_loopback(self._url.host)

    @property
    def is_plain(self) -> bool:
        """Whether the registry is used over http."""
        return self._url.scheme == "http"

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
        url = self._path(place) if isinstance(place, str) else place
        with ExitStack() as stack:
            authorization = self._authority.header(self._scope)
            response = stack.enter_context(self._sent(method, url, headers, content, **limits))
            if self._asks(response) and (authorization is None or authorization.startswith("Bearer ")):
                asked = response.header("www-authenticate")
                response.read(_ERROR_BYTES, "the answer")
                stack.close()
                self._authority.answer(asked, self._scope)
                response = stack.enter_context(self._sent(method, url, headers, content, **limits))
            if response.status in BUSY:
                pause = response.header("retry-after")
                message = f"the registry has answered with status {response.status}"
                busy = TransientError(self.shown(), f"{message}{self._explained(response)}")
                busy.seconds = float(pause) if _RETRY_AFTER.fullmatch(pause) else None
                raise busy
            if self._asks(response):
                raise self._authority.refused(response.status)
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
        if response.status == 413:
            raise TooLargeError(f"{self.shown(version)}: the registry refuses so large a request")
        message = self._explained(response)
        if response.status in (401, 403):
            error = self._authority.refused(response.status)
            raise ToolError(f"{error}{message}", hint=error.hint)
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
        access, reference = self._access, self._reference
        self._url = address(f"{scheme}://{reference.api_host}/v2/")
        self._authority = Authority(self._url, self._transport, lambda: access.login(reference))

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
        secret = self._authority.header(self._scope) if url.origin == self._url.origin else None
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

    def _path(self, path: str) -> Address:
        return address(f"{self._url.text}{self._reference.repository}/{path}")

    def _explained(self, response: Response) -> str:
        """Return the messages of a registry about an error, to be added to ours; empty without any."""
        try:
            body = jsonio.read(response.read(_ERROR_BYTES, "the answer"))
        except (jsonio.JsonError, ToolError):
            return ""
        errors = body.get("errors") if isinstance(body, dict) else None
        messages = [
            entry["message"]
            for entry in (errors[:_MOST_ERRORS] if isinstance(errors, list) else ())
            if isinstance(entry, dict) and isinstance(entry.get("message"), str) and entry["message"]
        ]
        return "".join(f": {shortened(self._authority.masked(text), _LONGEST_ERROR)}" for text in messages)

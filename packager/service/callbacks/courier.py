"""Sends the callbacks of the outbox, in order for each endpoint of a job, and repeats failed ones by a schedule."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import random
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import httpx2

from packager import __version__
from packager.base import jsonio
from packager.base.errors import ToolError, UsageError, reason
from packager.base.values import Value, replace
from packager.kubernetes.manifest import mapping
from packager.service.callbacks.endpoints import InvalidAddressError
from packager.service.store.models import as_text

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from packager.service.callbacks.endpoints import Receivers
    from packager.service.sealing import Sealer
    from packager.service.store.models import Delivery
    from packager.service.store.outbox import Outbox


SCHEDULE = (5.0, 30.0, 120.0, 600.0, 1_800.0, 7_200.0, 21_600.0, 43_200.0)
"""The maximum pause before each retry, in seconds; the pause is a random part of it ("full jitter")."""

AT_ONCE = 50
AT_ONCE_TO_A_HOST = 4
"""The maximum numbers of simultaneous requests: in total, and to one host."""

SECONDS = 10.0
_CONNECT_SECONDS = 3.0
"""The time limits of a request, and of its connection."""

_MOST_BYTES = 4 << 10
_LONGEST_WISH = 3_600.0
"""The maximum pause that an endpoint can request, in seconds."""

_LOOK_SECONDS = 5.0
_STOP_SECONDS = 10.0
_RANDOM = random.SystemRandom()


class Reply(Value, frozen=True):
    """The reply of an endpoint."""

    code: int | None = None  # the HTTP status; None without a response
    error: str | None = None  # the reason for a missing response
    retry_after: float | None = None  # the pause that the endpoint requests, in seconds


class Transport:
    """Sends requests to the receivers that an administrator has listed, without redirects, proxies and cookies."""

    def __init__(self, allowed: Receivers, *, tls: ssl.SSLContext | None = None, seconds: float = SECONDS) -> None:
        self._allowed = allowed
        self._seconds = seconds
        limits = httpx2.Limits(max_keepalive_connections=0)
        self._http = httpx2.AsyncClient(
            verify=tls or True,
            limits=limits,
            trust_env=False,
            timeout=httpx2.Timeout(seconds, connect=min(seconds, _CONNECT_SECONDS)),
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Send a body, and return the reply, also if there is no response."""
        try:
            self._allowed.check(url)  # the list may have changed since
            async with asyncio.timeout(self._seconds):
                async with self._http.stream("POST", url, headers=dict(headers), content=body) as response:
                    size = 0
                    async for chunk in response.aiter_raw():
                        size += len(chunk)
                        if size >= _MOST_BYTES:
                            break
                    self._http.cookies.clear()
                    wish = response.headers.get("retry-after", "")  # a date, which it may be, too, is not heeded
                    seconds = float(wish) if wish.isascii() and wish.isdecimal() and len(wish) < 10 else None
                    return Reply(response.status_code, retry_after=seconds)
        except InvalidAddressError as error:
            return Reply(error=str(error))
        except TimeoutError:
            return Reply(error=f"no answer in {self._seconds:g} s")
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, UnicodeError) as error:
            return Reply(error=str(error)[:300] or type(error).__name__)


class Courier:
    """Sends the callbacks in the outbox."""

    def __init__(  # noqa: PLR0913 - the parts that it connects
        self,
        outbox: Outbox,
        sealer: Sealer,
        transport: Transport,
        *,
        url: str,
        secrets: SigningSecrets,
        log: Callable[[str], None],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        part: Callable[[], float] = _RANDOM.random,
    ) -> None:
        self._outbox = outbox
        self._sealer = sealer
        self._transport = transport
        self._url = url.rstrip("/")
        self._secrets = secrets
        self._log = log
        self._clock = clock
        self._part = part
        self._wake = asyncio.Event()
        self._known = 0
        self._under_way: dict[tuple[str, int], str] = {}  # the host of the callback to each endpoint of a job
        self._tasks: set[asyncio.Task[None]] = set()

    def wake(self) -> None:
        """Query the outbox now, if it has new callbacks."""
        if self._outbox.written != self._known:
            self._known = self._outbox.written
            self._wake.set()

    async def run(self) -> None:
        """Send callbacks until cancelled; current requests then have 10 s to end."""
        self._wake = asyncio.Event()  # for this event loop: a server can be started again
        try:
            while True:
                self._wake.clear()
                await self.start_due()
                with suppress(TimeoutError):
                    async with asyncio.timeout(await self._pause()):
                        await self._wake.wait()
        finally:
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=_STOP_SECONDS)

    async def _pause(self) -> float:
        if self._tasks:
            return _LOOK_SECONDS  # the end of each task calls `wake`
        time = await asyncio.to_thread(self._outbox.next_time)
        if time is None:
            return _LOOK_SECONDS
        seconds = (datetime.fromisoformat(time) - self._clock()).total_seconds()
        return min(max(seconds, 0.0), _LOOK_SECONDS)

    async def start_due(self) -> bool:
        """Start all due callbacks within the limits, and return whether there was any."""
        has_begun = False
        while free := AT_ONCE - len(self._under_way):
            busy = {host for host, count in Counter(self._under_way.values()).items() if count >= AT_ONCE_TO_A_HOST}
            due = await asyncio.to_thread(self._outbox.due, as_text(self._clock()), busy, [*self._under_way], free)
            for delivery in due:
                if [*self._under_way.values()].count(delivery.host) < AT_ONCE_TO_A_HOST:
                    self._under_way[delivery.release, delivery.endpoint] = delivery.host
                    task = asyncio.create_task(self._deliver(delivery))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
            if not due:
                break
            has_begun = True
        return has_begun

    async def _deliver(self, delivery: Delivery) -> None:
        try:
            answer = await self._transport.post(delivery.url, *self._request(delivery))
            tried = self._tried(delivery, answer)
            await asyncio.to_thread(self._outbox.settle, tried)
            if tried.state != "delivered":
                self._log(f"{tried.release}: callback {tried.id}: {tried.error}; {tried.state}")
        except Exception as error:  # noqa: BLE001 - the other callbacks are sent, and this one later
            self._log(f"{delivery.release}: callback {delivery.id}: {type(error).__name__}: {error}")
            await asyncio.sleep(_LOOK_SECONDS)
        finally:
            self._under_way.pop((delivery.release, delivery.endpoint), None)
            self._wake.set()

    def _request(self, delivery: Delivery) -> tuple[dict[str, str], bytes]:
        """Return the headers and the body of a callback. Raises ToolError if the headers cannot be decrypted."""
        own = mapping(self._sealer.open(delivery.secrets, delivery.release).get(str(delivery.endpoint)))
        content = {**json.loads(delivery.body), "job": f"{self._url}/v1/jobs/{delivery.release}"}
        body = jsonio.compact(content).encode(errors="replace")
        seconds = int(self._clock().timestamp())
        ours = {
            "Content-Type": "application/json",
            "User-Agent": f"mlpack/{__version__}",
            "webhook-id": delivery.id,
            "webhook-timestamp": str(seconds),
        }
        if secrets := self._secrets.of(delivery.project):
            ours["webhook-signature"] = sign(secrets, delivery.id, seconds, body)
        names = {name.lower() for name in (*ours, "content-length")}
        return {**{name: value for name, value in own.items() if name.lower() not in names}, **ours}, body

    def _tried(self, delivery: Delivery, answer: Reply) -> Delivery:
        """Return a callback after an attempt."""
        time, attempts = self._clock(), delivery.attempts + 1
        tried = replace(delivery, attempts=attempts, code=answer.code, last_try=as_text(time), next_try=None)
        if answer.code is not None and 200 <= answer.code < 300:
            return replace(tried, state="delivered", error=None)
        error = answer.error or f"the endpoint has answered {answer.code}"
        if attempts > len(SCHEDULE):
            return replace(tried, state="given-up", error=error)
        pause = max(SCHEDULE[attempts - 1] * self._part(), min(answer.retry_after or 0.0, _LONGEST_WISH))
        return replace(tried, state="waiting", error=error, next_try=as_text(time + timedelta(seconds=pause)))

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()


_PREFIX = "whsec_"
_KEY = "signing_secret_file"
_SHORTEST, _LONGEST = 24, 64
_MOST = 8


class SigningSecrets:
    """The secrets that sign callbacks: those of the job's project, or else those of the server.

    A file has one secret per line, and all of them sign: while a secret is replaced, receivers with the old secret and
    receivers with the new one accept a callback. Files are read again for each callback, so a change needs no restart.
    """

    def __init__(self, of_server: Path | None = None, of_projects: Mapping[str, Path] | None = None) -> None:
        self._files = {name: (path, f"projects.{name}.{_KEY}") for name, path in (of_projects or {}).items()}
        self._of_server = (of_server, f"callbacks.{_KEY}") if of_server else None

    def read_all(self) -> None:
        """Read all files. Raises ToolError or UsageError."""
        for path, key in filter(None, (*self._files.values(), self._of_server)):
            read_secrets(path, key)

    def of(self, project: str) -> tuple[bytes, ...]:
        """Return the secrets for a project. Raises ToolError or UsageError: then the callback is sent later."""
        file = self._files.get(project, self._of_server)
        return read_secrets(*file) if file else ()


def read_secrets(path: Path, key: str) -> tuple[bytes, ...]:
    """Return the secrets in a file, one per line: 24 to 64 bytes in base64, with or without the prefix `whsec_`.

    Raises ToolError or UsageError.
    """
    try:
        with path.open("rb") as file:
            text = file.read(4096).decode("ascii", errors="replace")
    except OSError as error:
        raise ToolError(f"{key}: {path} cannot be read: {reason(error)}") from None
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    secrets = tuple(map(_decoded, lines))
    if not 0 < len(secrets) <= _MOST or not all(_SHORTEST <= len(secret) <= _LONGEST for secret in secrets):
        message = f"{key}: {path}: expected {_SHORTEST} to {_LONGEST} bytes in base64, in 1 to {_MOST} lines"
        raise UsageError(message, hint=f'echo "{_PREFIX}$(head -c 32 /dev/urandom | base64)"')
    return secrets


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return b""


def sign(secrets: Iterable[bytes], identifier: str, timestamp: int, body: bytes) -> str:
    """Return the value of `webhook-signature`: a signature for each secret, separated by spaces."""
    content = b".".join((identifier.encode(), str(timestamp).encode(), body))
    digests = (hmac.digest(secret, content, hashlib.sha256) for secret in secrets)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)

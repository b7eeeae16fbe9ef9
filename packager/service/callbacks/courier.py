"""Sends the callbacks of the outbox, in order for each endpoint of a job, and repeats failed ones by a schedule."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING

from packager import __version__
from packager.base import jsonio
from packager.base.values import replace
from packager.kubernetes.manifest import mapping
from packager.service.callbacks.signature import sign
from packager.service.store.outbox import Busy
from packager.service.times import as_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from packager.service.callbacks.signature import SigningSecrets
    from packager.service.callbacks.transport import Reply, Transport
    from packager.service.sealing import Sealer
    from packager.service.store.outbox import Outbox
    from packager.service.store.rows import Delivery

SCHEDULE = (5.0, 30.0, 120.0, 600.0, 1_800.0, 7_200.0, 21_600.0, 43_200.0)
"""The maximum pause before each retry, in seconds; the pause is a random part of it ("full jitter")."""

AT_ONCE = 100
AT_ONCE_OF_A_PROJECT = 20
AT_ONCE_TO_A_HOST = 2
"""The maximum numbers of simultaneous requests: in total, of one project, and to one host."""

_LONGEST_WISH = 3_600.0
"""The maximum pause that an endpoint can request, in seconds."""

_LOOK_SECONDS = 5.0
"""The seconds between queries of the outbox without a call of `wake`: other servers may add callbacks."""

_STOP_SECONDS = 10.0
_RANDOM = random.SystemRandom()
_GONE = 410


class Courier:
    """Sends the callbacks in the outbox.

    Args:
        outbox: The callbacks.
        sealer: Decrypts the headers for endpoints.
        transport: Sends requests.
        url: The address of the server, for the links in callbacks.
        secrets: The secrets that sign callbacks, if there are any.
        log: Writes a line to the log.
        clock: Returns the current time.
        part: Returns a random number from 0 to 1.
        attempted: Called with the outcome and the seconds of each attempt.
    """

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
        attempted: Callable[[str, float], None] = lambda _outcome, _seconds: None,
    ) -> None:
        self._outbox = outbox
        self._sealer = sealer
        self._transport = transport
        self._url = url.rstrip("/")
        self._secrets = secrets
        self._log = log
        self._clock = clock
        self._part = part
        self._attempted = attempted
        self._wake = asyncio.Event()
        self._under_way: dict[tuple[str, int], Delivery] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def wake(self) -> None:
        """Query the outbox now."""
        self._wake.set()

    async def run(self) -> None:
        """Send callbacks until cancelled; current requests then have 10 s to end."""
        self._wake = asyncio.Event()  # for this event loop: a server can be started again
        try:
            while True:
                self._wake.clear()
                await self.start_due()
                try:
                    async with asyncio.timeout(await self._pause()):
                        await self._wake.wait()
                except TimeoutError:
                    pass
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
            due = await asyncio.to_thread(self._outbox.due, as_text(self._clock()), self._busy(), free)
            chosen = []
            for delivery in due:
                busy = self._busy()
                if delivery.host not in busy.hosts and delivery.project not in busy.projects:
                    self._under_way[delivery.release, delivery.endpoint] = delivery
                    chosen.append(delivery)
            for delivery in chosen:
                task = asyncio.create_task(self._deliver(delivery))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            if not chosen:
                break
            has_begun = True
        return has_begun

    def _busy(self) -> Busy:
        """Return the hosts, projects and endpoints to which no more callbacks are sent now."""
        under_way = self._under_way.values()
        hosts, projects = Counter(item.host for item in under_way), Counter(item.project for item in under_way)
        return Busy(
            tuple(host for host, count in hosts.items() if count >= AT_ONCE_TO_A_HOST),
            tuple(project for project, count in projects.items() if count >= AT_ONCE_OF_A_PROJECT),
            tuple(self._under_way),
        )

    async def deliver_due(self) -> None:
        """Send all due callbacks, and those that become due by this, and wait for the replies."""
        while await self.start_due() or self._tasks:
            if self._tasks:  # the started tasks may have ended since then
                await asyncio.wait(self._tasks)

    async def _deliver(self, delivery: Delivery) -> None:
        try:
            begun = monotonic()
            answer = await self._transport.post(delivery.url, *self._request(delivery))
            tried = self._tried(delivery, answer)
            self._attempted(tried.state, monotonic() - begun)
            await asyncio.to_thread(self._outbox.settle, tried)
            if tried.state != "delivered":
                self._log(f"{tried.release}: callback {tried.id}: {tried.error}; {tried.state}")
        except Exception as error:  # noqa: BLE001 - the other callbacks are sent, and this one later
            self._log(f"{delivery.release}: callback {delivery.id}: {type(error).__name__}: {error}")
            await asyncio.sleep(_LOOK_SECONDS)
        finally:
            self._under_way.pop((delivery.release, delivery.endpoint), None)
            self.wake()

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
        if secrets := self._secrets.of(delivery.project, self._log):
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
        if answer.code == _GONE:
            return replace(tried, state="gone", error=error)
        if attempts > len(SCHEDULE):
            return replace(tried, state="given-up", error=error)
        pause = max(SCHEDULE[attempts - 1] * self._part(), min(answer.retry_after or 0.0, _LONGEST_WISH))
        return replace(tried, state="waiting", error=error, next_try=as_text(time + timedelta(seconds=pause)))

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

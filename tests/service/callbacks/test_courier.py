from __future__ import annotations

import asyncio
import base64
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from packager import __version__
from packager.base.values import replace
from packager.service.callbacks import courier
from packager.service.callbacks.courier import SCHEDULE, Courier, Reply, SigningSecrets, sign
from packager.service.sealing import Sealer
from packager.service.store.store import Store
from tests.service.conftest import BOTH
from tests.service.stored import JOB, add_job, change_job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from packager.service.store.models import Delivery

SEALER = Sealer(b"k" * 32)
SECRET = b"s" * 24
SECRET_OF_VISION = b"v" * 24
HOOK = {"endpoint": "https://hooks.example.com/cb", "type": "event", "headers": {"x-api-key": "***"}}


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - a thread's work sets no event
            await asyncio.sleep(0.01)


async def delivered(courier: Courier) -> None:
    """Send all due callbacks, also those that become due when others have been sent."""
    while await courier.start_due() or courier._tasks:  # noqa: SLF001 - the courier itself sends until it is cancelled
        await asyncio.gather(*courier._tasks)  # noqa: SLF001


class Endpoints:
    """A transport to endpoints in memory.

    Attributes:
        answers: The next replies; without any, the reply has status 200.
        got: The URL, the headers and the body of each callback.
        at_once: The hosts of the callbacks that wait at the gate.
        most: The largest number of callbacks that waited at once, in total and for one host.
        gate: An event that callbacks wait for; None to reply at once.
    """

    def __init__(self) -> None:
        self.answers: list[Reply] = []
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.at_once: list[str] = []
        self.most: tuple[int, int] = (0, 0)
        self.gate: asyncio.Event | None = None

    async def post(self, url: str, headers: dict[str, str], body: bytes) -> Reply:
        self.got.append((url, headers, body))
        if self.gate:
            self.at_once.append(url.split("/")[2])
            here = max(self.at_once.count(host) for host in self.at_once)
            self.most = (max(self.most[0], len(self.at_once)), max(self.most[1], here))
            await self.gate.wait()
            self.at_once.remove(url.split("/")[2])
        return self.answers.pop(0) if self.answers else Reply(200)

    async def close(self) -> None:
        return

    @property
    def told(self) -> list[str]:
        return [json.loads(body)["status"] for _, _, body in self.got]


class Post:
    """A store, a courier, and a clock that only the test advances."""

    def __init__(self, database: str, folder: Path) -> None:
        self.store = Store(database)
        self.endpoints = Endpoints()
        self.log: list[str] = []
        (folder / "secret").write_text(base64.b64encode(SECRET).decode())
        (folder / "secret-of-vision").write_text(f"{base64.b64encode(SECRET_OF_VISION).decode()}\n")
        self.secrets = SigningSecrets(folder / "secret", {"vision": folder / "secret-of-vision"})
        self.time = datetime.now(UTC) + timedelta(minutes=1)

    def courier(self, part: float = 1.0, sealer: Sealer = SEALER) -> Courier:
        transport: Any = self.endpoints
        return Courier(
            self.store.outbox,
            sealer,
            transport,
            url="https://train.example.com/",
            secrets=self.secrets,
            log=self.log.append,
            clock=lambda: self.time,
            part=lambda: part,
        )

    def job(self, release: str = "demo-1", *endpoints: dict[str, Any], status: str = "pending", **more: str) -> None:
        items = endpoints or (HOOK,)
        secrets = {str(index): {"x-api-key": "123qweasd"} for index, item in enumerate(items) if "headers" in item}
        sealed = SEALER.seal(secrets, release)
        filled = json.dumps({"endpoints": items})
        add_job(self.store, replace(JOB, release=release, filled=filled, secrets=sealed, status=status, **more))

    def becomes(self, status: str, release: str = "demo-1", **fields: Any) -> None:
        change_job(self.store, release, **{"status": status, "reason": None, "message": f"is {status}", **fields})

    def send(self, part: float = 1.0) -> None:
        asyncio.run(delivered(self.courier(part)))

    def delivery(self, release: str = "demo-1", number: int = -1) -> Delivery:
        return self.store.outbox.of_job(release)[number]

    def states(self, release: str = "demo-1") -> list[tuple[str, str]]:
        return [(delivery.status, delivery.state) for delivery in self.store.outbox.of_job(release)]

    def waits(self) -> float:
        time = self.store.outbox.next_time()
        assert time is not None
        return (datetime.fromisoformat(time) - self.time).total_seconds()


@pytest.fixture
def post(database: str, tmp_path: Path) -> Iterator[Post]:
    post = Post(database, tmp_path)
    yield post
    post.store.close()


def test_callback_has_the_content_and_headers_of_the_original(post: Post) -> None:
    post.job()
    post.becomes("running", started="2026-11-22T10:00:07.000000Z")
    post.becomes("succeeded", ended="2026-11-22T10:03:40.000000Z")
    post.send()
    assert post.endpoints.told == ["pending", "succeeded"]
    url, headers, body = post.endpoints.got[1]
    content = json.loads(body)
    assert list(content)[:4] == ["status", "task_id", "task_def", "creator"]
    times = {key: content.pop(key) for key in ("time", "created")}
    assert content == {
        "status": "succeeded", "task_id": "demo-1", "task_def": "d", "creator": "ada", "application": "demo",
        "sequence": 3, "reason": None, "message": "is succeeded", "started": "2026-11-22T10:00:07.000000Z",
        "ended": "2026-11-22T10:03:40.000000Z", "job": "https://train.example.com/v1/jobs/demo-1",
    }  # fmt: skip
    assert all(datetime.fromisoformat(time) for time in times.values())
    delivery = post.delivery()
    assert (url, headers) == (
        "https://hooks.example.com/cb",
        {
            "x-api-key": "123qweasd",
            "Content-Type": "application/json",
            "User-Agent": f"mlpack/{__version__}",
            "webhook-id": delivery.id,
            "webhook-timestamp": str(int(post.time.timestamp())),
            "webhook-signature": sign([SECRET], delivery.id, int(post.time.timestamp()), body),
        },
    )
    assert (delivery.state, delivery.attempts, delivery.code, delivery.error) == ("delivered", 1, 200, None)


@pytest.mark.parametrize(
    ("events", "told"),
    [(None, ["pending", "deleted"]), (["pending", "running", "deleted"], ["pending", "running", "deleted"])],
)
def test_endpoint_receives_only_the_statuses_in_its_events(
    events: list[str] | None, told: list[str], post: Post
) -> None:
    post.job("demo-1", {**HOOK, "events": events} if events else HOOK, {"endpoint": "s3://b/x", "type": "dataset"})
    post.becomes("running")
    post.becomes("deleted", reason="Cancelled")
    post.send()
    assert post.endpoints.told == told


def test_queued_job_is_reported_as_pending_once(post: Post) -> None:
    post.job(status="queued")
    post.becomes("pending")
    post.becomes("succeeded")
    post.send()
    assert post.endpoints.told == ["pending", "succeeded"]


@BOTH
def test_retries_follow_the_schedule_and_then_end(post: Post) -> None:
    post.job()
    post.becomes("failed")
    post.endpoints.answers = [Reply(500)] * 8 + [Reply(error="no answer in 10 s")]
    pauses = []
    for _ in SCHEDULE:
        post.send()
        pauses.append(post.waits())
        post.time += timedelta(seconds=pauses[-1] - 0.01)
        post.send()  # the next attempt is not due yet
        post.time += timedelta(seconds=0.01)
    assert pauses == list(SCHEDULE)
    assert post.endpoints.told == ["pending"] * 8
    post.send()
    assert post.states() == [("pending", "given-up"), ("failed", "delivered")]
    assert post.endpoints.told == ["pending"] * 9 + ["failed"]
    assert len({headers["webhook-id"] for _, headers, _ in post.endpoints.got[:9]}) == 1
    assert len({body for _, _, body in post.endpoints.got[:9]}) == 1
    delivery = post.delivery(number=0)
    assert (delivery.attempts, delivery.code, delivery.error, delivery.next_try) == (9, None, "no answer in 10 s", None)
    assert post.log[0] == f"demo-1: callback {delivery.id}: the endpoint has answered 500; waiting"


@pytest.mark.parametrize(("wish", "seconds"), [(60.0, 60.0), (1.0, 5.0), (99_999.0, 3600.0)])
def test_courier_obeys_retry_after_up_to_an_hour(wish: float, seconds: float, post: Post) -> None:
    post.job()
    post.endpoints.answers = [Reply(503, retry_after=wish)]
    post.send()
    assert post.waits() == seconds


@pytest.mark.thorough
@BOTH
def test_courier_sends_one_per_endpoint_four_per_host_and_fifty_in_all(post: Post) -> None:
    for number in range(90):
        post.job(f"demo-{number}", {"endpoint": f"https://h{number // 6}.example/cb", "type": "event"})
        post.becomes("failed", f"demo-{number}")

    async def run() -> None:
        post.endpoints.gate = asyncio.Event()
        courier = post.courier()
        await courier.start_due()
        await asyncio.sleep(0)
        assert post.endpoints.most == (50, 4)
        assert set(post.endpoints.told) == {"pending"}
        post.endpoints.gate.set()
        await delivered(courier)

    asyncio.run(run())
    assert post.endpoints.most == (50, 4)
    for number in range(90):
        rows = [json.loads(body) for _, _, body in post.endpoints.got]
        told = [row["status"] for row in rows if row["task_id"] == f"demo-{number}"]
        assert told == ["pending", "failed"]


def test_courier_sends_interrupted_callback_again_after_a_restart(post: Post) -> None:
    """A callback that was being sent when the server was killed is sent again with the same id."""
    post.job()

    async def killed() -> None:
        post.endpoints.gate = asyncio.Event()
        courier = post.courier()
        await courier.start_due()
        await asyncio.sleep(0)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    asyncio.run(killed())
    post.endpoints.gate = None
    assert post.states() == [("pending", "waiting")]
    post.send()
    assert [headers["webhook-id"] for _, headers, _ in post.endpoints.got] == [post.delivery().id] * 2


def test_courier_sends_new_callbacks_and_due_retries(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courier, "_LOOK_SECONDS", 0.01)

    def is_delivered() -> bool:
        post.time += timedelta(seconds=1)
        return post.states() == [("pending", "delivered")]

    async def run() -> None:
        task = asyncio.create_task(post.courier().run())
        await asyncio.sleep(0)
        post.endpoints.answers = [Reply(500)]
        post.job()
        await eventually(is_delivered)
        task.cancel()

    asyncio.run(run())
    assert post.endpoints.told == ["pending"] * 2


@BOTH
def test_callback_of_a_removed_job_is_signed_delivered_and_then_removed(post: Post) -> None:
    post.job("demo-1", project="vision")
    post.send()
    post.becomes("deleted", reason="Deleted")
    post.store.want("demo-1", "delete", "ada")
    assert post.store.remove_job("demo-1", "delete")
    assert post.states() == [("deleted", "waiting")]
    post.send()
    assert post.endpoints.told == ["pending", "deleted"]
    assert post.states() == []
    for _, headers, body in post.endpoints.got:  # with the secret of its project
        signature = sign([SECRET_OF_VISION], headers["webhook-id"], int(post.time.timestamp()), body)
        assert headers["webhook-signature"] == signature


def test_courier_logs_undecryptable_headers_and_continues(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courier, "_LOOK_SECONDS", 0.0)
    post.job("demo-1")
    post.job("demo-2")
    other = post.courier(sealer=Sealer(b"x" * 32))

    async def run() -> None:
        await other.start_due()
        await eventually(lambda: len(post.log) == 2)

    asyncio.run(run())
    assert "the headers of a job cannot be decrypted: the secret key is another one" in post.log[0]
    assert post.endpoints.got == []
    post.send()
    assert post.endpoints.told == ["pending", "pending"]

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from packager.service.jobs import recorder
from packager.service.jobs.recorder import Recorder
from packager.service.store.rows import StoredStatus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

    from packager.service.jobs.kube import LogOptions


class Logs:
    """A cluster with only a log, each line of which begins with its time."""

    def __init__(self, text: list[str]) -> None:
        self.text = text
        self.asked: list[Any] = []

    async def log(self, _pod: str, _namespace: str, options: LogOptions) -> AsyncIterator[str]:
        assert options.has_times
        self.asked.append(options.since)
        for line in self.text:
            yield line


class Memory:
    """A store with only curves."""

    def __init__(self) -> None:
        self.measured = self
        self.bodies: dict[str, str] = {}

    def of_job(self, release: str) -> str | None:
        return self.bodies.get(release)

    def keep(self, release: str, body: str) -> None:
        self.bodies[release] = body


def recorded(cluster: Logs, memory: Memory) -> list[tuple[int, float | None]]:
    parts: tuple[Any, Any] = (cluster, memory)
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main"}]}}
    job = StoredStatus(release="r", namespace="n", status="succeeded")

    async def run() -> list[tuple[int, float | None]]:
        made = Recorder(*parts, "default", lambda _line: None)
        await made.record(job, [pod])
        return [point for item in await made.curves(job) for point in item.drawn]

    return asyncio.run(run())


def test_recorder_continues_at_times_in_the_zone_of_a_node() -> None:
    memory = Memory()
    cluster = Logs(['2026-11-22T12:00:01.5+02:00 {"step": 1, "loss": 1}\n'])
    assert recorded(cluster, memory) == [(1, 1.0)]
    cluster.text.append('2026-11-22T12:00:02.5+02:00 {"step": 2, "loss": 2}\n')
    cluster.text.append('2026-11-22T11:00:03.5+01:00 {"step": 3, "loss": 3}\n')  # the end of summer time
    cluster.text.append('9999-99-99T99:99:99Z {"step": 9, "loss": 9}\n')
    assert recorded(cluster, memory) == [(1, 1.0), (2, 2.0), (3, 3.0)]
    assert recorded(cluster, memory) == [(1, 1.0), (2, 2.0), (3, 3.0)]
    assert cluster.asked == [
        None,
        datetime(2026, 11, 22, 10, 0, 1, tzinfo=UTC),
        datetime(2026, 11, 22, 10, 0, 3, tzinfo=UTC),
    ]


def test_recorder_reads_pods_of_running_jobs_from_the_control_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "ROUND", 0.01)
    memory: Any = Memory()
    memory.unfinished = lambda: [
        StoredStatus(release=release, namespace="n", status=status)
        for release, status in (("r", "running"), ("q", "queued"))
    ]
    cluster: Any = Logs(['2026-11-22T10:00:00Z {"step": 1, "loss": 1}\n'])  # it cannot list pods
    asked: list[str] = []
    is_kept = asyncio.Event()
    keep = memory.keep

    def pods(job: StoredStatus) -> list[Any]:
        asked.append(job.release)
        return [{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main"}]}}]

    async def run() -> None:
        task = asyncio.create_task(Recorder(cluster, memory, "default", lambda _line: None, pods).run())
        loop = asyncio.get_running_loop()
        memory.keep = lambda *entry: (keep(*entry), loop.call_soon_threadsafe(is_kept.set))
        await is_kept.wait()
        task.cancel()

    asyncio.run(asyncio.wait_for(run(), 30))
    assert set(asked) == {"r"}


def test_recorder_reads_no_time_within_a_line() -> None:
    """A long line comes in pieces, and the program decides how the later ones begin."""
    memory = Memory()
    text = ["2026-11-22T10:00:00Z " + "x" * 65_536, "9999-99-99T99:99:99Z {}", "\n"]
    assert recorded(Logs(text), memory) == []
    text.append('2026-11-22T10:00:01Z {"step": 1, "loss": 1}\n')
    assert recorded(Logs(text), memory) == [(1, 1.0)]


def test_recorder_continues_after_an_error_of_another_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "ROUND", 0.01)
    monkeypatch.setattr(recorder, "_AT_ONCE", 1)
    memory: Any = Memory()
    memory.bodies["bad"] = "{"
    releases = ("bad", "r")
    memory.unfinished = lambda: [StoredStatus(release=release, namespace="n", status="running") for release in releases]
    keep = memory.keep
    messages: list[str] = []
    pods: Any = [{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main"}]}}]
    cluster: Any = Logs(['2026-11-22T10:00:00Z {"step": 1, "loss": 1}\n'])
    is_kept = asyncio.Event()

    async def run() -> None:
        task = asyncio.create_task(Recorder(cluster, memory, "default", messages.append, lambda _job: pods).run())
        loop = asyncio.get_running_loop()
        memory.keep = lambda *entry: (keep(*entry), loop.call_soon_threadsafe(is_kept.set))
        await is_kept.wait()
        task.cancel()

    asyncio.run(asyncio.wait_for(run(), 30))
    assert memory.bodies.keys() == {"bad", "r"}
    assert messages[0].startswith("bad: its metrics cannot be recorded: JSONDecodeError")


def test_recorder_reads_each_line_of_the_same_time_once() -> None:
    memory = Memory()
    first = [f'2026-11-22T10:00:00.5Z {{"step": {step}, "loss": {step}}}\n' for step in range(3)]
    assert [step for step, _ in recorded(Logs(first), memory)] == [0, 1, 2]
    more = [
        *first,
        '2026-11-22T10:00:00.5Z {"step": 3, "loss": 3}\n',
        '2026-11-22T10:00:00.51Z {"step": 4, "loss": 4}\n',
    ]
    cluster = Logs(more)
    assert [step for step, _ in recorded(cluster, memory)] == [0, 1, 2, 3, 4]
    assert cluster.asked[0].isoformat() == "2026-11-22T10:00:00+00:00"
    assert [step for step, _ in recorded(Logs(more), memory)] == [0, 1, 2, 3, 4]


def test_recorder_reads_a_long_log_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "_MOST_BYTES", 500)
    monkeypatch.setattr(recorder, "_BATCH", 3)
    text = [f'2026-11-22T10:00:{second:02}Z {{"step": {second}, "loss": 1}}\n' for second in range(30)]
    memory = Memory()
    assert len(recorded(Logs(text), memory)) < 15
    assert len(recorded(Logs(text[8:]), memory)) > 15


def test_recorder_keeps_points_of_a_log_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging(Logs):
        async def log(self, pod: str, namespace: str, options: LogOptions) -> AsyncIterator[str]:
            async for line in super().log(pod, namespace, options):
                yield line
            await asyncio.Event().wait()

    monkeypatch.setattr(recorder, "_SECONDS", 0.05)
    assert recorded(Hanging(['2026-11-22T10:00:00Z {"step": 1, "loss": 1}\n']), Memory()) == [(1, 1.0)]


def test_recorder_ignores_malformed_lines() -> None:
    text = [
        "no time\n",
        "2026-11-22T10:00:00Z \n",
        '2026-11-22T10:00:01Z {"step": 1}\n',
        "2026-11-22T10:00:02Z " + "x" * 99_999,
    ]
    assert recorded(Logs(text), Memory()) == []

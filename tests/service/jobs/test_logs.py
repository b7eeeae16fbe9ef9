from __future__ import annotations

import asyncio
import threading
import zlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.errors import UnreachableError
from packager.service.jobs import logs
from packager.service.jobs.logs import MOST_BYTES, MOST_PODS, LogReader, instances, kept_lines
from packager.service.registry.policy import JOB, SERVER
from packager.service.store.models import StoredLog, StoredStatus
from packager.service.work import Work
from tests.service.fake import FakeCluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from packager.service.jobs.kube import LogOptions

DEMO = StoredStatus(release="demo-1", namespace="tests")


class Shelf:
    """A store of logs and curves in memory."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str, str], StoredLog] = {}
        self.logs = self

    @property
    def measured(self) -> Memory:
        return Memory()

    def keep(self, log: StoredLog) -> None:
        assert log.release == "demo-1"
        self.kept[log.pod, log.container, log.instance] = log

    def of_job(self, release: str) -> list[StoredLog]:
        assert release == "demo-1"
        return list(self.kept.values())

    def text(self, pod: str, container: str = "main", instance: str = "current") -> str:
        return zlib.decompress(self.kept[pod, container, instance].content).decode()


class Bench:
    """A keeper with a cluster and a log store in memory."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.shelf = Shelf()
        self.looked: list[str] = []
        self.log: list[str] = []
        store: Any = self.shelf
        self.keeper = LogReader(
            self.cluster,
            store,
            "default",
            Work(),
            self.log.append,
            look_at=lambda release, _: self.looked.append(release),
        )

    def pod(self, name: str, log: list[str], *containers: dict[str, Any]) -> dict[str, Any]:
        item = {
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "tests", "labels": {JOB: "demo-1", SERVER: "default"}},
            "status": {"containerStatuses": list(containers or [{"name": "main", "state": ended(0)}])},
        }
        self.cluster.put(item)
        self.cluster.logs[name] = log
        return item

    def end(self) -> None:
        """Keep the logs as the control loop does when a job has ended."""

        async def run() -> None:
            assert not self.keeper.has_kept(DEMO, is_final=True)
            while not self.keeper.has_kept(DEMO, is_final=True):  # noqa: ASYNC110 - the control loop polls in the same way
                await asyncio.sleep(0)
            await self.keeper.close()

        asyncio.run(run())
        self.keeper.forget("demo-1")


def ended(code: int) -> dict[str, Any]:
    return {"terminated": {"exitCode": code}}


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_keeper_keeps_the_log_of_each_started_container(bench: Bench) -> None:
    item = bench.pod(
        "p-1",
        [],
        {"name": "main", "state": {"running": {}}, "lastState": ended(1)},
        {"name": "side", "state": {"waiting": {}}},
    )
    item["status"]["initContainerStatuses"] = [{"name": "copy", "state": ended(0)}]
    assert [(run.container, run.place, run.is_previous, run.has_failed) for run in instances(item)] == [
        ("copy", -1, False, False),
        ("main", 0, False, False),
        ("main", 0, True, True),
    ]
    bench.cluster.logs = {"p-1/copy": ["a\n"], "p-1/main": ["b\n"], "p-1/previous/main": ["c\n"]}
    bench.end()
    assert {key: bench.shelf.text(*key)[-2:] for key in bench.shelf.kept} == {
        ("p-1", "copy", "current"): "a\n",
        ("p-1", "main", "current"): "b\n",
        ("p-1", "main", "previous"): "c\n",
    }
    assert bench.looked == ["demo-1"]


def test_keeper_keeps_the_end_of_a_long_log(bench: Bench) -> None:
    bench.pod("p-1", [f"{number:06} {'x' * 100}\n" for number in range(9_000)])
    bench.end()
    text = bench.shelf.text("p-1")
    assert MOST_BYTES - 200 < len(text) <= MOST_BYTES
    assert text.splitlines()[-1].split(" ")[1] == "008999"
    bench.cluster.logs["p-1"] = ["y" * (2 * MOST_BYTES) + "\n"]
    bench.end()
    assert len(bench.shelf.text("p-1")) == MOST_BYTES == bench.shelf.kept["p-1", "main", "current"].size


def test_keeper_limits_the_logs_of_a_job_and_prefers_failed_containers(bench: Bench) -> None:
    for number in range(30):
        failed = {"name": "main", "state": ended(1 if number == 29 else 0)}
        bench.pod(f"p-{number:02}", ["x" * MOST_BYTES + "\n"], failed)
    bench.end()
    assert len(bench.shelf.kept) == MOST_PODS
    assert ("p-29", "main", "current") in bench.shelf.kept
    assert sum(log.size for log in bench.shelf.kept.values()) == 5 << 20
    bench.end()
    assert len(bench.shelf.kept) == MOST_PODS


def test_keeper_keeps_logs_at_the_first_failure_and_later_logs_too(bench: Bench) -> None:
    """Many controllers delete the other pods of a set when one pod has failed."""
    fine = bench.pod("p-1", ["fine\n"], {"name": "main", "state": {"running": {}}})
    failing = bench.pod("p-2", ["why\n"], {"name": "main", "state": ended(1)})

    async def run() -> None:
        assert bench.keeper.has_kept(DEMO, is_final=False, pods=[fine])
        assert not bench.keeper._tasks  # noqa: SLF001
        assert bench.keeper.has_kept(DEMO, is_final=False, pods=[fine, failing])
        await asyncio.gather(*bench.keeper._tasks.values())  # noqa: SLF001
        assert bench.keeper.has_kept(DEMO, is_final=False, pods=[fine, failing])
        assert not bench.keeper._tasks  # noqa: SLF001

    asyncio.run(run())
    assert bench.looked == []
    del bench.cluster.objects["Pod", "p-1"], bench.cluster.objects["Pod", "p-2"]
    bench.pod("p-3", ["again\n"])
    bench.end()
    assert sorted(bench.shelf.kept) == [(f"p-{number}", "main", "current") for number in (1, 2, 3)]


def test_keeper_finishes_a_job_when_a_log_cannot_be_read(bench: Bench) -> None:
    bench.pod("p-1", ["a\n"])
    bench.pod("p-2", ["b\n"])
    del bench.cluster.logs["p-1"]
    bench.end()
    assert list(bench.shelf.kept) == [("p-2", "main", "current")]
    message = 'demo-1: the log of p-1, main cannot be kept: container "main" in pod "p-1" is waiting to start'
    assert bench.log == [message]
    bench.cluster.error = UnreachableError("the cluster does not answer")
    bench.end()
    assert bench.log[1:] == ["demo-1: its logs cannot be kept: UnreachableError: the cluster does not answer"]


def test_keeper_keeps_the_other_logs_of_a_job_with_a_silent_kubelet(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_LOG_SECONDS", 0.05)
    log = bench.cluster.log
    for name in ("p-1", "p-2"):
        bench.pod(name, [f"{name}\n"])

    async def silent(pod: str, *others: Any) -> Any:
        if pod == "p-1":
            await asyncio.Event().wait()
        async for line in log(pod, *others):
            yield line

    bench.cluster.log = silent  # type: ignore[method-assign, assignment]
    bench.end()
    assert list(bench.shelf.kept) == [("p-2", "main", "current")]
    assert bench.log == ["demo-1: the log of p-1, main cannot be kept: it could not be read in 0.05 s"]


def test_kept_lines_returns_lines_like_the_log_of_a_pod() -> None:
    text = "2026-11-22T10:00:01.25Z a\u2028b\n2026-11-22T10:00:02.5Z c\nwithout a time\n2026-11-22T10:00:03Z \n"
    content = zlib.compress(text.encode())
    every = ["a\u2028b\n", "c\n", "without a time\n", "\n"]
    assert kept_lines(content, tail=None, since=None) == every
    assert kept_lines(content, tail=2, since=None) == every[2:]
    assert kept_lines(content, tail=0, since=None) == []
    since = datetime(2026, 11, 22, 10, 0, 2, tzinfo=UTC)
    assert kept_lines(content, tail=None, since=since) == every[1:]
    assert kept_lines(b"", tail=None, since=None) == []


# curves


class Told:
    """A cluster with only a log, each line of which begins with its time."""

    def __init__(self, text: list[str]) -> None:
        self.text = text
        self.asked: list[Any] = []

    async def log(self, _pod: str, _namespace: str, options: LogOptions) -> AsyncIterator[bytes]:
        assert options.has_times
        self.asked.append(options.since)
        for line in self.text:
            yield line.encode()


class Memory:
    """A store with only curves."""

    def __init__(self) -> None:
        self.measured = self
        self.bodies: dict[str, str] = {}

    def of_job(self, release: str) -> str | None:
        return self.bodies.get(release)

    def keep(self, release: str, body: str) -> None:
        self.bodies[release] = body


def recorded(cluster: Told, memory: Memory) -> list[tuple[int, float | None]]:
    parts: tuple[Any, Any] = (cluster, memory)
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main"}]}}
    job = StoredStatus(release="r", namespace="n", status="succeeded")

    async def run() -> list[tuple[int, float | None]]:
        made = LogReader(*parts, "default", Work(), lambda _line: None)
        await made.record(job, [pod])
        return [point for item in await made.curves(job) for point in item.drawn]

    return asyncio.run(run())


def test_recorder_continues_at_times_in_the_zone_of_a_node() -> None:
    memory = Memory()
    cluster = Told(['2026-11-22T12:00:01.5+02:00 {"step": 1, "loss": 1}\n'])
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


def test_recorder_continues_after_an_error_of_another_job() -> None:
    memory: Any = Memory()
    memory.bodies["bad"] = "{"
    jobs = iter([StoredStatus(release=release, namespace="n", status="running") for release in ("bad", "r")])
    messages: list[str] = []
    pods: Any = [{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main"}]}}]
    cluster: Any = Told(['2026-11-22T10:00:00Z {"step": 1, "loss": 1}\n'])
    asyncio.run(LogReader(cluster, memory, "default", Work(), messages.append, lambda _: pods)._record_each(jobs))  # noqa: SLF001
    assert memory.bodies.keys() == {"bad", "r"}
    assert messages[0].startswith("bad: its metrics cannot be recorded: JSONDecodeError")


def test_recorder_reads_each_line_of_the_same_time_once() -> None:
    memory = Memory()
    first = [f'2026-11-22T10:00:00.5Z {{"step": {step}, "loss": {step}}}\n' for step in range(3)]
    assert [step for step, _ in recorded(Told(first), memory)] == [0, 1, 2]
    more = [
        *first,
        '2026-11-22T10:00:00.5Z {"step": 3, "loss": 3}\n',
        '2026-11-22T10:00:00.51Z {"step": 4, "loss": 4}\n',
    ]
    cluster = Told(more)
    assert [step for step, _ in recorded(cluster, memory)] == [0, 1, 2, 3, 4]
    assert cluster.asked[0].isoformat() == "2026-11-22T10:00:00+00:00"
    assert [step for step, _ in recorded(Told(more), memory)] == [0, 1, 2, 3, 4]


def test_recorder_reads_a_long_log_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_MOST_READ", 500)
    monkeypatch.setattr(logs, "_PARSED_BYTES", 100)
    text = [f'2026-11-22T10:00:{second:02}Z {{"step": {second}, "loss": 1}}\n' for second in range(30)]
    memory = Memory()
    assert len(recorded(Told(text), memory)) < 15
    assert len(recorded(Told(text[8:]), memory)) > 15


def test_lines_are_cut_in_threads_and_not_on_the_event_loop(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: dict[str, str] = {}
    for holder, name in ((logs.CurveReader, "add"), (zlib, "compress")):
        cut = getattr(holder, name)

        def noted(*values: Any, name: str = name, cut: Any = cut) -> Any:
            threads[name] = threading.current_thread().name.partition("_")[0]
            return cut(*values)

        monkeypatch.setattr(holder, name, noted)
    item = bench.pod("p-1", ['2026-11-22T10:00:00Z {"step": 1, "loss": 1}\n'])
    item["spec"] = {"containers": [{"name": "main"}]}
    bench.end()
    assert threads == {"add": "work", "compress": "work"}


def test_recorder_ignores_malformed_lines() -> None:
    text = [
        "no time\n",
        "2026-11-22T10:00:00Z \n",
        '2026-11-22T10:00:01Z {"step": 1}\n',
        "2026-11-22T10:00:02Z " + "x" * 99_999,
    ]
    assert recorded(Told(text), Memory()) == []


def test_end_of_a_job_has_its_last_lines_in_its_curves_and_its_log(bench: Bench) -> None:
    memory = Memory()
    item = bench.pod("p-1", [f'{{"step": {step}, "loss": 1}}\n' for step in range(5)])
    item["spec"] = {"containers": [{"name": "main"}]}
    store: Any = bench.shelf
    store.__class__ = type("Both", (Shelf,), {"measured": memory})
    bench.end()
    assert '"drawn"' not in memory.bodies["demo-1"]
    assert "[4,1" in memory.bodies["demo-1"].replace(" ", "")
    assert bench.shelf.text("p-1").count("\n") == 5

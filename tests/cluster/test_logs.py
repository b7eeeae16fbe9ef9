"""Tests of the reader of logs: each byte once, across broken connections, restarts and rotations."""

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from packager.base.errors import ClusterError, UnreachableError
from packager.base.process import Finished
from packager.cluster import logreader
from packager.cluster.logreader import ContainerLog, LogPart, LogStreams, read_once, with_log_end
from packager.kubernetes.kubectl.client import Kubectl  # noqa: TC001 - named in casts
from packager.kubernetes.objects import Object
from packager.kubernetes.verdict import Finding
from tests.fake_cluster import item

BROKEN = Finished(1, "", "error: unexpected EOF")
GONE = Finished(1, "", 'Error from server (NotFound): pods "p" not found')
ENDED = Finished(0, "", "")
DAY = "2026-11-21T00:00:"


def stamped(*lines: str) -> bytes:
    """Return lines, each of which begins with its second: `01.5 text`."""
    return "".join(f"{DAY}{line.partition(' ')[0]}Z {line.partition(' ')[2]}\n" for line in lines).encode()


def pod(name: str = "p", restarts: int = 0, phase: str = "Running", **state: Any) -> Object:
    entry = {"name": "main", "state": state or {"running": {"startedAt": f"{DAY}00Z"}}, "restartCount": restarts}
    spec = {"containers": [{"name": "main"}], "restartPolicy": "Never"}
    return item("Pod", name, spec=spec, status={"phase": phase, "containerStatuses": [entry]})


@dataclass
class FakeRunner:
    def now(self) -> datetime:
        return datetime(2026, 11, 21, 1, tzinfo=UTC)

    def clock(self) -> float:
        return 0.0


@dataclass(eq=False)
class Program:
    stdout: io.BytesIO
    end: Finished

    def wait(self) -> Finished:
        return self.end

    def stop(self) -> None:
        """Do nothing: it has ended."""


@dataclass
class FakeKubectl:
    """A kubectl that gives one answer after the other, and the last one again and again."""

    answers: list[tuple[bytes, Finished]]
    calls: list[str] = field(default_factory=list)
    runner: FakeRunner = field(default_factory=FakeRunner)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def remaining(self, timeout: float) -> float:
        return timeout

    @contextmanager
    def start(self, *arguments: str, idle: object) -> Iterator[Program]:
        assert callable(idle)
        with self.lock:
            self.calls.append(" ".join(arguments))
            answer, end = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        yield Program(io.BytesIO(answer), end)


def log_of(*answers: tuple[bytes, Finished], **state: Any) -> tuple[ContainerLog, FakeKubectl]:
    kubectl = FakeKubectl(list(answers))
    return ContainerLog(cast("Kubectl", kubectl), pod(**state)), kubectl


def read(log: ContainerLog) -> bytes:
    """Return the bytes that a read yields, also if it breaks off."""
    data = bytearray()
    try:
        for block in read_once(log):
            data += block
    except UnreachableError:
        data += b"<broken>"
    return bytes(data)


def test_log_continues_after_broken_connection_without_repeating_or_losing_bytes() -> None:
    lines = ["01.1 a", "02.5 b", "02.5 c", "02.5 d", "03.0 e"]
    log, kubectl = log_of(
        (stamped(*lines[:3]), BROKEN),
        (stamped(*lines[1:4]) + b"2026-11-2", BROKEN),
        (stamped(*lines[1:4]) + f"{DAY}02.7Z unfin".encode(), BROKEN),
        (stamped(*lines[1:4], "02.7 unfinished", *lines[4:]), ENDED),
        (stamped("02.7 unfinished", *lines[4:]), ENDED),
    )
    assert [read(log) for _ in range(5)] == [b"a\nb\nc\n<broken>", b"d\n<broken>", b"unfin<broken>", b"ished\ne\n", b""]
    assert log.notes == []
    assert kubectl.calls == [
        "logs p --container=main --timestamps --tail=-1",
        *["logs p --container=main --timestamps --since-time=2026-11-21T00:00:01Z"] * 3,
        "logs p --container=main --timestamps --since-time=2026-11-21T00:00:02Z",
    ]


def test_log_before_restart_is_read_first_and_only_its_rest() -> None:
    log, kubectl = log_of((stamped("01 a"), BROKEN), (stamped("01 a", "02 b"), ENDED), (stamped("05 c"), ENDED))
    assert read(log) == b"a\n<broken>"
    log.pod = pod(restarts=1)
    assert read(log) == b"b\nc\n"
    assert ["--previous" in call for call in kubectl.calls] == [False, True, False]
    assert log.notes == []
    log.pod = pod(restarts=3)
    read(log)
    assert len(log.notes) == 1


def test_rotation_between_two_reads_is_noted() -> None:
    log, _ = log_of((stamped("01 a"), BROKEN), (stamped("04 d"), ENDED))
    assert (read(log), read(log)) == (b"a\n<broken>", b"d\n")
    assert log.notes == ["lines of pod/p may be missing here: its node has rotated the log since the last read"]


@pytest.mark.parametrize(
    ("lines", "is_noted"),
    [
        (["10.000 " + "x" * 99] * 400, True),  # the rest of 100 MB, of which the node has kept the end
        (["10.000 banner"] * 20, False),
        ([f"{second}.000 step" for second in range(10, 50)], False),
    ],
)
def test_log_without_its_first_lines_is_noted_if_the_program_writes_fast(lines: list[str], *, is_noted: bool) -> None:
    log, _ = log_of((stamped(*lines), ENDED))
    assert read(log).count(b"\n") == len(lines)
    assert bool(log.notes) is is_noted


def test_long_line_arrives_in_parts() -> None:
    text = "x" * 300_000
    log, _ = log_of((stamped(f"01 {text}", "02 b"), ENDED))
    blocks = list(read_once(log))
    assert b"".join(blocks) == f"{text}\nb\n".encode()
    assert len(blocks) > 2


def test_message_of_kubelet_in_place_of_log_is_an_error() -> None:
    log, _ = log_of((b"unable to retrieve container logs for containerd://1", ENDED))
    with pytest.raises(ClusterError, match=r"^the log of pod/p cannot be read: unable to retrieve"):
        list(read_once(log))


def test_waiting_container_has_no_log() -> None:
    log, kubectl = log_of((b"", ENDED), waiting={"reason": "ContainerCreating"})
    assert (read(log), kubectl.calls) == (b"", [])


def test_end_of_log_is_added_to_finding() -> None:
    kubectl = FakeKubectl([(stamped("01 one", "02 two"), ENDED)])
    finding = Finding("Error", "pod/p", "failed", container="main")
    assert with_log_end(cast("Kubectl", kubectl), finding).log == ("one", "two")
    assert kubectl.calls == ["logs p --container=main --timestamps --tail=12"]


def all_parts(parts: Iterator[LogPart]) -> list[bytes | str]:
    return [part.content for part in parts]


def test_streams_follow_until_container_has_ended() -> None:
    kubectl = FakeKubectl([(stamped("01 a"), BROKEN), (stamped("01 a", "02 b"), ENDED)])
    with LogStreams(cast("Kubectl", kubectl)) as streams:
        assert streams.follow(pod())
        streams.wait(5)
        assert all_parts(streams.parts()) == [b"a\n"]
        streams.follow(pod(phase="Succeeded", terminated={"exitCode": 0}))
        assert all_parts(streams.finish()) == [b"b\n"]
        assert streams.error is None


def test_streams_read_the_file_that_a_node_has_begun_before_the_container_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A kubelet that follows a log ends with the file that it reads, if the container has ended meanwhile."""
    monkeypatch.setattr(logreader, "_MOST_KEPT", 1)
    kubectl = FakeKubectl([(stamped("01.0 one"), ENDED), (stamped("02.0 two"), ENDED)])
    with LogStreams(cast("Kubectl", kubectl)) as streams:
        streams.follow(pod(phase="Succeeded"))
        parts = [*streams.parts(5.0), *streams.finish()]
    assert b"".join(part.content for part in parts if isinstance(part.content, bytes)) == b"one\ntwo\n"
    assert len(kubectl.calls) == 3


def test_streams_report_deleted_pod_whose_log_was_not_read() -> None:
    with LogStreams(cast("Kubectl", FakeKubectl([(b"", GONE)]))) as streams:
        streams.follow(pod())
        streams.wait(5)
        missing = "the end of the log of pod/p is missing: the pod was deleted before it was read"
        assert all_parts(streams.finish()) == [missing]


def test_streams_report_error_and_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logreader, "_PAUSE", 0.01)
    denied = Finished(1, "", 'Error from server (Forbidden): pods "p" is forbidden')
    kubectl = FakeKubectl([(b"", denied), (b"", denied), (stamped("01 a"), ENDED)])
    with LogStreams(cast("Kubectl", kubectl)) as streams:
        streams.follow(pod())
        streams.wait(5)
        assert all_parts(streams.parts(5)) == [b"a\n"]


def test_streams_read_at_most_sixteen_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logreader, "MOST_STREAMS", 2)
    with LogStreams(cast("Kubectl", FakeKubectl([(b"", ENDED)]))) as streams:
        assert [streams.follow(pod(name)) for name in ("a", "b", "c", "a")] == [True, True, False, True]

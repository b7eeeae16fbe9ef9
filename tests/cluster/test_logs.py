"""Tests of incremental reading of logs: each byte is read once, and an unreadable log is an error."""

from __future__ import annotations

import io
import tracemalloc
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packager.base.errors import ClusterError, UnreachableError
from packager.base.process import Finished
from packager.cluster.loglines import LogPosition, pieces
from packager.cluster.logreader import LogRange, LogReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FORBIDDEN = 'Error from server (Forbidden): pods "p" is forbidden: User "me" cannot get resource "pods/log"'


AWAY = 'Error from server: Get "https://10.0.0.1:10250/containerLogs/team/p/main": connect: connection refused'
WELL = Finished(0, "", "")


def stamp(nanoseconds: int) -> str:
    return f"2026-11-21T00:00:{nanoseconds // 10**9:02}.{nanoseconds % 10**9:09}"


@dataclass
class _Running:
    stdout: io.BytesIO
    end: Finished

    def wait(self) -> Finished:
        return self.end


@dataclass
class Server:
    """A kubelet's log of one container, as kubectl prints it: the whole log, or the lines since a second.

    Attributes:
        lines: The time of each line, in nanoseconds, and its bytes.
        previous: The lines of the previous container; None if its log no longer exists.
        end: The result of kubectl.
        silence: Seconds without output before the answer.
        reach: The number of bytes of an answer that arrive; None for all.
        format: The format of a line's time.
        left: Seconds until kubectl's deadline.
    """

    lines: list[tuple[int, bytes]] = field(default_factory=list)
    previous: list[tuple[int, bytes]] | None = None
    end: Finished = WELL
    silence: int = 0
    reach: int | None = None
    format: str = "{}Z"
    left: float = 60.0

    def remaining(self, timeout: float) -> float:
        return min(timeout, self.left)

    @contextmanager
    def start(self, *arguments: str, idle: Callable[[float], object]) -> Iterator[_Running]:
        for seconds in range(1, self.silence + 1):
            idle(seconds)
        since = next((argument.partition("=")[2] for argument in arguments if argument.startswith("--since-time=")), "")
        lines = self.previous if "--previous" in arguments else self.lines
        if lines is None:
            gone = 'Error from server (BadRequest): previous terminated container "main" in pod "p" not found'
            yield _Running(io.BytesIO(), Finished(1, "", gone))
            return
        answer = b""
        for moment, text in lines:
            is_new = not answer or answer.endswith(b"\n")
            if stamp(moment)[:19] >= since[:19]:
                answer += (self.format.format(stamp(moment)).encode() + b" " if is_new else b"") + text
        yield _Running(io.BytesIO(answer[: self.reach]), self.end)


def pod(state: str = "running", restarts: int = 0, **moments: str) -> dict[str, Any]:
    status = {"name": "main", "state": {state: moments}, "restartCount": restarts}
    return {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "main"}]},
        "status": {"containerStatuses": [status]},
    }


def reader(server: Server) -> LogReader:
    return LogReader(server, pod())  # type: ignore[arg-type]


def read(reading: LogReader, **state: Any) -> bytes:
    return b"".join(reading.read(pod(**state)))


def numbered(*seconds: float) -> list[tuple[int, bytes]]:
    return [(round(second * 10**9), b"line %d\n" % index) for index, second in enumerate(seconds)]


MOMENTS = st.sampled_from([0, 1, 100, 999_999_999, 1_000_000_000, 1_500_000_000, 2_000_000_001, 9_000_000_000])
TEXTS = st.sampled_from([b"a\n", b"\n", b"10%\r20%\r\n", b"\xff\x00\x1b[2J\n", b"x" * 20_000 + b"\n", b"no end"])


LINES = st.lists(st.tuples(MOMENTS, TEXTS), max_size=12).map(lambda lines: sorted(lines, key=lambda line: line[0]))


@given(LINES, st.lists(st.tuples(st.integers(0, 12), st.integers(0, 99)), max_size=5))
def test_log_reader_reads_every_byte_exactly_once(lines: list[tuple[int, bytes]], cuts: list[tuple[int, int]]) -> None:
    server, taken = Server(), b""
    reading = reader(server)
    for cut, missing in [*sorted(cuts), (len(lines), 0)]:
        server.lines = lines[:cut]
        server.reach = -missing if missing else None  # the connection breaks off
        taken += read(reading)
    assert taken == b"".join(text for _, text in lines)
    assert reading.gaps == 0


@given(st.lists(MOMENTS, min_size=1, max_size=10), st.integers(0, 10))
def test_log_reader_loses_no_line_that_is_out_of_order_within_a_second(moments: list[int], cut: int) -> None:
    late = [moment % 10**9 + 3 * 10**9 for moment in moments]
    lines = [(moment, b"line %d\n" % index) for index, moment in enumerate(late)]
    server = Server(lines[:cut])
    reading = reader(server)
    taken = read(reading)
    server.lines = lines
    assert taken + read(reading) == b"".join(text for _, text in lines)


def test_rotated_log_repeats_no_lines_and_counts_its_gaps() -> None:
    lines = numbered(1, 1, 2, 2.5, 3, 3.1, 3.2, 4)
    server = Server(lines[:6])
    reading = reader(server)
    assert read(reading) == b"line 0\nline 1\nline 2\nline 3\nline 4\nline 5\n"
    server.lines = lines[5:7]
    assert read(reading) == b"line 6\n"
    assert reading.gaps == 0
    server.lines = lines[7:]
    assert read(reading) == b"line 7\n"
    assert reading.gaps == 1
    assert read(reading) == b""


def test_unfinished_line_of_100_mib_is_read_in_less_than_4_mib_of_memory() -> None:
    class Endless:
        left = 100 << 20

        def read1(self, size: int, /) -> bytes:
            size = min(size, self.left)
            self.left -= size
            return b"x" * size

    tracemalloc.start()
    size = sum(len(piece.text) for piece in pieces(Endless()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (size, peak < 4 << 20) == (100 << 20, True)


def test_times_that_old_kubelets_insert_into_long_lines_are_removed() -> None:
    cut = 16 << 10
    times = [b"2026-11-21T00:00:01.5Z ", b"2026-11-21T00:00:01.500000007Z ", b"2026-11-21T00:00:02Z "]
    parts = [b"x" * cut, b"y" * cut, b"z" * 100 + b"\n"]
    answer = b"".join(time + part for time, part in zip(times, parts, strict=True))
    stream = io.BytesIO(answer)
    position = LogPosition()
    assert b"".join(position.take(piece) for piece in pieces(stream)) == b"".join(parts)


def test_time_written_by_the_program_is_kept() -> None:
    text = b"2026-11-21T00:00:01.5Z a time\n"
    assert read(reader(Server([(1, text), (2, text)]))) == text * 2


def test_rest_of_the_previous_log_is_read_first_after_a_restart() -> None:
    server = Server(numbered(1))
    reading = reader(server)
    assert read(reading) == b"line 0\n"
    server.previous = [*server.lines, (2 * 10**9, b"last words")]
    server.lines = [(3 * 10**9, b"again\n")]
    assert read(reading, restarts=1) == b"last wordsagain\n"
    assert read(reading, restarts=1) == b""
    assert reading.gaps == 0


def test_waiting_container_has_an_empty_log() -> None:
    assert read(reader(Server(numbered(1))), state="waiting") == b""
    waiting = 'Error from server (BadRequest): container "main" in pod "p" is waiting to start: ContainerCreating'
    assert read(reader(Server(end=Finished(1, "", waiting)))) == b""


def test_deleted_pod_has_an_empty_log_and_ends_the_reader() -> None:
    reading = reader(Server(end=Finished(1, "", 'Error from server (NotFound): pods "p" not found')))
    assert (read(reading), reading.is_gone) == (b"", True)


@pytest.mark.parametrize(
    ("server", "kind", "message"),
    [
        (
            Server(end=Finished(1, "", FORBIDDEN)),
            ClusterError,
            'the log of pod/p cannot be read: pods "p" is forbidden: User "me" cannot get resource "pods/log"',
        ),
        (
            Server(end=Finished(1, "", AWAY)),
            UnreachableError,
            f"the log of pod/p cannot be read: the kubelet of the pod's node does not answer: {AWAY[19:]}",
        ),
        (
            Server(end=Finished(-9, "", "")),
            ClusterError,
            "the log of pod/p cannot be read: kubectl was ended by signal 9",
        ),
        (Server(silence=11), UnreachableError, "the log of pod/p cannot be read: no answer from its kubelet for 10 s"),
        (
            Server(silence=2, left=1.5),
            UnreachableError,
            "the log of pod/p cannot be read: no answer from its kubelet for 2 s",
        ),
    ],
    ids=["forbidden", "kubelet", "killed", "silent", "silent to the deadline"],
)
def test_unreadable_log_raises_an_error(server: Server, kind: type[Exception], message: str) -> None:
    with pytest.raises(ClusterError) as error:
        read(reader(server))
    assert (type(error.value), str(error.value)) == (kind, message)


def test_kubelet_message_in_place_of_a_log_raises_an_error() -> None:
    class Kubelet(Server):
        @contextmanager
        def start(self, *arguments: str, idle: Callable[[float], object]) -> Iterator[_Running]:
            assert arguments
            idle(1)
            words = io.BytesIO(b"unable to retrieve container logs for containerd://1")
            yield _Running(words, self.end)

    with pytest.raises(ClusterError) as error:
        read(reader(Kubelet()))
    assert str(error.value) == "the log of pod/p cannot be read: unable to retrieve container logs for containerd://1"


def test_lines_before_a_broken_answer_are_kept() -> None:
    server = Server(numbered(1), end=Finished(1, "", "error: unexpected EOF"))
    reading = reader(server)
    taken: list[bytes] = []
    with pytest.raises(UnreachableError):
        taken.extend(reading.read(pod()))
    assert taken == [b"line 0\n"]
    server.end, server.lines = Finished(0, "", ""), numbered(1, 2)
    assert read(reading) == b"line 1\n"


def test_log_of_a_container_that_writes_fast_and_began_long_before_is_late() -> None:
    line = b"x" * (300 << 10) + b"\n"
    for seconds, late in [((40,), timedelta(seconds=40)), ((9,), None), ((40, 59), None)]:
        reading = reader(Server([(second * 10**9, line) for second in seconds]))
        read(reading, startedAt="2026-11-21T00:00:00Z")
        assert reading.late == late
    quiet = reader(Server(numbered(40)))
    read(quiet, startedAt="2026-11-21T00:00:00Z")
    assert quiet.late is None


def test_empty_log_of_a_long_run_may_miss_all_lines() -> None:
    for finished, may_miss in [("2026-11-21T00:00:05Z", False), ("2026-11-21T00:01:00Z", True)]:
        reading = reader(Server())
        read(reading, state="terminated", startedAt="2026-11-21T00:00:00Z", finishedAt=finished)
        assert reading.may_miss_all is may_miss


@dataclass
class Kubelet(Server):
    """A log of which kubectl also prints the last lines."""

    @contextmanager
    def start(self, *arguments: str, idle: Callable[[float], object]) -> Iterator[_Running]:
        tail = (
            next(int(argument[7:]) for argument in arguments if argument.startswith("--tail="))
            if not any(argument.startswith("--since-time=") for argument in arguments)
            else -1
        )
        whole, self.lines = self.lines, self.lines[-tail:] if tail >= 0 else self.lines
        try:
            with super().start(*arguments, idle=idle) as running:
                yield running
        finally:
            self.lines = whole


def part_reader(server: Server, **part: Any) -> LogReader:
    return LogReader(server, pod(), part=LogRange(**part))  # type: ignore[arg-type]


@pytest.mark.parametrize(("tail", "first"), [(2, b"line 1\nline 2\n"), (9, b"line 0\nline 1\nline 2\n")])
def test_tail_is_read_once_and_then_every_new_line(tail: int, first: bytes) -> None:
    server = Kubelet(numbered(1, 2, 2.1))
    reading = part_reader(server, tail=tail)
    assert read(reading) == first
    server.lines = numbered(1, 2, 2.1, 2.1, 2.2, 5)
    assert read(reading) == b"line 3\nline 4\nline 5\n"
    assert (read(reading), reading.gaps, reading.late) == (b"", 0, None)


def test_tail_of_an_empty_log_leaves_no_later_line_out() -> None:
    restarts = 1
    server = Kubelet(previous=numbered(0))
    reading = part_reader(server, tail=1)
    assert read(reading, restarts=restarts) == b""
    server.lines = numbered(1, 2, 3)
    assert read(reading, restarts=restarts) == b"line 0\nline 1\nline 2\n"


def test_since_leaves_out_earlier_lines_of_its_second() -> None:
    server = Server(numbered(1, 2.25, 2.5, 3))
    since = datetime(2026, 11, 21, 1, 0, 2, 500_000, tzinfo=timezone(timedelta(hours=1)))
    reading = part_reader(server, since=since)
    assert read(reading) == b"line 2\nline 3\n"
    server.lines = numbered(1, 2.25, 2.5, 3, 3)
    assert (read(reading), reading.gaps) == (b"line 4\n", 0)


def test_times_begin_whole_lines_only() -> None:
    server = Server([(1, b"x" * 20_000 + b"\n"), (2, b"half")])
    reading = part_reader(server, has_times=True)
    assert read(reading) == b"%sZ %s\n%sZ half" % (stamp(1).encode(), b"x" * 20_000, stamp(2).encode())
    server.lines = [*server.lines[:1], (2, b"half line\n"), (3, b"next\n")]
    assert read(reading) == b" line\n%sZ next\n" % stamp(3).encode()


def test_previous_log_alone_is_read() -> None:
    server = Server(numbered(3), previous=[(1, b"old\n")])
    assert read(part_reader(server, is_previous=True), restarts=2) == b"old\n"
    server.previous = None
    missing = part_reader(server, is_previous=True)
    assert (read(missing), missing.gaps) == (b"", 0)

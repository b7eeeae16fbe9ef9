"""Reading on in a log: each line once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from packager.cluster.logs import LogReader, Position
from packager.process import Finished


@dataclass
class Server:
    """A kubelet's log of one container, with kubectl's view of it: whole, or the lines since a second."""

    lines: list[str] = field(default_factory=list)
    previous: list[str] = field(default_factory=list)
    answers: bool = True

    def run(self, *arguments: str, timeout: float | None = None) -> Finished:
        assert timeout
        if not self.answers:
            return Finished(1, "", "connection refused")
        since = next((each.partition("=")[2] for each in arguments if each.startswith("--since-time=")), "")
        kept = [
            line for line in (self.previous if "--previous" in arguments else self.lines) if line[:19] >= since[:19]
        ]
        return Finished(0, "".join(f"{line}\n" for line in kept), "")


def pod(state: str = "running", restarts: int = 0) -> dict[str, Any]:
    status = {"name": "main", "state": {state: {}}, "restartCount": restarts}
    return {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "main"}]},
        "status": {"containerStatuses": [status]},
    }


def reader(server: Server) -> LogReader:
    return LogReader(server, pod())  # type: ignore[arg-type]


MOMENTS = st.sampled_from([0, 1, 100, 999_999_999, 1_000_000_000, 1_500_000_000, 2_000_000_001])


@settings(deadline=None)
@given(st.lists(MOMENTS, max_size=12).map(sorted), st.lists(st.integers(0, 12), max_size=4))
def test_no_line_twice_and_none_left_out(nanoseconds: list[int], cuts: list[int]) -> None:
    log = [
        f"2026-11-21T00:00:{moment // 10**9:02}.{moment % 10**9:09}".rstrip("0").rstrip(".") + f"Z line {index}"
        for index, moment in enumerate(nanoseconds)
    ]
    server, taken = Server(), []
    reading = reader(server)
    for cut in sorted({min(cut, len(log)) for cut in cuts} | {len(log)}):
        server.lines = log[:cut]
        taken += reading.read(pod())
    assert taken == [f"line {index}" for index in range(len(log))]


def test_a_server_that_does_not_answer_costs_no_line() -> None:
    server = Server(["2026-11-21T00:00:01.1Z a"])
    reading = reader(server)
    assert reading.read(pod()) == ["a"]
    server.answers = False
    server.lines.append("2026-11-21T00:00:01.2Z b")
    assert reading.read(pod()) == []
    server.answers = True
    assert reading.read(pod()) == ["b"]


def test_the_end_of_a_container_that_was_started_again_is_read_first() -> None:
    server = Server(["2026-11-21T00:00:01.1Z a"])
    reading = reader(server)
    assert reading.read(pod()) == ["a"]
    server.previous = [*server.lines, "2026-11-21T00:00:02Z last words"]
    server.lines = ["2026-11-21T00:00:03Z again"]
    assert reading.read(pod(restarts=1)) == ["last words", "again"]
    assert reading.read(pod(restarts=1)) == []


def test_a_container_that_has_not_started_has_no_log() -> None:
    assert reader(Server(["2026-11-21T00:00:01Z a"])).read(pod("waiting")) == []


def test_a_long_line_comes_without_the_times_inside_it() -> None:
    first, second = "x" * 16384, "y" * 100
    line = f"2026-11-21T00:00:01.5Z {first}2026-11-21T00:00:01.500000007Z {second}"
    assert Position().take(line) == first + second


def test_two_streams_slightly_out_of_order_lose_nothing() -> None:
    position = Position()
    lines = ["2026-11-21T00:00:01.000002Z a", "2026-11-21T00:00:01.000001Z b"]
    assert [position.take(line) for line in lines] == ["a", "b"]

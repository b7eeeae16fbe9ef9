"""Tests of the use case `packager.cluster.logs`."""

import json
import threading

import pytest

from packager.base.errors import UsageError
from packager.cluster.logs import Feed, PodSelection, follow, logs
from packager.cluster.target import Target
from tests.life import JOB, Life, launcher

LAUNCHER = f"{JOB}-launcher-0"


def line(text: str) -> str:
    return f"2026-11-21T00:00:01.000000001Z {text}\n"


@pytest.fixture
def running(life: Life) -> Life:
    """The cluster, in which the pods of the MPIJob run."""
    life.deploy()
    life.start()
    return life


def until_watched(life: Life) -> None:
    waiting = threading.Event()
    for _ in range(500):
        if any(" logs " in call and "--follow" in call for call in life.calls):
            return
        waiting.wait(0.01)
    raise AssertionError(life.calls)


def test_follow_yields_log_of_pod_that_was_deleted_between_two_snapshots(target: Target, life: Life) -> None:
    life.deploy()
    # A launcher runs and is deleted before the first snapshot that could contain it.
    deleted = launcher(state={"terminated": {"exitCode": 3, "startedAt": "2026-11-21T00:00:01Z"}})
    deleted["metadata"] |= {"uid": "early", "creationTimestamp": "2099-11-21T00:00:01Z"}
    watched = (json.dumps({"type": kind, "object": deleted}) for kind in ("ADDED", "DELETED"))
    life.watched = "".join(f"{event}\n" for event in watched).encode()
    life.logs[LAUNCHER] = line("one") + line("two")
    life.moments = [lambda: None, lambda: until_watched(life), life.end]
    parts = list(follow(Feed(target)))
    assert parts == [f"waiting for the pod of mpijob/{JOB}", b"one\ntwo\n"]


def test_follow_reports_missing_permission_to_watch_pods(target: Target, running: Life) -> None:
    running.logs[LAUNCHER] = line("one")
    feed = Feed(target)
    feed.watch.is_refused = True
    refused = "you may not watch pods: logs of pods that are deleted within seconds may be missing"
    running.moments = [lambda: None, lambda: None, running.end]
    assert list(follow(feed)) == [refused, b"one\n"]


def test_logs_of_a_missing_container_report_the_names(target: Target, life: Life) -> None:
    life.deploy()
    life.start()
    with pytest.raises(UsageError) as refused:
        list(logs(Feed(target, PodSelection(all_pods=True, container="sidecar"))))
    assert (str(refused.value), refused.value.hint) == ("container sidecar not found", "there are launcher, worker")


def test_empty_part_of_a_log_is_accepted(target: Target, running: Life) -> None:
    running.logs[LAUNCHER] = ""
    assert list(logs(Feed(target, tail=3))) == []


def test_follow_reads_all_lines_of_pods_that_appear_later(target: Target, life: Life) -> None:
    def begin() -> None:
        life.start()
        life.logs[LAUNCHER] = line("one") + line("two")

    life.deploy()
    life.moments = [lambda: None, begin, life.end]
    feed = Feed(target, tail=1)
    assert list(follow(feed)) == [f"waiting for the pod of mpijob/{JOB}", b"one\ntwo\n"]
    assert not any("--tail=1" in call for call in life.calls)

from __future__ import annotations

from packager.service.jobs.follower import Waiting


def taken(waiting: Waiting, count: int) -> list[str]:
    """Take jobs, of which each is looked at before the next one."""
    releases = []
    for _ in range(count):
        job = waiting.take()
        assert job is not None
        waiting.done(job[0])
        releases.append(job[0])
    return releases


def test_namespaces_take_turns() -> None:
    waiting = Waiting(2)
    for number in range(100):
        waiting.add(f"a-{number}", "a", 1.0)
    waiting.add("b-0", "b", None)
    waiting.add("b-1", "b", 2.0)
    waiting.add("c-0", None, 3.0)
    waiting.add("a-0", "a", 9.0)
    assert len(waiting) == 103
    assert taken(waiting, 6) == ["a-0", "b-1", "c-0", "a-1", "b-0", "a-2"]
    assert waiting.take() == ("a-3", "a", 1.0)


def test_namespace_cannot_occupy_all_places() -> None:
    waiting = Waiting(2)
    for release in ("a-0", "a-1", "a-2"):
        waiting.add(release, "a", 1.0)
    assert [waiting.take(), waiting.take(), waiting.take()] == [("a-0", "a", 1.0), ("a-1", "a", 1.0), None]
    waiting.add("b-0", "b", None)
    assert waiting.take() == ("b-0", "b", None)
    waiting.done("a-0")
    assert waiting.take() == ("a-2", "a", 1.0)


def test_job_that_is_being_looked_at_waits_for_the_next_time() -> None:
    waiting = Waiting(2)
    waiting.add("a-0", "a", 1.0)
    assert waiting.take() == ("a-0", "a", 1.0)
    waiting.add("a-0", "a", 2.0)
    assert waiting.take() is None
    waiting.done("a-0")
    assert waiting.take() == ("a-0", "a", 2.0)
    waiting.clear()
    assert len(waiting) == 0

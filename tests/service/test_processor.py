from __future__ import annotations

import pytest

from packager.service.processor import Shares


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


def shares_of_two(clock: Clock) -> Shares:
    """Return shares of 25 %, where two projects have used the server."""
    shares = Shares(25, clock)
    shares.see("red")
    shares.see("blue")
    return shares


def test_project_waits_when_it_has_used_more_than_its_share(clock: Clock) -> None:
    shares = shares_of_two(clock)
    shares.end("red", shares.begin("red"), 0.75)  # a burst of three seconds
    assert shares.pause("red") == pytest.approx(0)
    shares.end("red", shares.begin("red"), 0.5)
    assert shares.pause("red") == pytest.approx(2)
    assert shares.pause("blue") == 0
    clock.time += 2
    assert shares.pause("red") == pytest.approx(0)

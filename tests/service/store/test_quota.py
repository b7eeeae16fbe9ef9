from __future__ import annotations

import pytest

from packager.service.store.quota import Quota, Share, Wait, startable, waits

ADA, EVE = "ada", "eve"


def share(release: str, creator: str = ADA, gpus: int = 0) -> Share:
    return Share(release, creator, gpus)


@pytest.mark.parametrize(
    ("limits", "started", "waiting", "releases"),
    [
        (Quota(running=2), [share("a")], [share("b"), share("c")], ["b"]),
        (Quota(running=0), [], [share("b")], []),
        (Quota(gpus=4), [share("a", gpus=2)], [share("b", gpus=2), share("c", gpus=1), share("d")], ["b"]),
        (Quota(gpus=4), [share("a", gpus=4)], [share("b"), share("c", gpus=1)], ["b"]),
        (Quota(running_per_creator=1), [share("a")], [share("b"), share("c", EVE), share("d", EVE)], ["c"]),
        (Quota(running=2, running_per_creator=1), [share("a")], [share("b"), share("c", EVE)], ["c"]),
    ],
)
def test_startable_returns_waiting_jobs_in_order_within_the_limits(
    limits: Quota, started: list[Share], waiting: list[Share], releases: list[str]
) -> None:
    assert list(startable(started, waiting, limits)) == releases


@pytest.mark.parametrize(
    ("limits", "started", "reason"),
    [
        (Quota(running=1), [share("a", EVE)], "1 of at most 1 jobs of the project have started"),
        (Quota(running=9, running_per_creator=1), [share("a")], "1 of at most 1 jobs of its creator have started"),
        (Quota(gpus=4), [share("a", gpus=3)], "it takes 2 GPUs, and 3 of the project's 4 are in use"),
        (Quota(gpus=4), [share("a", gpus=2)], "it starts soon"),
    ],
)
def test_waits_name_the_place_and_the_limit_that_was_reached(limits: Quota, started: list[Share], reason: str) -> None:
    waiting = [share("new", gpus=2), share("later", "zoe")]
    found = waits(started, waiting, limits)
    assert found["new"] == Wait(1, f"waits for room in the project: {reason}")
    assert found["later"].place == 2
    if "GPUs" in reason:
        assert found["later"].reason.endswith("other jobs wait before it")

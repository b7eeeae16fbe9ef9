"""Faults: parts of the cluster fail together, at a moment and in a way that the seed decides."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from tests.faults.calm import wait_for_permission
from tests.testbed import lifecycle
from tests.testbed.errors import ClusterError

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator
    from random import Random

COMPONENTS = ("etcd", "kube-apiserver", "kubelet", "mpi-operator")
"""In the order in which one needs the other."""

_FAULTS_AT_ONCE = (1, 2, 3, 4)
"""How many components go away together, each as often as it stands here."""

SHORTEST, LONGEST = 1, 8
"""Seconds for which a component is away: less than any --timeout of a trial, more than any pause of a client."""

_TRIES = 5
"""An operator that has just lost its lease may end once more while it is started."""


class How(StrEnum):
    """In which way a component is away."""

    KILLED = "killed"  # and started again at once
    DOWN = "down"
    FROZEN = "frozen"


@dataclass(frozen=True, slots=True)
class Fault:
    """One component that was away.

    Attributes:
        component: The component.
        how: The kind of failure.
        begin: The time of the failure, in seconds of the monotonic clock.
        end: The time at which all of the cluster was up again.
    """

    component: str
    how: How
    begin: float
    end: float

    def __str__(self) -> str:
        return f"{self.component} {self.how}"


def inject(random: Random, until: threading.Event) -> Iterator[list[Fault]]:
    """Take components away, and yield them when the cluster is whole again, over and over.

    Args:
        random: Decides which, how, when and for how long.
        until: Ends it when it is set.
    """
    while not until.wait(random.uniform(2, 8)):
        wait_for_permission(until)
        how = random.choice(list(How))
        components = random.sample(COMPONENTS, random.choice(_FAULTS_AT_ONCE))
        away = 0.0 if how is How.KILLED else random.triangular(SHORTEST, LONGEST, SHORTEST)
        began = {}
        for component in components:
            began[component] = time.monotonic()
            _take_away(component, how)
            time.sleep(random.uniform(0, 0.5))
        time.sleep(away)
        if how is How.FROZEN:  # all of them first: one cannot be up without the others
            for component in components:
                _signal(component, signal.SIGCONT)
        for component in sorted(components, key=COMPONENTS.index):
            repair(component)
        end = time.monotonic()
        yield [Fault(component, how, begin, end) for component, begin in began.items()]


def _take_away(component: str, how: How) -> None:
    if how is How.FROZEN:
        _signal(component, signal.SIGSTOP)
    else:
        lifecycle.stop(component)


def _signal(component: str, number: signal.Signals) -> None:
    if (pid := lifecycle.status()[component]) is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def repair(component: str = COMPONENTS[0]) -> None:
    """Start `component`, and all that has ended for want of it.

    Raises:
        ClusterError: The component does not start.
    """
    for attempt in range(_TRIES):
        try:
            lifecycle.start(component)
        except ClusterError:
            if attempt == _TRIES - 1:
                raise
        else:
            return

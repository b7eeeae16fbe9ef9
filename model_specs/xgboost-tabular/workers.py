"""The workers of one job: those that XGBoost's tracker connects, or a single one without a tracker."""

from __future__ import annotations

import os
import sys
import time
import warnings
from dataclasses import dataclass

import numpy as np
from xgboost import collective
from xgboost.core import XGBoostError
from xgboost.tracker import RabitTracker

_JOIN_SECONDS = 600
_LOST_SECONDS = 60
"""As long may a worker be silent in the middle of a round, as when its node is lost."""


class LostWorkerError(Exception):
    """The workers cannot connect, or one of them is gone."""


def print_line(text: str) -> None:
    """Write a text and its line end at once: print() may write them apart, and other lines then come between."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


@dataclass(frozen=True)
class Workers:
    """This process's place among all of them. XGBoost itself knows the others while it trains."""

    rank: int = 0
    size: int = 1
    tracker: RabitTracker | None = None

    @classmethod
    def join(cls) -> Workers:
        """Connect to the other workers, by the variables that the JobSet sets; alone without them.

        Raises:
            LostWorkerError: There was no tracker for ten minutes.
        """
        if "DMLC_TRACKER_URI" not in os.environ:
            return cls()
        rank, size = int(os.environ["DMLC_TASK_ID"]), int(os.environ["DMLC_NUM_WORKER"])
        port = int(os.environ["DMLC_TRACKER_PORT"])
        tracker = None
        if rank == 0:
            # The tracker gives each worker its DMLC_TASK_ID as its rank, so that it has the same rows in every run.
            tracker = RabitTracker(size, "0.0.0.0", port, sortby="task")  # noqa: S104 - the other pods connect to it
            tracker.start()
        deadline = time.monotonic() + _JOIN_SECONDS
        while True:
            try:
                _connect(os.environ["DMLC_TRACKER_URI"], port, rank)
            except XGBoostError as error:  # the first pod has no address yet, or does not listen yet
                if time.monotonic() > deadline:
                    raise LostWorkerError(f"no tracker at {os.environ['DMLC_TRACKER_URI']}:{port}: {error}") from error
                time.sleep(1)
            else:
                return cls(rank, size, tracker)

    def say(self, text: str) -> None:
        """Print a line once, not once a worker."""
        if self.rank == 0:
            print_line(text)

    def any(self, value: bool) -> bool:  # noqa: FBT001 - a value to combine, not an option
        """Return whether any worker has True, on all of them."""
        return bool(collective.allreduce(np.array([float(value)]), collective.Op.MAX)[0])

    def leave(self) -> None:
        """Disconnect from the others, when all of them do."""
        if self.size > 1:
            collective.finalize()
        if self.tracker:
            self.tracker.wait_for(_LOST_SECONDS)


def _connect(host: str, port: int, rank: int) -> None:
    """Connect to the tracker once: XGBoost would look up the name only once for all of its attempts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one for each attempt
        collective.init(
            dmlc_tracker_uri=host,
            dmlc_tracker_port=port,
            dmlc_task_id=str(rank),
            dmlc_retry=1,
            dmlc_timeout=_LOST_SECONDS,
        )

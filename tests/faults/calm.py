"""Times without new faults, for a trial that cannot learn the truth while the cluster never becomes whole.

Faults that follow each other within seconds keep controllers from their work for minutes: an operator or a controller
manager that has lost its lease over and over makes neither pods nor the addresses that names resolve to.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

BEAR_SECONDS = 90.0
"""Seconds for which a trial bears faults before it asks for a calm."""

RECOVERY_SECONDS = 300.0
"""Seconds in which the cluster has done what it is asked for once no new faults are made."""

_changed = threading.Condition()
_trials = 0
"""How many trials need a calm."""


@contextmanager
def pause_faults() -> Iterator[None]:
    """Let no fault begin before the block ends; one that has begun may go on."""
    global _trials  # noqa: PLW0603 - the threads of one run share it
    with _changed:
        _trials += 1
    try:
        yield
    finally:
        with _changed:
            _trials -= 1
            _changed.notify_all()


def wait_for_permission(over: threading.Event) -> None:
    """Return when no trial needs a calm, or the run is over."""
    with _changed:
        _changed.wait_for(lambda: _trials == 0 or over.is_set())

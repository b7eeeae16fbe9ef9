"""Keeps signal handlers from raising while a program is being started or ended, which would leave it running.

Python runs them in the main thread, and ignores what they raise in a function that is called as a process forks.

Tests: cli/test_asking.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

is_blocked = False
"""Whether no handler may raise now. Only the main thread assigns to it.

It is assigned to directly: a handler may run as a function begins, but not between two assignments.
"""

_postponed: list[Callable[[], object]] = []


def postpone(action: Callable[[], object]) -> None:
    """Have `action`, the last one only, called by the next `run_postponed`."""
    _postponed[:] = [action]


def run_postponed() -> None:
    """Call what was postponed, if handlers may raise now."""
    if _postponed and not is_blocked:
        _postponed.pop()()

"""Keeps signal handlers from raising while a program is started or ended, which would leave it running.

It is apart from `process`, since each command has handlers and few start programs. Tests: cli/test_asking.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

is_blocked = False
"""Whether no handler of a signal may raise now: a program that is being started or ended would be left running.

Python runs them in the main thread, which alone assigns to it, and directly: a handler may run as a function begins,
but not between two assignments.
"""

_postponed: list[Callable[[], object]] = []


def postpone(action: Callable[[], object]) -> None:
    """Have `action`, the last one only, called by the next `run_postponed`."""
    _postponed[:] = [action]


def run_postponed() -> None:
    """Call what was postponed, if handlers may raise now."""
    if _postponed and not is_blocked:
        _postponed.pop()()

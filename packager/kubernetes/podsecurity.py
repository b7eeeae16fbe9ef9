"""Defines the levels of the Pod Security Standards. Tests: verify/test_security.py."""

from __future__ import annotations

from enum import StrEnum


class Level(StrEnum):
    """The levels that a namespace may enforce; the strictest first."""

    restricted = "restricted"
    baseline = "baseline"
    privileged = "privileged"

"""Finds the files that a pattern matches: `*` and `?` stand for part of a name, `**` for any number of folders.

As in a shell, no wildcard stands for the dot at the start of a name. Links to folders are not followed.
"""

from __future__ import annotations

import fnmatch
import os
import re
from typing import TYPE_CHECKING

from packager.package.path_checks import active_part

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_ANY_FOLDERS = "**"

_MAX_LENGTH = 1_000
"""The characters that the path of a searched folder may have; no package holds files with a longer path."""

# Without regard to case, as some file systems have it.
_NAMES = r"cvs|id_(rsa|dsa|ecdsa|ed25519)|thumbs\.db|__pycache__"


def is_excluded(name: str) -> bool:
    """Whether a file or folder called `name` is left out: .git, .env, .ssh, __pycache__ and the like."""
    return active_part(name) is not None or re.fullmatch(_NAMES, name, re.IGNORECASE) is not None


def matches(root: Path, pattern: str, left_out: set[str]) -> Iterator[str]:
    """Yield the paths below `root` that match, in the order of their names.

    The excluded matches (`is_excluded`) are added to `left_out`, unless the pattern spells them.
    """
    steps = pattern.split("/")
    yield from _below(root, "", steps, _reached(steps, {0}), left_out)


def _below(root: Path, folder: str, steps: Sequence[str], states: set[int], left_out: set[str]) -> Iterator[str]:
    with os.scandir(root / folder) as scanned:
        entries = sorted(scanned, key=lambda entry: entry.name)
    for entry in entries:
        reached = _step(steps, states, entry.name)
        if not reached:
            continue
        path = f"{folder}/{entry.name}" if folder else entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        if is_excluded(entry.name) and entry.name not in steps:
            if is_folder or len(steps) in reached:
                left_out.add(path)
        elif is_folder and len(path) <= _MAX_LENGTH:
            yield from _below(root, path, steps, reached, left_out)
        elif len(steps) in reached and not entry.is_dir():
            yield path


def _step(steps: Sequence[str], states: set[int], name: str) -> set[int]:
    """Return the possible numbers of matched steps after `name`, from those before it.

    All are followed at once, so that the time is at most the product of the lengths of pattern and path.
    """
    after: set[int] = set()
    for state in states:
        if state == len(steps):
            continue
        step = steps[state]
        if name.startswith(".") and not step.startswith("."):
            continue
        if step == _ANY_FOLDERS:
            after.add(state)
        elif fnmatch.fnmatchcase(name, step):
            after.add(state + 1)
    return _reached(steps, after)


def _reached(steps: Sequence[str], states: set[int]) -> set[int]:
    """Return `states`, and those that follow when `**` stands for no folder."""
    reached = set(states)
    for state in sorted(states):
        following = state
        while following < len(steps) and steps[following] == _ANY_FOLDERS:
            following += 1
            reached.add(following)
    return reached

"""Compares merges with those of GNU diff3 and git: where both merge without conflict and alike, ours must be the same.

python -m tests.configure.upgrade.agreement -n 10000 [--seed S]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from packager.configure.upgrade import lines, merge

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(slots=True)
class Count:
    """The results of triples of texts.

    Attributes:
        agreeing: The triples that diff3 and git merge alike.
        conflicting: The agreeing triples that conflict here.
        differing: The agreeing triples that are merged to another text here.
        conflicts: The triples that conflict for diff3 and for git.
    """

    agreeing: int = 0
    conflicting: int = 0
    differing: list[tuple[bytes, ...]] = field(default_factory=list)
    conflicts: int = 0


def merged(base: bytes, yours: bytes, theirs: bytes) -> bytes | None:
    """Return the merged text; None for a conflict."""
    parts = [section.merged for section in merge.sections(*map(lines.split, (base, yours, theirs)))]
    return None if None in parts else b"".join(line for part in parts for line in part or ())


def triple(random: Random) -> tuple[bytes, bytes, bytes]:
    """Return a text with repeated and blank lines, and two versions of it, each with up to three edits."""
    rows = [random.choice(("", "x", *(f"line {random.randrange(40)}" for _ in range(5)))) for _ in range(25)]
    rows = rows[: random.randrange(26)]
    return _text(rows), _text(_edited(random, rows)), _text(_edited(random, rows))


def _text(rows: list[str]) -> bytes:
    return "".join(f"{row}\n" for row in rows).encode()


def _edited(random: Random, rows: list[str]) -> list[str]:
    rows = list(rows)
    for _ in range(random.randrange(4)):
        at = random.randrange(len(rows) + 1)
        new = [random.choice(("", f"new {random.randrange(60)}")) for _ in range(random.randrange(3))]
        rows[at : at + random.randrange(3)] = new
    return rows


class Others(NamedTuple):
    """The merges of a triple by diff3 and by git; None for a conflict."""

    gnu: bytes | None
    git: bytes | None

    @property
    def agreed(self) -> bytes | None:
        """The text that both merge to; None if they differ, or one of them conflicts."""
        return self.gnu if self.gnu == self.git else None


def others(texts: Sequence[bytes], folder: Path) -> Others:
    """Merge a triple with diff3 and with git; the texts are written into `folder`."""
    for name, text in zip(("base", "yours", "theirs"), texts, strict=True):
        (folder / name).write_bytes(text)
    commands = (
        ("diff3", "-m", "-E", "yours", "base", "theirs"),
        ("git", "merge-file", "-p", "yours", "base", "theirs"),
    )
    done = (subprocess.run(argv, cwd=folder, capture_output=True, check=False) for argv in commands)
    return Others(*(None if one.returncode else one.stdout for one in done))


def compare(number: int, random: Random, folder: Path) -> Count:
    """Merge a number of random triples, and return the results; the texts are written into `folder`."""
    count = Count()
    for _ in range(number):
        texts = triple(random)
        theirs = others(texts, folder)
        if theirs == (None, None):
            count.conflicts += 1
        elif theirs.agreed is not None:
            count.agreeing += 1
            ours = merged(*texts)
            count.conflicting += ours is None
            if ours not in (None, theirs.agreed):
                count.differing.append(texts)
    return count


def main() -> int:
    """Run the comparison, and return 1 if a merge differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.configure.upgrade.agreement", description=__doc__)
    parser.add_argument("-n", type=int, default=10_000, help="the number of triples")
    parser.add_argument("--seed", default=str(time.time_ns()))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        count = compare(arguments.n, Random(arguments.seed), Path(folder))
    print(
        f"seed {arguments.seed}: {arguments.n} triples, {count.agreeing} that diff3 and git merge alike; of these, "
        f"{len(count.differing)} are other texts here, and {count.conflicting} conflict; for both, {count.conflicts} "
        "conflict"
    )
    for texts in count.differing[:5]:
        print(texts)
    return 1 if count.differing else 0


if __name__ == "__main__":
    sys.exit(main())

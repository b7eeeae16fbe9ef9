"""`python -m tests.broken DIR`: the good package, and the broken ones beside it."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.broken import FAULTS, build, make

destination = Path(sys.argv[1])
good = build(destination / "good")
for fault in FAULTS:
    print(make(fault, good, destination / fault.name))  # noqa: T201 - the paths are what it is asked for

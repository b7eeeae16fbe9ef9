"""`python -m tests.broken DIR`: the good packages, and the broken ones beside them."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.broken import FAULTS, MODELS, build, make

destination = Path(sys.argv[1])
good = {model: build(destination / "good" / model, model) for model in MODELS}
for fault in FAULTS:
    print(make(good[fault.model], destination / fault.name, fault))  # noqa: T201 - the paths are what it is asked for

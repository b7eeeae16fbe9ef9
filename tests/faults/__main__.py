"""Makes faults, and writes down what was said."""

from __future__ import annotations

import argparse
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from tests.faults.run import run_trials
from tests.faults.table import page, transcript


def main() -> int:
    """Run them, and return 1 when an answer was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--faults", type=int, default=200, help="how many at least")
    parser.add_argument("--trials", type=int, default=50, help="how many packages come and go, at least")
    parser.add_argument("--seed", default=str(time.time_ns()))
    parser.add_argument("--write", type=Path, help="the page to write")
    asked = parser.parse_args()
    outcome = run_trials(asked.faults, asked.trials, asked.seed)
    text = page(outcome, datetime.now(UTC).strftime("%Y-%m-%d"))
    if asked.write:
        asked.write.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    for answers in outcome.trials:
        if any(answer.wrong for answer in answers):
            sys.stderr.write(transcript(answers))
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

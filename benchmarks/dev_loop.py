"""Seconds from a changed file to the first new line of a JobSet of 2 nodes, with `mlpack dev`.

    python -m benchmarks.dev_loop [--rounds N]

Needs a cluster with JobSet and the image of hello-mpi: the current context of KUBECONFIG. The line counts when it is
printed by `mlpack dev`, and when both nodes have printed it, node 0 after it has heard from node 1.
"""

from __future__ import annotations

import argparse
import os
import queue
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO

GOAL = 3.0
MODEL = Path(__file__).resolve().parents[1] / "tests/e2e/specs/dev"
_PATIENCE = 180


def put_lines(stream: IO[str], lines: queue.Queue[str]) -> None:
    """Put the lines of a stream into a queue."""
    for line in stream:
        lines.put(line)


def wait_for(lines: queue.Queue[str], text: str) -> None:
    """Wait until both nodes have printed a line."""
    missing = {f"node {index}: {text}" for index in (0, 1)}
    while missing:
        line = lines.get(timeout=_PATIENCE)
        missing = {one for one in missing if not line.rstrip("\n").endswith(one)}


def main() -> None:
    """Measure, and print the median, the extremes and the machine's load."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as temporary:
        model = shutil.copytree(MODEL, Path(temporary) / "model")
        argv = [sys.executable, "-m", "packager", "dev", str(model)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as session:
            lines: queue.Queue[str] = queue.Queue()
            assert session.stdout is not None
            threading.Thread(target=put_lines, args=(session.stdout, lines), daemon=True).start()
            try:
                wait_for(lines, "first")
                times = []
                for index in range(rounds):
                    time.sleep(1)
                    begin = time.monotonic()
                    (model / "steps/line.txt").write_text(f"{index}\n", encoding="utf-8")
                    wait_for(lines, str(index))
                    times.append(time.monotonic() - begin)
            finally:
                session.send_signal(signal.SIGINT)
        subprocess.run([*argv, "--stop"], check=True)
    spread = f"{statistics.median(times):.2f} s ({min(times):.2f} to {max(times):.2f})"
    print(f"from a changed file to the first new lines  {spread}  goal: at most {GOAL:g} s")
    print(f"load of the last minute  {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()

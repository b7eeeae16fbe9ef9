"""Starts the `mlpack` command as a process of its own; also for `python -m packager`. Tests: cli/test_terminal.py."""

from __future__ import annotations

import atexit
import gc
import signal
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line that this process was started with, and end with its exit code."""
    # Until the command line handles signals, Ctrl-C ends the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # A short run makes hardly any garbage, and looking for it takes time: Python does so at every 700 new objects,
    # and once more, among all that was ever made, when it ends.
    gc.set_threshold(50_000)
    atexit.register(gc.freeze)
    from packager.cli import main as run  # noqa: PLC0415 - after the threshold is set

    run()


if __name__ == "__main__":
    main()

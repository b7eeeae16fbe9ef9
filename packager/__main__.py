"""Starts the `mlpack` command as a process of its own; also for `python -m packager`. Tests: cli/test_terminal.py."""

import _signal  # type: ignore[import-not-found]

# Until the command line handles signals, Ctrl-C ends the process without a traceback: before anything else is imported,
# also what `signal` is made of.
_signal.signal(_signal.SIGINT, _signal.SIG_DFL)

import atexit  # noqa: E402
import gc  # noqa: E402
from typing import NoReturn  # noqa: E402


def main() -> NoReturn:
    """Run the command line that this process was started with, and end with its exit code."""
    # A build makes hardly any garbage, and Python would look for it at every 700 new objects, and once more among all
    # objects when it ends: this takes a tenth of a build. A command that runs for hours still collects its garbage.
    gc.set_threshold(100_000)
    atexit.register(gc.freeze)
    from packager.cli import main as run  # noqa: PLC0415 - after the threshold is set

    run()


if __name__ == "__main__":
    main()

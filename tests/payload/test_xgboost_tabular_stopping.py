"""SIGTERM ends a program at once, or lets it save first."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys, threading
sys.path.insert(0, sys.argv[1])
from stopping import EXIT_STATUS, Stop
stop = Stop()
stop.deferred = sys.argv[2] == "deferred"
print("ready", flush=True)
stop.requested.wait()
if stop.deferred:
    print("saved", flush=True)
    sys.exit(EXIT_STATUS)
threading.Event().wait()
"""


@pytest.mark.parametrize(("how", "output"), [("at once", ""), ("deferred", "saved\n")])
def test_program_ends_on_sigterm(specs: Path, how: str, output: str) -> None:
    command = [sys.executable, "-B", "-c", PROGRAM, str(specs / "xgboost-tabular"), how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert (process.stdout.read(), process.wait(60)) == (output, 128 + signal.SIGTERM)

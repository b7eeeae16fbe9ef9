"""train.py, infer.py, serve.py and their scripts as processes, as far as they go before TensorFlow is needed."""

import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

checkpoint = importlib.import_module("checkpoint")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment as small as that of a container; its python3 is the one that runs the tests."""
    return {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "OUTPUT_DIR": f"{tmp_path}/output"}


def run(script: Path, environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", script, *arguments], env=environ, capture_output=True, text=True, timeout=600, check=False
    )


@pytest.mark.thorough
def test_wrong_keys_are_refused_before_anything_slow(specs: Path, environ: dict[str, str]) -> None:
    done = run(specs / "resnet50/fp32_training_demo.sh", {**environ, "STEPS": "x", "SEED": "y"})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "ERROR: STEPS: expected a whole number from 1 to 1,000,000,000, found 'x'\n"
        "ERROR: SEED: expected a whole number from 0 to 2,147,483,647, found 'y'\n"
    )


def test_finished_training_ends_without_tensorflow(specs: Path, environ: dict[str, str], tmp_path: Path) -> None:
    """The whole way of a job, short of TensorFlow."""
    (tmp_path / "output").mkdir()
    weights = [np.arange(3, dtype=np.float32)]
    checkpoint.save(tmp_path / "output", checkpoint.Checkpoint(30, "fp32", weights, []))
    done = run(specs / "resnet50/fp32_training_demo.sh", environ)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[1:3] == [
        f"found a checkpoint of 30 steps (fp32) in {tmp_path}/output",
        "nothing left to train: STEPS is 10",
    ]
    host = os.uname().nodename
    assert lines[0].startswith(f"rank 0 of 1 on {host}: uid {os.getuid()}, gid {os.getgid()}, ")
    assert json.loads(lines[3]) == {
        "model": "resnet50v1-5",
        "precision": "fp32",
        "mode": "training",
        "ranks": 1,
        "hosts": [host],
        "steps": 30,
        "resumed_from": 30,
        "images_per_second": None,
        "loss": None,
        "weights_digest": checkpoint.digest(weights),
        "checkpoint": f"{tmp_path}/output/checkpoint.npz",
        "data": "synthetic",
        "uid": os.getuid(),
        "gid": os.getgid(),
    }


def start(code: str, folder: Path) -> subprocess.Popen[str]:
    """Starts a program that waits for SIGTERM, and returns when it does."""
    process = subprocess.Popen([sys.executable, "-B", "-c", code], cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_sigterm_ends_a_program_at_once(specs: Path) -> None:
    code = "import stopping, time; stopping.Stop(); print('ready', flush=True); time.sleep(600)"
    with start(code, specs / "resnet50") as process:
        process.terminate()
        assert process.wait(timeout=300) == 128 + signal.SIGTERM


def test_sigterm_waits_until_the_program_has_saved(specs: Path) -> None:
    code = """
import stopping, time
stop = stopping.Stop()
stop.deferred = True
print("ready", flush=True)
while not stop.requested:
    time.sleep(0.01)
print("saved", flush=True)
"""
    with start(code, specs / "resnet50") as process:
        process.terminate()
        assert process.communicate(timeout=300)[0] == "saved\n"
        assert process.returncode == 0


def test_top_1_and_top_5_are_counted() -> None:
    measured = importlib.import_module("infer").Measurement()
    scores = np.array([[0, 1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1, 0], [0, 1, 2, 3, 4, 5, 6]], np.float32)
    measured.add(0.5, scores, np.array([6, 1, 1]))
    measured.add(0.1, scores[:1], np.array([2]))
    assert (measured.images, measured.top1, measured.top5) == (4, 1, 3)
    assert (measured.percentile(50), measured.percentile(100)) == (300.0, 500.0)

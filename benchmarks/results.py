"""Seconds and memory in which `mlpack results` copies 1 GiB, beside `kubectl exec … tar` of the same files.

    python -m benchmarks.results [--rounds N]

Needs a cluster with the image of hello-mpi: the current context of KUBECONFIG. Both copy in turn, into new folders of
the same file system.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measure import Result

IMAGE = {"name": "mpioperator/mpi-pi", "tag": "openmpi"}
POD = "results-benchmark-single"
OUTPUT = "/results-benchmark"
FILES, MEBIBYTES = 16, 64
READY_SECONDS = 300

SCRIPT = f"""\
#!/bin/sh
for number in $(seq {FILES}); do
  head -c {MEBIBYTES}M /dev/urandom >"$OUTPUT_DIR/$number.bin"
done
echo "all is written"
sleep 3600
"""
SPEC = f"""\
name: results-benchmark
title: Results
framework: sh
image: {{name: {IMAGE["name"]}, tag: {IMAGE["tag"]}}}
files: [run.sh]
environment: {{OUTPUT_DIR: {OUTPUT}}}
overlays: {{single: {{kind: Pod}}}}
variants: [{{script: run.sh}}]
"""


def mlpack(*arguments: str) -> subprocess.Popen[bytes]:
    """Start mlpack without its messages."""
    return subprocess.Popen(
        [sys.executable, "-m", "packager", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def peak(process: subprocess.Popen[bytes]) -> int:
    """Wait for a process, and return the most memory that it held itself, in bytes."""
    most = 0
    while process.poll() is None:
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
        if match := re.search(r"VmHWM:\s+(\d+) kB", status):
            most = max(most, int(match[1]) << 10)
        time.sleep(0.02)
    if process.returncode:
        sys.exit(f"mlpack has ended with {process.returncode}")
    return most


def require_all(folder: Path) -> None:
    """End the benchmark unless all files have arrived."""
    sizes = [path.stat().st_size for path in folder.iterdir()]
    if sizes != [MEBIBYTES << 20] * FILES:
        sys.exit(f"{folder} contains files of {sizes} bytes")


def by_tar(folder: Path) -> float:
    """Copy with kubectl and tar, and return the seconds."""
    folder.mkdir()
    begin = time.perf_counter()
    with subprocess.Popen(
        ["kubectl", "exec", POD, "--", "tar", "-c", "-f", "-", "-C", OUTPUT, "."], stdout=subprocess.PIPE
    ) as sending:
        subprocess.run(["tar", "-x", "-f", "-", "-C", str(folder)], stdin=sending.stdout, check=True)
    seconds = time.perf_counter() - begin
    require_all(folder)
    return seconds


def by_mlpack(package: Path, folder: Path) -> tuple[float, int]:
    """Copy with `mlpack results`, and return the seconds and its memory."""
    begin = time.perf_counter()
    with mlpack("results", str(package), str(folder)) as running:
        memory = peak(running)
    seconds = time.perf_counter() - begin
    require_all(folder)
    return seconds, memory


def deployed(folder: Path) -> Path:
    """Deploy the pod that writes the files, and return its package when all are written."""
    (folder / "model").mkdir()
    (folder / "model/spec.yaml").write_text(SPEC, encoding="utf-8")
    (folder / "model/run.sh").write_text(SCRIPT, encoding="utf-8")
    if mlpack("build", str(folder / "model"), "--format", "dir", "-d", str(folder)).wait():
        sys.exit("the package was not built")
    package = folder / "results-benchmark"
    if mlpack("deploy", str(package), "--no-wait", "--yes").wait():
        sys.exit("the package was not deployed")
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        log = subprocess.run(["kubectl", "logs", POD], capture_output=True, text=True, check=False).stdout
        if "all is written" in log:
            return package
        time.sleep(1)
    sys.exit("the files were not written in time")


def main() -> None:
    """Copy in turn, and print ratio and memory; exit with 1 if a goal is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    ratios, memories = [], []
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCHMARK_DIR")) as temporary:
        package = deployed(Path(temporary))
        try:
            for number in range(rounds + 1):
                folder = Path(temporary) / str(number)
                folder.mkdir()
                base = by_tar(folder / "tar")
                seconds, memory = by_mlpack(package, folder / "mlpack")
                subprocess.run(["rm", "-r", str(folder)], check=True)
                if number:  # the first fills caches
                    ratios.append(seconds / base)
                    memories.append(memory / (1 << 20))
                    print(f"tar {base:.2f} s, mlpack {seconds:.2f} s, {memories[-1]:.0f} MiB", flush=True)
        finally:
            mlpack("delete", str(package), "--yes").wait()
    results = (
        Result("mlpack results / kubectl exec tar", tuple(ratios), "", 1.3),
        Result("memory of mlpack", tuple(memories), "MiB", 64),
    )
    for result in results:
        mark = "" if result.met else "   MISSED"
        print(f"{result.what:<36} {result.median:6.2f} {result.unit:<4} goal: at most {result.limit}{mark}")
    sys.exit(not all(result.met for result in results))


if __name__ == "__main__":
    main()

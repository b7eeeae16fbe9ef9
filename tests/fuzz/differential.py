"""Reads the same archives with our reader and with GNU tar, bsdtar and busybox: all must read alike what ours accepts.

python -m tests.fuzz.differential -n 10000 [--seed S]     the same seed makes the same archives
"""

from __future__ import annotations

import argparse
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from packager.base.errors import VerificationError
from packager.package import archive
from tests import tools
from tests.fuzz.tars import make

READERS = {"GNU tar": "tar -xzf", "bsdtar": "bsdtar -xzf", "busybox": "busybox tar -xzf"}

# Some readers convert names in another charset.
LOCALES = ("C.UTF-8", "C")

# In memory, if the system has such a folder: tens of thousands of files are created and deleted.
MEMORY = Path("/dev/shm")


def accepted(path: Path, folder: Path) -> bool:
    """Unpack the archive at `path` into `folder` with our own reader, and return whether it was accepted."""
    folder.mkdir()
    try:
        archive.extract(path, folder)
    except VerificationError:
        return False
    return True


def disagreements(path: Path, ours: Path, work: Path, charset: str = LOCALES[0]) -> dict[str, str]:
    """Return the differences of other readers, by their names, from our content of an archive, which is in `ours`.

    Raises:
        MissingToolError: A reader is missing.
    """
    expected = content(ours)
    differing = {}
    for name, reader in READERS.items():
        theirs = work / name
        theirs.mkdir()
        done = subprocess.run(
            [*tools.command(reader), path],
            cwd=theirs,
            env={**os.environ, "LC_ALL": charset},
            capture_output=True,
            check=False,
        )
        unpacked = content(theirs)
        if done.returncode or unpacked != expected:
            stderr = done.stderr.decode(errors="replace").strip()
            differing[name] = (
                f"{sorted(unpacked.items() ^ expected.items(), key=str)} exit code {done.returncode} {stderr}"
            )
        shutil.rmtree(theirs)
    return differing


def content(folder: Path) -> dict[str, bytes | None]:
    """Return the entries below `folder`, by path: a file's content after "executable" or "plain", None for a folder."""
    entries: dict[str, bytes | None] = {}
    for path in folder.rglob("*"):
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            entries[path.relative_to(folder).as_posix()] = None
        elif stat.S_ISREG(mode):
            mark = b"executable " if mode & stat.S_IXUSR else b"plain "
            entries[path.relative_to(folder).as_posix()] = mark + path.read_bytes()
        else:
            entries[path.relative_to(folder).as_posix()] = b"neither file nor folder"
    return entries


def compare(seed: str, numbers: range, work: Path) -> tuple[int, dict[int, dict[str, str]]]:
    """Return the number of accepted archives, and the differences between readers, by the archive's number."""
    count, differing = 0, {}
    path, ours = work / "archive.tar.gz", work / "ours"
    for number in numbers:
        path.write_bytes(make(Random(f"{seed}:{number}")))
        if accepted(path, ours):
            count += 1
            if disagreement := disagreements(path, ours, work, LOCALES[number % len(LOCALES)]):
                differing[number] = disagreement
        shutil.rmtree(ours)
    return count, differing


def main() -> int:
    """Compare archives, and return the exit code: 1 if readers disagree, 6 if a reader is missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.differential", description=__doc__)
    parser.add_argument("-n", type=int, default=1_000, help="how many archives")
    parser.add_argument("--seed", default=str(time.time_ns()), help="the same seed makes the same archives")
    asked = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="mlpack-", dir=MEMORY if MEMORY.is_dir() else None) as work:
            count, differing = compare(asked.seed, range(asked.n), Path(work))
    except tools.MissingToolError as error:
        sys.stderr.write(f"ERROR {error}\n")
        return 6
    for number, readers in differing.items():
        for name, how in readers.items():
            sys.stderr.write(f"archive {number}: {name}: {how}\n")
    sys.stderr.write(
        f"seed {asked.seed}: {asked.n} archives, {count} accepted, {len(differing)} on which readers disagree\n"
    )
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())

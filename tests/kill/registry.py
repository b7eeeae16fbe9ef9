"""Kills pushes, pulls and loads at random moments: what a tag or a name shows is always whole.

    python -m tests.kill.registry -n 200

After each kill, a tag in the registry names an artefact with all of its blobs, and its signature, or there is
no tag; a file that was pulled has all of its bytes, and the signatures beside it; and the same command, run again,
succeeds and leaves nothing behind.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from packager.publish.reference import dashed
from tests import kubectls
from tests.publish import fake_registry
from tests.publish.fake_registry import digest_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.publish.fake_registry import FakeRegistry

_REPOSITORY = "team/hello-mpi"
_NAMES = {"hello-mpi.tar.gz", "hello-mpi.tar.gz.sigstore.json"}


class Kills:
    """Runs commands in a folder, and kills them.

    Attributes:
        killed: The number of commands that were killed before their ends.
        wrong: A message for each state that must not be.
    """

    def __init__(self, folder: Path, registry: FakeRegistry, random: Random) -> None:
        self.killed = 0
        self.wrong: list[str] = []
        self.folder, self.registry = folder, registry
        self._random = random
        self._variables = os.environ | {
            "KUBECTL": str(kubectls.kubectl()),
            "HOME": str(folder),
            "TMPDIR": str(folder / "tmp"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
            "REGISTRY_AUTH_FILE": str(folder / "none.json"),
        }
        (folder / "tmp").mkdir()

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start mlpack."""
        argv = [sys.executable, "-m", "packager", *arguments]
        return subprocess.Popen(
            argv, cwd=self.folder, env=self._variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def run(self, *arguments: str) -> float:
        """Run mlpack to its end, and return the seconds that it took."""
        begin = time.monotonic()
        if code := self.start(*arguments).wait():
            self.wrong.append(f"{arguments[0]} has ended with {code}")
        return time.monotonic() - begin

    def kill(
        self, count: int, arguments: list[str], prepare: Callable[[], None], check: Callable[[], str | None]
    ) -> None:
        """Kill a command `count` times; after each, check what it left, and run it again."""
        prepare()
        seconds = self.run(*arguments)
        goal = self.killed + count
        while self.killed < goal:
            prepare()
            process = self.start(*arguments)
            time.sleep(self._random.uniform(0, seconds))
            process.send_signal(signal.SIGKILL)
            self.killed += process.wait() == -signal.SIGKILL
            if message := check():
                self.wrong.append(f"{arguments[0]}: {message}")
            self.run(*arguments)
            if message := check() or self._leftovers():
                self.wrong.append(f"{arguments[0]}, after it ran again: {message}")

    def whole(self, repository: str, tag: str) -> str | None:
        """Return a message about what a tag lacks; None if it is whole, or absent."""
        manifest = self.registry.manifests.get((repository, tag))
        if manifest is None:
            return None
        self.registry.artefact(repository, tag)  # asserts the blobs
        digest = digest_of(manifest)
        index = json.loads(self.registry.manifests.get((repository, dashed(digest)), b'{"manifests":[]}'))
        if len(index["manifests"]) != 1:
            return f"{tag} has {len(index['manifests'])} signatures instead of 1"
        return None

    def pulled(self) -> str | None:
        """Return a message about what a file that was pulled lacks; None if it is whole, or absent."""
        out = self.folder / "out"
        file = out / "hello-mpi.tar.gz"
        if not file.exists():
            return None
        if file.read_bytes() != (self.folder / file.name).read_bytes():
            return "the file is not whole"
        names = {path.name for path in out.iterdir() if not path.name.startswith(".")}
        return None if names == _NAMES else f"the files are {sorted(names)}"

    def _leftovers(self) -> str | None:
        hidden = [path.name for path in (self.folder / "out").glob(".*")] if (self.folder / "out").is_dir() else []
        left = hidden + [path.name for path in (self.folder / "tmp").iterdir()]
        return f"left {sorted(left)[:5]}" if left else None


def trial(kills: Kills, count: int) -> None:
    """Kill each of the commands `count` times."""
    host = kills.registry.host
    reference = f"oci://{host}/{_REPOSITORY}:1.0"
    for arguments in (
        ("build", "hello-mpi"),
        ("key", "new", "prod", "--no-password"),
    ):
        kills.run(*arguments)

    def empty() -> None:
        for content in (kills.registry.manifests, kills.registry.blobs, kills.registry.uploads):
            content.clear()

    def no_output() -> None:
        shutil.rmtree(kills.folder / "out", ignore_errors=True)

    pushed = lambda: kills.whole(_REPOSITORY, "1.0")  # noqa: E731
    kills.kill(count, ["push", "hello-mpi.tar.gz", reference, "--sign-key", "prod.key"], empty, pushed)
    print(f"push {kills.killed}", flush=True)
    kills.kill(count, ["pull", reference, "-d", "out", "--force", "--key", "prod.pub"], no_output, kills.pulled)
    print(f"pull {kills.killed}", flush=True)
    kills.run("bundle", reference, "--no-images")
    loaded = lambda: kills.whole("hello-mpi", "1.0")  # noqa: E731
    kills.kill(count, ["load", "hello-mpi.bundle.tar", "--registry", host, "--key", "prod.pub"], empty, loaded)
    print(f"load {kills.killed}", flush=True)


def main() -> int:
    """Run the trials, and return 1 when one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.kill.registry", description=__doc__)
    parser.add_argument("-n", type=int, default=200, help="how many runs of each command to kill")
    parser.add_argument("--seed", default=str(time.time_ns()))
    asked = parser.parse_args()
    print(f"seed {asked.seed}")
    with tempfile.TemporaryDirectory(prefix="mlpack-kill-") as folder, fake_registry.serving() as registry:
        kills = Kills(Path(folder), registry, Random(asked.seed))
        trial(kills, asked.n)
    for message in kills.wrong:
        print(message, file=sys.stderr)
    print(f"{kills.killed} killed, {len(kills.wrong)} wrong")
    return 1 if kills.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""Makes mistakes in a copy of the checkout, one at a time, and reports which of them the tests catch.

    python -m tests.mutations                    make each of the list, which takes ten minutes of a processor
    python -m tests.mutations NAME ...           make these
    python -m tests.mutations --turn 3 --of 6    make a sixth of them: the fourth of each six (CI counts its runs)
    python -m tests.mutations --seed X -n 10     make ten at random, the same for the same seed
    ... --marker "not thorough"                  with the tests of a tier only
    ... --tests tests/verify                     with other tests than those in the list

The copy has its own environment, so that programs that tests start, also with `python -I`, import the changed code. Of
each mistake, the paths of its entry run one after the other until a test fails; those that are gone are left out. Then
the tests that have failed must pass without the mistakes. A template that differs from the compiled one is read itself.
It ends with 1 when a mistake is not caught that is marked as caught in the list, or does not apply.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from pathlib import Path
from typing import TYPE_CHECKING

from tests import kubectls
from tests.mutations import Mutation, read

if TYPE_CHECKING:
    from collections.abc import Sequence

_CHECKOUT = Path(__file__).resolve().parents[2]
_COMPILED = "packager/builder/compiled_templates.py"
_PYTEST = ("-m", "pytest", "--ignore=tests/e2e", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short")
_SECONDS = 1800
_FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/[^\s\[]+)", re.MULTILINE)
_NOTHING_SELECTED = 5


class _Copy:
    """A copy of the checkout's tracked files, with an environment in which `packager` is the copy's."""

    def __init__(self, root: Path) -> None:
        self.root = root
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=_CHECKOUT, stdout=subprocess.PIPE, check=True).stdout
        names = [name for name in [*listed.decode().split("\0"), _COMPILED] if (_CHECKOUT / name).is_file()]
        for folder in {Path(name).parent for name in names}:
            (root / folder).mkdir(parents=True, exist_ok=True)
            if (_CHECKOUT / folder / "__pycache__").is_dir():  # what is compiled for the checkout is valid here
                shutil.copytree(_CHECKOUT / folder / "__pycache__", root / folder / "__pycache__", dirs_exist_ok=True)
        for name in names:
            self.restore(name)
        environment = root / ".venv"
        venv.create(environment, symlinks=True)
        packages = next(environment.glob("lib/python*/site-packages"))
        (packages / "copy.pth").write_text(f"{root}\n{sysconfig.get_path('purelib')}\n")
        program = environment / "bin/mlpack"
        program.write_text(f"#!{environment}/bin/python\nfrom packager.__main__ import main\n\nmain()\n")
        program.chmod(0o755)
        programs = (environment / "bin", Path(sysconfig.get_path("scripts")), kubectls.kubectl().parent)
        path = os.pathsep.join([*map(str, programs), os.environ["PATH"]])
        self.environment = {**os.environ, "PATH": path, "PYTHONPATH": str(root), "GOGC": "400"}

    def restore(self, file: str) -> None:
        """Undo a mistake in a file."""
        shutil.copy2(_CHECKOUT / file, self.root / file)

    def run(self, *arguments: str) -> tuple[int, str]:
        """Run pytest, and return its exit code and its output."""
        argv = [str(self.root / ".venv/bin/python"), *_PYTEST, *arguments]
        done = subprocess.run(
            argv, cwd=self.root, env=self.environment, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        return done.returncode, done.stdout + done.stderr

    def catching_test(self, mutation: Mutation, paths: Sequence[str], marker: str) -> str | None:
        """Make a mistake, run the tests until one fails, and undo the mistake; return the test, or None.

        Raises:
            ValueError: The mistake does not apply, or pytest has ended without a result.
        """
        try:
            mutation.apply(self.root)
            for path in paths:
                code, output = self.run("-x", "-m", marker, path) if (self.root / path).exists() else (0, "")
                if failed := _FAILED.search(output):
                    return failed[1]
                if code not in (0, _NOTHING_SELECTED):
                    raise ValueError(f"pytest has ended with {code}: {output[-1_000:]}")
        except subprocess.TimeoutExpired:
            raise ValueError(f"the tests did not end within {_SECONDS} s") from None
        finally:
            self.restore(mutation.file)
        return None


def _processor_seconds() -> float:
    times = os.times()
    return times.children_user + times.children_system


def main() -> int:
    """Make mistakes, and return 1 when one is not caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--turn", type=int, default=0, metavar="N", help="which part to take, from 0")
    parser.add_argument("--of", type=int, default=1, metavar="M", help="the number of parts; N may be larger")
    parser.add_argument("--seed", help="take some at random")
    parser.add_argument("-n", type=int, default=10, help="how many at random")
    parser.add_argument("--marker", default="not matrix", help="pytest's -m")
    parser.add_argument("--tests", nargs="+", default=(), metavar="PATH", help="other tests than those in the list")
    asked = parser.parse_args()
    mutations = read()
    if unknown := set(asked.names) - {mutation.name for mutation in mutations}:
        parser.error(f"no mutation {', '.join(sorted(unknown))}")
    chosen = [one for one in mutations if one.name in asked.names or not asked.names][asked.turn % asked.of :: asked.of]
    if asked.seed is not None:
        chosen = random.Random(asked.seed).sample(chosen, min(asked.n, len(chosen)))
    found: dict[str, str] = {}
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="mlpack-mutations-") as folder:
        copy = _Copy(Path(folder).resolve())
        for mutation in chosen:
            begun, used = time.monotonic(), _processor_seconds()
            try:
                test = copy.catching_test(mutation, asked.tests or mutation.tests, asked.marker)
                word = "NOT CAUGHT" if test is None else f"caught  {test}"
                found |= {} if test is None else {mutation.name: test}
            except (OSError, ValueError) as error:
                word = f"ERROR: {error}"
            wrong += mutation.caught and mutation.name not in found
            seconds = f"{time.monotonic() - begun:6.0f} s{_processor_seconds() - used:6.1f} s"
            print(f"{mutation.name:36}{seconds}  {word}{'' if mutation.caught else '  (a known gap)'}", flush=True)
        _, output = copy.run(*dict.fromkeys(found.values())) if found else (0, "")
        failing = set(_FAILED.findall(output))
    for name in [name for name, test in found.items() if test in failing]:
        print(f"{name}: {found[name]} fails without it, too")
        wrong += 1
    print(f"{len(chosen)} mistakes, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

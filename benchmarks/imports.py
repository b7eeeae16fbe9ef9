"""`import intel` of 51 packages of a zoo, and `build --all` of them.

Each package of the made-up zoo has 60 files of 300 KiB, and licences of 600 KiB, the same in all. ZOO may name a zoo
instead.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measure import IMPORT_TYPER, MLPACK, START, Result, run

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNT = 51
ROUNDS = 3
_FILES, _SIZE, _LICENCES = 60, 5 << 10, 600 << 10
_SPECS = "tools/docker/specs"

SPEC = """\
releases: {versioned: {tag_specs: ["{base}{MODEL}"]}}
slice_sets:
  MODEL:
    - args: [PACKAGE_NAME=MODEL]
      documentation: {text_replace: {<docker image>: "example/zoo:MODEL", <model name>: Net}}
      files:
        - {source: models/MODEL, destination: models}
        - {source: quickstart, destination: quickstart}
"""
BASE = """\
slice_sets:
  base:
    - files:
        - {source: LICENSE, destination: licenses/LICENSE}
        - {source: third_party.txt, destination: licenses/third_party.txt}
"""


def measure(folder: Path) -> Iterator[Result]:
    """Yield the time and memory of an import of all packages, and of the build of what was imported."""
    zoo = os.environ.get("ZOO")
    root = Path(zoo) if zoo else _made_up(folder / "zoo")
    command = [*MLPACK, "import", "intel", str(root / _SPECS), "--output", str(folder / "models"), "--force"]
    run(command, folder)  # fills the caches
    usages = [run(command, folder) for _ in range(ROUNDS)]
    count = sum(1 for _ in (folder / "models").iterdir())
    yield Result(f"import of {count} packages, wall time", tuple(usage.wall for usage in usages), "s", 10)
    yield Result("the same, CPU time", tuple(usage.cpu for usage in usages), "s")
    yield Result("the same, memory", tuple(usage.rss / (1 << 20) for usage in usages), "MiB", 128)
    yield from _builds(folder, folder / "models")


def _builds(folder: Path, models: Path) -> Iterator[Result]:
    """Yield the time per package of a `build --all`, including the start of the program."""
    packages = folder / "packages"
    build = [*MLPACK, "build", "--all", "--specs", str(models), "--destination", str(packages)]
    rounds = []
    for _ in range(ROUNDS + 1):
        shutil.rmtree(packages, ignore_errors=True)
        rounds.append([run(command, folder) for command in (build, IMPORT_TYPER, START)])
    usages, imports, starts = zip(*rounds[1:], strict=True)  # the first round fills the caches
    count = sum(1 for _ in packages.iterdir())
    yield Result(f"a package of a build of {count}, wall time", tuple(1e3 * it.wall / count for it in usages), "ms", 15)
    yield Result("the same / start of python", _ratios([it.wall / count for it in usages], [it.wall for it in starts]))
    yield Result("the same, CPU time", tuple(1e3 * it.cpu / count for it in usages), "ms")
    yield Result("the same / import typer", _ratios([it.cpu / count for it in usages], [it.cpu for it in imports]))
    yield Result("memory of its largest process", tuple(it.rss / (1 << 20) for it in usages), "MiB")


def _ratios(values: list[float], bases: list[float]) -> tuple[float, ...]:
    return tuple(value / base for value, base in zip(values, bases, strict=True))


def _made_up(root: Path) -> Path:
    """Write a zoo."""
    names = [f"net{number}-fp32-training" for number in range(COUNT)]
    texts = {"LICENSE": "A licence.\n", "quickstart/train.sh": "#!/bin/sh\npython3 models/0.py\n"}
    words = random.Random(0).choices(("free", "software", "whoever", "copies", "it\n"), k=20_000)  # noqa: S311
    texts["third_party.txt"] = (" ".join(words) * 10)[:_LICENCES]
    texts |= {f"{_SPECS}/tensorflow/base_spec.yml": BASE}
    texts |= {f"{_SPECS}/tensorflow/{name}_spec.yml": SPEC.replace("MODEL", name) for name in names}
    texts |= {f"models/{name}/{number}.py": f"# {name}\n" * (_SIZE // 24) for name in names for number in range(_FILES)}
    for path, text in texts.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return root

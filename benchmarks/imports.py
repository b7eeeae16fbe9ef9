"""`import intel` of 51 packages of a made-up zoo, each of 60 files and 300 KiB; or of a zoo that ZOO names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measure import MLPACK, Result, run

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNT = 51
ROUNDS = 3
_FILES, _SIZE = 60, 5 << 10
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
  base: [{files: [{source: LICENSE, destination: licenses/LICENSE}]}]
"""


def measure(folder: Path) -> Iterator[Result]:
    """Yield the time and memory of one process that imports all packages."""
    zoo = os.environ.get("ZOO")
    root = Path(zoo) if zoo else _made_up(folder / "zoo")
    command = [*MLPACK, "import", "intel", str(root / _SPECS), "--output", str(folder / "models"), "--force"]
    run(command, folder)
    usages = [run(command, folder) for _ in range(ROUNDS)]
    count = sum(1 for _ in (folder / "models").iterdir())
    yield Result(f"import of {count} packages, wall time", tuple(usage.wall for usage in usages), "s", 10)
    yield Result("the same, CPU time", tuple(usage.cpu for usage in usages), "s")
    yield Result("the same, memory", tuple(usage.rss / (1 << 20) for usage in usages), "MiB", 128)


def _made_up(root: Path) -> Path:
    """Write a zoo."""
    names = [f"net{number}-fp32-training" for number in range(COUNT)]
    texts = {"LICENSE": "A licence.\n", "quickstart/train.sh": "#!/bin/sh\npython3 models/0.py\n"}
    texts |= {f"{_SPECS}/tensorflow/base_spec.yml": BASE}
    texts |= {f"{_SPECS}/tensorflow/{name}_spec.yml": SPEC.replace("MODEL", name) for name in names}
    texts |= {f"models/{name}/{number}.py": f"# {name}\n" * (_SIZE // 24) for name in names for number in range(_FILES)}
    for path, text in texts.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return root

"""Packages that are built to take all time, all memory or a whole terminal.

Each command runs in a process of its own, whose limits are far above what the same command takes for anything else.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import yaml

from packager.package.layout import INVENTORY
from packager.package.opened import opened
from tests.broken import seal
from tests.files import replace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Change = Callable[[Path], object]

pytestmark = pytest.mark.thorough

SINGLE = "quickstart/k8s/mlops/single-node"
ENV = f"{SINGLE}/mlops.env"

CPU_SECONDS = 60
MEMORY = 1 << 30
OUTPUT = 1_000_000
LINE = 10_000
"""The most characters of a line, with its escapes."""


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    output: str


def run(*arguments: str | Path, kubectl: Path | None = None) -> Ended:
    """Run the command within the limits, and return how it ended: what it printed fits on a terminal."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))

    done = subprocess.run(
        [sys.executable, "-m", "packager", *map(str, arguments)],
        env=os.environ | ({"KUBECTL": str(kubectl)} if kubectl else {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=limit,
        check=False,
    )
    output = done.stdout.decode()
    assert "Traceback" not in output
    assert len(output) <= OUTPUT
    assert max(map(len, output.split("\n"))) <= LINE
    assert all(line.isprintable() for line in output.split("\n"))
    return Ended(done.returncode, output)


def append(path: str, text: str) -> Change:
    def change(package: Path) -> None:
        with (package / path).open("a", encoding="utf-8") as file:
            file.write(text)

    return change


def kustomization(**lists: list[Any]) -> Change:
    """Return a change that adds entries to the lists of an overlay's kustomization."""

    def change(package: Path) -> None:
        path = package / SINGLE / "kustomization.yaml"
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
        for key, entries in lists.items():
            values[key] = (values.get(key) or []) + entries
        path.write_text(yaml.safe_dump(values), encoding="utf-8")

    return change


def inventory(make: Callable[[], dict[str, Any]]) -> Change:
    """Return a change of the inventory: a mapping is added to what is there, anything else replaces it.

    The values are made by the test: in memory all the time, they would slow down each test that forks.
    """

    def change(package: Path) -> None:
        content = json.loads((package / INVENTORY).read_text(encoding="utf-8"))
        for key, value in make().items():
            content[key] = {**content[key], **value} if isinstance(value, dict) else value
        (package / INVENTORY).write_text(json.dumps(content), encoding="utf-8")

    return change


def _many_files(package: Path) -> None:
    for number in range(20_000):
        (package / f"extra{number:05}").touch()


def _many_overlays(package: Path) -> None:
    for number in range(101):
        shutil.copytree(package / SINGLE, package / f"quickstart/k8s/mlops/copy-{number}")


def _doubling(package: Path) -> None:
    """Include a component twice in the next one, twenty times: a million times in the last."""
    for number in range(20):
        folder = package / f"quickstart/common/n{number}"
        folder.mkdir()
        below = f"components: [../n{number + 1}, ../n{number + 1}]\n" if number < 19 else ""
        (folder / "kustomization.yaml").write_text(f"kind: Component\n{below}", encoding="utf-8")
    kustomization(components=["../../../common/n0"])(package)


_GROWTH = "".join(
    f"""
- source: {{kind: ConfigMap, name: c, fieldPath: data.{source}}}
  targets:
    - {{select: {{kind: ConfigMap, name: c}}, fieldPaths: [data.{target}], options: {{delimiter: ",", index: 0}}}}
"""
    for source, target in ("AB", "BA")
)


def _doubled_value(package: Path) -> None:
    """Write a value into a part of another, and that into a part of the first, sixty times."""
    append(f"{SINGLE}/wiring.yaml", _GROWTH * 60)(package)
    generated = "configMapGenerator: [{name: c, literals: ['A=x,x', 'B=x,x']}, "
    replace(package / SINGLE / "kustomization.yaml", "configMapGenerator: [", generated)


# Content of an archive whose sender has sealed it.
SEALED: dict[str, tuple[Change, str]] = {
    "lists of aliases": (
        append(f"{SINGLE}/pod.yaml", f'x: &a "{"A" * 15_000}"\nz: [{"*a, " * 5_000}]\n'),
        "aliases expand without limit",
    ),
    "many labels": (
        append(f"{SINGLE}/pod.yaml", "x: {" + ", ".join(f"a{n}: b" for n in range(25_000)) + "}\n"),
        "the overlay has more than 20,000 values",
    ),
    "replacements that double a value": (_doubled_value, "the overlay takes more than 256 MiB of memory"),
    "a long field": (append(f"{SINGLE}/pod.yaml", f"? {'K' * 500_000}\n: 1\n"), "KKK...KKK"),
    "many unknown fields": (
        append(f"{SINGLE}/pod.yaml", "".join(f"field{n}: 1\n" for n in range(900))),
        "more problems are not listed",
    ),
    "components twice in each other": (_doubling, "more than 300 objects and patches"),
    "many variables": (
        append(ENV, "".join(f"KEY_{n}=1\n" for n in range(60_000))),
        "the overlay has more than 20,000 values",
    ),
}

# Changes that anybody may make on the way.
UNSEALED: dict[str, tuple[Change, str]] = {
    "many files": (_many_files, "19,000 more problems"),
    "many edited lines": (append(f"{SINGLE}/pod-patch.yaml", "#\n" * 500_000), "more than 500 lines are edited"),
    "many overlays": (_many_overlays, "103 overlays: expected at most 100"),
    "an inventory of many files": (
        inventory(lambda: {"files": {f"f{n}": {"mode": "0644", "sha256": "0" * 64} for n in range(50_000)}}),
        "more problems",
    ),
    "an inventory of a long version": (
        inventory(lambda: {"manifest": "x" * 10_000_000}),
        "expected version 1, found 'xxx",
    ),
}


@pytest.mark.parametrize("attack", [*SEALED, *UNSEALED])
def test_verify_of_a_hostile_package_is_bounded(attack: str, package: Path, kubectl: Path) -> None:
    change, expected = {**SEALED, **UNSEALED}[attack]
    change(package)
    if attack in SEALED:
        with opened(package) as sealed:
            seal(sealed)
    done = run("verify", package, kubectl=kubectl)
    assert expected in done.output
    assert done.code == 5

"""A small valid model, which tests change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.errors import SpecError
from packager.modelspec.load import load

if TYPE_CHECKING:
    from collections.abc import Mapping

CHECKOUT = Path(__file__).resolve().parents[1]

SPEC = """\
name: demo
title: Demo
framework: mpi
image: {name: demo, tag: "1.0"}
files: [train.sh]
overlays:
  single-node: {kind: Pod}
  multi-node: {kind: MPIJob}
variants:
  - {precision: fp32, mode: training, script: train.sh}
"""
VARIANTS = (
    "  - {precision: bf16, mode: training, script: train.sh}",
    "  - {precision: fp32, mode: inference, script: train.sh, overlays: [single-node]}",
)
"""Changes that add two variants to the spec."""

SCRIPT = "#!/bin/sh\necho trained\n"


def write(folder: Path, spec: str = SPEC, files: Mapping[str, str | bytes] | None = None) -> Path:
    """Write a model into `folder`, and return the path of its spec; `files` replace the script or are added to it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in {"train.sh": SCRIPT, "spec.yaml": spec, **(files or {})}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder / "spec.yaml"


def problems(spec: Path) -> list[str]:
    """Return the problems of a spec, each with its place; an empty list for a valid one."""
    try:
        load(spec)
    except SpecError as error:
        return [str(problem).removeprefix(f"{spec.parent}/") for problem in error.problems]
    return []


def changed(*changes: str) -> str:
    """Return the spec after changes: `old => new` replaces text, and a change without `=>` is appended."""
    spec = SPEC
    for change in changes:
        old, arrow, new = change.partition(" => ")
        if not arrow:
            spec += f"{change}\n"
            continue
        assert old in spec, f"{old!r} is not in the spec"
        spec = spec.replace(old, new, 1)
    return spec

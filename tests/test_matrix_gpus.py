"""Tests of compatibility: every kubectl renders the numbers of processes that follow GPUs to the same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.builder import render
from packager.builder.plan import Options, choose, plan
from packager.builder.selection import select
from packager.modelspec import catalog, load
from packager.modelspec.settings import parse_setting
from packager.package import tree
from packager.package.layout import OVERLAYS as FOLDER
from tests import kinds
from tests.test_matrix import assert_alike, documents, write

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.matrix

# What a user edits by hand, in each copy of a package: the number of GPUs in mlops.env and site.env, the number of
# processes, and whether the option gpu is on. Then the slots of a worker, and the processes of a pod.
GPU_EDITS = {
    "none": ({}, 1, "1"),
    "gpus": ({"\nGPUS=1\n": "\nGPUS=8\n"}, 8, "8"),
    "numbers": ({"\nGPUS=1\n": "\nGPUS=8\n", "=per-gpu\n": "=2\n"}, 2, "2"),
    "option": ({"  # - ../../../common/mpi/k8s/mlops/gpu ": "  - ../../../common/mpi/k8s/mlops/gpu "}, 4, "4"),
    "both": (
        {"  # - ../../../common/mpi/k8s/mlops/gpu ": "  - ../../../common/mpi/k8s/mlops/gpu ", "=per-gpu\n": "=3\n"},
        3,
        "3",
    ),
}


def test_kubectls_render_processes_for_each_gpu_alike(tmp_path: Path) -> None:
    gpus = [f"overlays.{overlay}.resources.limits.nvidia\\.com/gpu=1" for overlay in ("multi-node", "nodes")]
    settings = [*kinds.SETTINGS, *map(parse_setting, gpus)]
    loaded = load.load(catalog.find("hello-mpi", [catalog.bundled()]), settings)
    planned = plan(loaded, choose(loaded.spec, None, None), Options(site=select([], ["GPU_COUNT=4"])))
    for name, (edits, _, _) in GPU_EDITS.items():
        (tmp_path / name).mkdir()
        tree.write(render.render(planned), tmp_path / name)
        for overlay in ("multi-node", "nodes"):
            for file in ("mlops.env", "kustomization.yaml"):
                path = tmp_path / name / FOLDER / overlay / file
                text = path.read_text(encoding="utf-8")
                for old, new in edits.items():
                    text = text.replace(old, new)
                path.write_text(text, encoding="utf-8")
            path = tmp_path / name / FOLDER / overlay / "kustomization.yaml"
            path.write_text(f"{path.read_text(encoding='utf-8')}namePrefix: {name}-\n", encoding="utf-8")
    folder = tmp_path / "all"
    folder.mkdir()
    write(folder, *(f"../{name}/{FOLDER}/{overlay}" for name in GPU_EDITS for overlay in ("multi-node", "nodes")))
    rendered = assert_alike(folder, inputs=[tmp_path / name for name in GPU_EDITS])
    for name, (_, slots, processes) in GPU_EDITS.items():
        job, nodes = (
            next(
                document
                for document in documents(rendered)
                if f"\n  name: {name}-hello-mpi-{overlay}\nspec:" in document
            )
            for overlay in ("multi-node", "nodes")
        )
        assert f"\n  slotsPerWorker: {slots}\n" in job
        assert f'name: PET_NPROC_PER_NODE\n                value: "{processes}"\n' in nodes

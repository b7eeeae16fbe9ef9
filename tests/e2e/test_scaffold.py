"""Tests that models of `mlpack init` build and run without edits, with the image of their Dockerfile."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.e2e.site import Images, Site


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "options", "overlay", "line"),
    [
        ("scaffold-mpi", "", "multi-node", "rank 1 of 2 on {}-worker-1: step 3 of 3"),
        ("scaffold-torch", "--kind JobSet --rendezvous torch", "multi-node", '"host": "{}-node-0-1", "sum": 3.0'),
        ("scaffold-server", "--kind Deployment", "serving", "serving on {}-"),
    ],
)
def test_new_model_runs_without_edits(
    site: Site, images: Images, name: str, options: str, overlay: str, line: str
) -> None:
    site.run(f"mlpack init {options} {name}")
    dockerfile = site.folder / name / "Dockerfile"
    alone = site.folder / "image"
    alone.mkdir()
    shutil.copy(dockerfile, alone)
    images.build(alone, f"localhost/{name}:1.0")
    package = site.build(f"./{name}").name
    site.run(f"mlpack configure {package} --uid 12345 --gid 12345")
    deploy = site.shell(f"mlpack deploy {package} --overlay {overlay}")
    assert deploy.returncode == 0, deploy.stderr
    log = site.run(f"mlpack logs {package} --overlay {overlay} --all")
    assert line.format(f"{package}-{overlay}") in log

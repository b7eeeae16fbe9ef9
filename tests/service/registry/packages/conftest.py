from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from packager.builder.plan import Options, choose, plan
from packager.builder.render import render
from packager.modelspec.load import load
from packager.package import tree
from packager.service.config import PackagesConfig
from tests import demo
from tests.service.page.conftest import Site

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

DEMO = demo.changed(
    "  multi-node: {kind: MPIJob}\n => ",
    "{kind: Pod} => {kind: Job}",
    "framework: mpi => framework: python",
    "environment: {STEPS: {value: '10', description: How long it trains.}, RATE: '0.5', NOTE: '', VERBOSE: 'true'}",
    "secrets: {HF_TOKEN: {description: A token of huggingface.co.}}",
)
"""A model with each type of value, and a secret."""


def build(folder: Path, spec: str = DEMO, files: Mapping[str, str | bytes] | None = None) -> Path:
    """Build the package of a spec in the new `folder`, and return the folder."""
    loaded = load(demo.write(folder.with_name(f"{folder.name}-model"), spec, files))
    folder.mkdir()
    tree.write(render(plan(loaded, choose(loaded.spec, None, None), Options())), folder)
    return folder


@pytest.fixture(scope="module", autouse=True)
def _kubectl_on_the_path(kubectl: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(kubectl.parent), prepend=":")
        yield


@pytest.fixture(scope="session")
def demo_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of DEMO, which tests copy before they change it."""
    return build(tmp_path_factory.mktemp("demo") / "demo")


@pytest.fixture(scope="module")
def packages_folder(tmp_path_factory: pytest.TempPathFactory, demo_package: Path) -> Path:
    """The folder of packages of `site`, with the package `demo`."""
    folder = tmp_path_factory.mktemp("packages")
    shutil.copytree(demo_package, folder / "demo")
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, packages_folder: Path) -> Iterator[Site]:
    """A service with a folder of packages."""
    packages = PackagesConfig(folder=str(packages_folder))
    site = Site(tmp_path_factory.mktemp("server") / "server.db", packages=packages)
    with site.client:
        yield site

"""The proof on a real cluster: `make e2e`, or `make e2e CONTEXT=name` for a cluster of one's own.

Without MLPACK_E2E_CONTEXT the cluster of `tests/testbed` is brought up. Each test gets a namespace of its own that
enforces Pod Security "restricted", and a kubeconfig whose current context points there: so the commands of a
package's README run as they are printed.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.site import CHECKOUT, MPI_IMAGE, Images, Site

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

TENSORFLOW_IMAGE = "localhost/tensorflow-mpi:2.21.0"

SITES = pytest.StashKey[list[Site]]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "e2e" in Path(item.fspath).parts:
            item.add_marker("e2e")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds to the report of a failure what the cluster knew at that moment: the namespaces are gone afterwards."""
    report = yield
    if report.failed and call.when == "call":
        for site in item.stash.get(SITES, []):
            report.sections.append((f"namespace {site.namespace}", site.state()))
    return report


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kubeconfig that holds nothing but the cluster of the proof, as JSON."""
    flags = []
    if context := os.environ.get("MLPACK_E2E_CONTEXT"):
        flags = ["--context", context]
        environment = dict(os.environ)
    else:
        up = subprocess.run(
            [sys.executable, "-m", "tests.testbed", "up"], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, check=True
        )
        environment = {**os.environ, "KUBECONFIG": up.stdout.strip()}
    view = subprocess.run(
        [Site.kubectl(), "config", "view", "--minify", "--flatten", "--output=json", *flags],
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
    )
    path = tmp_path_factory.mktemp("cluster") / "kubeconfig"
    path.write_bytes(view.stdout)
    return path


@pytest.fixture(scope="session")
def images(kubeconfig: Path) -> Images:
    """Builds images out of packages' Dockerfiles and brings them to the cluster, which has to be up for that."""
    assert kubeconfig.exists()
    return Images(own_cluster="MLPACK_E2E_CONTEXT" not in os.environ)


@pytest.fixture
def new_site(kubeconfig: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[str], Site]]:
    """Makes namespaces that enforce a Pod Security level; they are deleted when the test is over."""
    made = request.node.stash.setdefault(SITES, [])

    def make(level: str) -> Site:
        site = Site.create(f"e2e-{secrets.token_hex(4)}", level, kubeconfig, tmp_path)
        made.append(site)
        return site

    yield make
    for site in made:
        site.remove()


@pytest.fixture
def site(new_site: Callable[[str], Site]) -> Site:
    """A namespace that enforces "restricted"."""
    return new_site("restricted")


@pytest.fixture(scope="session")
def mpi_image(images: Images) -> str:
    """The image of hello-mpi."""
    return images.build(CHECKOUT / "model_specs/hello-mpi", MPI_IMAGE)


@pytest.fixture(scope="session")
def tensorflow_image(images: Images) -> str:
    """The image of resnet50."""
    return images.build(CHECKOUT / "model_specs/resnet50", TENSORFLOW_IMAGE)

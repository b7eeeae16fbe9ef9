"""Fixtures of the tests on a real cluster: `make e2e`, or `make e2e CONTEXT=name` for an existing cluster.

Without MLPACK_E2E_CONTEXT, the cluster of `tests/testbed` is started. Each test gets its own namespace, which enforces
Pod Security "restricted", and a kubeconfig whose current context points to it, so that the commands of a package's
README run as printed.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.site import CHECKOUT, MPI_IMAGE, Images, Site
from tests.e2e.storage import NodeFolder, volume
from tests.testbed.operators import QUEUES

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

TENSORFLOW_IMAGE = "localhost/tensorflow-mpi:2.21.0"

KUEUE_API = "kueue.x-k8s.io/v1beta2"

SITES = pytest.StashKey[list[Site]]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "e2e" in Path(item.fspath).parts:
            item.add_marker("e2e")
    # Trainings at the same time take longer than one after the other. pytest-xdist gives the first tests to the first
    # process (--dist worksteal), and a process without work takes the last tests of another.
    items.sort(key=lambda item: item.get_closest_marker("trains") is None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the state of the cluster to the report of a failure; the namespaces are deleted afterwards."""
    report = yield
    if report.failed and call.when == "call":
        for site in item.stash.get(SITES, []):
            report.sections.append((f"namespace {site.namespace}", site.state()))
    return report


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a kubeconfig, as JSON, that contains only the cluster of the tests."""
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
    """Return a builder of images from Dockerfiles, which loads them into the running cluster."""
    assert kubeconfig.exists()
    return Images(own_cluster="MLPACK_E2E_CONTEXT" not in os.environ)


@pytest.fixture
def new_site(kubeconfig: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[str], Site]]:
    """Yield a function that creates a namespace with a Pod Security level; all are deleted after the test."""
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
    """Return a namespace that enforces "restricted"."""
    return new_site("restricted")


@pytest.fixture(scope="session")
def mpi_image(images: Images) -> str:
    """Return the image of hello-mpi."""
    return images.build(CHECKOUT / "model_specs/hello-mpi", MPI_IMAGE)


@pytest.fixture(scope="session")
def tensorflow_image(images: Images) -> str:
    """Return the image of resnet50."""
    return images.build(CHECKOUT / "model_specs/resnet50", TENSORFLOW_IMAGE)


@pytest.fixture
def claim(site: Site, new_site: Callable[[str], Site], mpi_image: str) -> Iterator[str]:
    """Create the claim `results` on a folder of the node, and yield the options of `build` that use it."""
    assert mpi_image
    folder = NodeFolder(new_site("privileged"), "/tmp")
    folder.run(f"mkdir -p {folder.path}/results\nchmod 777 {folder.path}/results")
    name = f"results-{site.namespace}"
    asked = {"volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
    asked |= {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    site.apply(
        volume(name, f"{folder.path}/results"),
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "results"}, "spec": asked},
    )
    yield "--with output-pvc --site OUTPUT_CLAIM=results"
    site.run(f"kubectl delete pv --wait=false {name}")
    folder.run(f"rm -r {folder.path}")


@pytest.fixture
def node(new_site: Callable[[str], Site]) -> Iterator[NodeFolder]:
    """Yield a folder of the node with a dataset, and a folder for results that every user may write to."""
    folder = NodeFolder(new_site("privileged"), "/tmp")
    folder.run(
        f"mkdir -p {folder.path}/dataset {folder.path}/storage/output {folder.path}/storage/quickstart/scripts "
        f"{folder.path}/model\n"
        f"chmod 777 {folder.path}/storage/output {folder.path}/dataset {folder.path}/model\n"
        f"echo images > {folder.path}/dataset/data"
    )
    yield folder
    folder.run(f"rm -r {folder.path}")


@pytest.fixture
def volumes(site: Site, node: NodeFolder) -> Iterator[str]:
    """Create volumes on the node, and yield their storage class, which has no provisioner."""
    storage_class = f"class-{site.namespace}"
    folders = {"results": "storage/output", "dataset": "dataset", "model": "model"}
    for name, folder in folders.items():
        path = f"{node.path}/{folder}"
        site.apply(volume(f"{name}-{site.namespace}", path, labels={"of": name}, storageClassName=storage_class))
    yield storage_class
    site.run("kubectl delete pv --wait=false " + " ".join(f"{name}-{site.namespace}" for name in folders))


@pytest.fixture
def queue(site: Site) -> Iterator[str]:
    """Create a LocalQueue and its ClusterQueue, which admits nothing yet, and yield the name of both."""
    site.run(f"kubectl label namespace {site.namespace} {QUEUES}=true")
    name = site.namespace
    quotas = [{"name": resource, "nominalQuota": quota} for resource, quota in (("cpu", "2"), ("memory", "4Gi"))]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": name, "resources": quotas}]}
    cluster_queue = {"namespaceSelector": {}, "resourceGroups": [group], "stopPolicy": "Hold"}
    objects: list[dict[str, Any]] = [
        {"apiVersion": KUEUE_API, "kind": "ResourceFlavor", "metadata": {"name": name}},
        {"apiVersion": KUEUE_API, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": cluster_queue},
        {"apiVersion": KUEUE_API, "kind": "LocalQueue", "metadata": {"name": name}, "spec": {"clusterQueue": name}},
    ]
    (site.folder / "queue.json").write_text("\n".join(map(json.dumps, objects)))
    site.run("kubectl apply -f queue.json")
    yield name
    site.run("kubectl delete --wait=false -f queue.json")

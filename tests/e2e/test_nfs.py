"""Tests of the option `nfs` with a real server: ownership of written files, and reported failures."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.e2e.faults import Faulty
from tests.e2e.storage import SPEC, NodeFolder
from tests.testbed import node as cluster_node
from tests.testbed.node import ADDRESS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.site import Site

pytestmark = pytest.mark.usefixtures("mpi_image")

UID, GID = 12345, 12346
WORKERS = ("storage-multi-node-worker-0", "storage-multi-node-worker-1")


@pytest.fixture
def share(new_site: Callable[[str], Site]) -> Iterator[NodeFolder]:
    """Yield a folder of the cluster's NFS server that only one user may write to, not even root."""
    if "MLPACK_E2E_CONTEXT" in os.environ:
        pytest.skip("only the cluster of tests/testbed has an NFS server")
    folder = NodeFolder(new_site("privileged"), "/var/export")
    folder.run(
        f"mkdir -p {folder.path}/dataset {folder.path}/storage/output {folder.path}/storage/quickstart/scripts\n"
        f"chmod 777 {folder.path}/dataset\n"
        f"chown {UID}:{GID} {folder.path}/storage/output\n"
        f"chmod 700 {folder.path}/storage/output\n"
        f"echo images > {folder.path}/dataset/data"
    )
    yield folder
    folder.run(f"rm -r {folder.path}")


def mounts(share: NodeFolder) -> list[str]:
    """Return the node's mounts of the share, and the command lines of the clients that serve them."""
    node = cluster_node.find()
    assert node
    of_share = f"{ADDRESS}:{share.path}/"
    lines = (node.root / "proc/1/mounts").read_text(encoding="utf-8").splitlines()
    clients = [" ".join(argv) for _, argv in node.processes() if argv[0].endswith("mount.nfs")]
    return [mount for mount in (*lines, *clients) if of_share in mount]


def built(site: Site, folder: str) -> Faulty:
    """Build a package that keeps its data in a folder of the NFS server, for the user that may write there."""
    package = site.build(str(SPEC), f"--with nfs --site NFS_SERVER={ADDRESS} --root {folder}")
    site.run(f"mlpack configure {package.name} --uid {UID} --gid {GID}")
    return Faulty(site, package, "multi-node")


@pytest.mark.thorough
def test_results_are_stored_on_the_server_and_outlive_the_pods(
    new_site: Callable[[str], Site], share: NodeFolder
) -> None:
    site = new_site("baseline")
    package = built(site, share.path)
    with package.running("deploy") as deploy:
        site.until(lambda: mounts(share), "the node to mount the share")
        _, stderr = deploy.communicate(timeout=180)
    assert deploy.returncode == 0, stderr
    log = package.run("logs").out
    for rank in (0, 1):
        assert f"rank {rank}: uid {UID}, gid {GID}" in log
        assert f"rank {rank}: output is of type fuse.nfs from {ADDRESS}:{share.path}/storage/output\n" in log
        assert f"rank {rank}: found in dataset: images\n" in log
        [refused] = [
            line for line in log.splitlines() if line.startswith(f"rank {rank}: may not write into the dataset")
        ]
        assert refused.endswith("Read-only file system")
    package.delete()
    site.until(lambda: not mounts(share), "the node to unmount the share")
    assert left_on(share) == {worker: (f"{UID}:{GID}", worker) for worker in WORKERS}

    package = replace(package, overlay="single-node")
    deployed = package.run("deploy")
    assert deployed.code == 0, deployed.err
    assert f"rank 0: found in output: {' '.join(WORKERS)}" in package.run("logs").out
    package.delete()
    site.until(lambda: not mounts(share), "the node to unmount the share")
    assert left_on(share).keys() == {*WORKERS, "storage-single-node"}
    assert share.run(f"ls {share.path}/dataset") == "data\n"


def left_on(share: NodeFolder) -> dict[str, tuple[str, str]]:
    """Return the owner and contents of each file in the server's folder of results, by the name of its pod."""
    script = (
        f"cd {share.path}/storage/output\nfor file in $(ls); do echo $file $(stat -c %u:%g $file) $(cat $file); done"
    )
    lines = [line.split() for line in share.run(script).splitlines()]
    return {file.removeprefix("left-by-"): (owner, contents) for file, owner, contents in lines}

"""Runs a package as a receiver does who has only kubectl and its README: edits, runs, copies results."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.e2e.site import blocks, commands
from tests.e2e.storage import SPEC, NodeFolder, volume
from tests.e2e.test_mpi import become

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.site import Site


@pytest.fixture
def _volume(site: Site, new_site: Callable[[str], Site]) -> Iterator[None]:
    """Create the volume of the README's claim, as a default storage class would."""
    folder, name = NodeFolder(new_site("privileged"), "/tmp"), f"results-{site.namespace}"
    folder.run(f"mkdir -p {folder.path}\nchmod 777 {folder.path}")
    site.apply(volume(name, folder.path, claimRef={"namespace": site.namespace, "name": "results"}))
    yield
    site.run(f"kubectl delete pv --wait=false {name}")
    folder.run(f"rm -r {folder.path}")


@pytest.mark.usefixtures("mpi_image", "_volume")
def test_readme_alone_runs_both_overlays_and_copies_their_results(site: Site) -> None:
    """The user is not in the image, and the namespace enforces "restricted"."""
    package = site.build(str(SPEC))
    become(package, 12345, 12346, 12347)
    claim, copy = blocks(package, "Results")
    site.run(claim)
    env = next(package.glob("quickstart/common/*/k8s/mlops/site/site.env"))
    env.write_text(env.read_text().replace("#OUTPUT_CLAIM=", "OUTPUT_CLAIM="))
    left = []
    for overlay in ("single-node", "multi-node"):
        folder = package / "quickstart/k8s/mlops" / overlay
        listed = (folder / "kustomization.yaml").read_text()
        start = next(line for line in listed.splitlines() if "/output-pvc" in line)
        (folder / "kustomization.yaml").write_text(listed.replace(start, start.replace("# - ", "- ", 1)))
        values = (folder / "mlops.env").read_text().replace("MEMORY_LIMIT=512Mi", "MEMORY_LIMIT=300Mi")
        (folder / "mlops.env").write_text(values.replace("ROOT", "/srv"))
        apply, logs, wait, delete = commands(package, overlay)
        site.run(apply, cwd=package)
        site.run(wait, cwd=package)
        log = site.run(logs, cwd=package)
        assert "uid 12345, gid 12346" in log
        left += [line.split()[-1] for line in log.splitlines() if ", host " in line]
        # The operator deletes workers that have ended, so their MPIJob is asked.
        assert '"memory": "300Mi"' in json.dumps(site.get("pods,mpijobs"))
        site.run(delete, cwd=package)
    assert len(left) == 3
    for key, own in (("runAsUser", 12345), ("runAsGroup", 12346), ("fsGroup", 12347)):
        copy = copy.replace(f"{key}: 1000", f"{key}: {own}")
    site.run(copy)
    assert {path.name for path in (site.folder / "results").iterdir()} == {f"left-by-{host}" for host in left}
    site.until(lambda: site.left() == ["persistentvolumeclaim/results"], "everything but the claim to be gone")


@pytest.mark.thorough
@pytest.mark.usefixtures("mpi_image")
def test_overlay_outside_of_the_package_runs_through_two_newer_builds(site: Site) -> None:
    """Nobody edits the package: kubectl and the commands of mlpack take the overlay beside it."""
    site.build(str(SPEC))
    site.run("mlpack overlay storage --to mine --overlay single-node")
    site.run("mlpack configure mine/single-node --uid 12345 --gid 12346 --with shared-memory --set SHM_SIZE=32Mi")
    for number in range(3):
        if number:
            site.run("rm -r storage storage.tar.gz")
            site.build(str(SPEC), f"--add environment.STEPS_{number}=1")
            written = site.shell("mlpack overlay storage --to mine --overlay single-node")
            assert (written.returncode, f"STEPS_{number}" in written.stderr) == (0, True), written.stderr
        site.run("kubectl apply -k mine/single-node")
        assert site.end_of_pod("storage-single-node") == "Succeeded"
        log = site.run("mlpack logs mine/single-node")
        assert "rank 0: uid 12345, gid 12346" in log
        assert "rank 0: shared memory of 32768 KiB" in log
        assert "storage-single-node" in site.run("mlpack status mine/single-node")
        site.run("kubectl delete -k mine/single-node")

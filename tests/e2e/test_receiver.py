"""What a receiver does who has only kubectl and the README of the package: edits, runs, copies results."""

from __future__ import annotations

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
    """As a user that the image does not know, in a namespace that enforces "restricted"."""
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
        limits = [pod["spec"]["containers"][0]["resources"].get("limits") for pod in site.get("pods")["items"]]
        assert {"memory": "300Mi"} in limits
        site.run(delete, cwd=package)
    assert len(left) == 3
    for key, own in (("runAsUser", 12345), ("runAsGroup", 12346), ("fsGroup", 12347)):
        copy = copy.replace(f"{key}: 1000", f"{key}: {own}")
    site.run(copy)
    assert {path.name for path in (site.folder / "results").iterdir()} == {f"left-by-{host}" for host in left}
    site.until(lambda: site.left() == ["persistentvolumeclaim/results"], "everything but the claim to be gone")

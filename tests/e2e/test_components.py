"""Tests of the effects of each site option on running workloads on a real cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from packager.package.options import BY_NAME, KEYS
from tests.e2e.site import commands
from tests.e2e.storage import SPEC, NodeFolder, claim, delete, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.site import Site

pytestmark = pytest.mark.usefixtures("mpi_image")


def workers_of(site: Site) -> list[dict[str, Any]]:
    return list(site.get("pods -l training.kubeflow.org/job-role=worker")["items"])


def test_claims_keep_results_and_protect_the_dataset(site: Site, volumes: str) -> None:
    for name in ("results", "dataset"):
        claim(site, name, volumes)
    package = site.build(str(SPEC), "--with pvc --site OUTPUT_CLAIM=results --site DATASET_CLAIM=dataset --root /srv")
    log = run(site, package, "multi-node")
    for rank in (0, 1):
        assert f"rank {rank}: found in dataset: images" in log
        assert f"rank {rank}: may not write into the dataset" in log
    delete(site, package, "multi-node")
    assert "persistentvolumeclaim/results" in site.left()

    log = run(site, package, "single-node")
    workers = "storage-multi-node-worker-0 storage-multi-node-worker-1"
    assert f"rank 0: found in output: {workers}" in log
    assert "rank 0: may not write into the dataset" in log
    delete(site, package, "single-node")

    log = run(site, package, "one-job")
    assert f"rank 0: found in output: {workers} storage-single-node" in log
    assert "rank 0: may not write into the dataset" in log


def test_claim_of_an_overlay_is_kept_by_delete_with_keep_results(site: Site, volumes: str) -> None:
    claim(site, "dataset", volumes)
    values = {"OUTPUT_CLAIM": "results", "DATASET_CLAIM": "dataset", "CLAIM_CLASS": volumes, "CLAIM_SIZE": "1Gi"}
    given = " ".join(f"--site {key}={value}" for key, value in values.items())
    package = site.build(str(SPEC), f"--with pvc --with pvc-create --root /srv {given}")
    deployed = site.shell(f"mlpack deploy {package.name}")
    assert (deployed.returncode, "its results: mlpack results" in deployed.stderr) == (0, True), deployed.stderr
    kept = site.shell(f"mlpack delete {package.name} --keep-results")
    assert (kept.returncode, kept.stdout) == (0, ""), kept.stderr
    assert "kept: persistentvolumeclaim/results-multi-node\n" in kept.stderr
    assert site.left() == ["persistentvolumeclaim/dataset", "persistentvolumeclaim/results-multi-node"]
    site.run(f"mlpack results {package.name} here")
    read = {path.name for path in (site.folder / "here").iterdir()}
    assert read == {f"left-by-storage-multi-node-worker-{number}" for number in (0, 1)}

    site.run(f"mlpack deploy {package.name}")
    workers = "storage-multi-node-worker-0 storage-multi-node-worker-1"
    assert f"found in output: {workers}" in site.run(f"mlpack logs {package.name}")
    site.run(f"mlpack delete {package.name}")
    assert site.left() == ["persistentvolumeclaim/dataset"]


@pytest.mark.thorough
def test_gpus_of_any_vendor_are_given_to_workers_only(site: Site) -> None:
    [node] = [item["metadata"]["name"] for item in site.get("nodes")["items"]]
    vendor = f"{site.namespace}.example"
    patch = json.dumps({"status": {"capacity": {f"{vendor}/gpu.large": "4"}}})
    site.run(f"kubectl patch node {node} --subresource=status --patch '{patch}'")
    site.until(lambda: f"{vendor}/gpu.large" in site.get(f"node {node}")["status"]["allocatable"], "the devices")
    try:
        values = {"GPU_VENDOR": vendor, "GPU_RESOURCE": "gpu.large", "GPU_COUNT": "2"}
        given = " ".join(f"--site {key}={value}" for key, value in values.items())
        package = site.build(str(SPEC), f"--with gpu {given}")
        site.run(commands(package, "multi-node")[0], cwd=package)
        workers = site.until(lambda: len(pods := workers_of(site)) == 2 and pods, "both workers")
        asked = [pod["spec"]["containers"][0]["resources"]["limits"] for pod in workers]
        assert [limits.get(f"{vendor}/gpu.large") for limits in asked] == ["2", "2"]
        assert site.end_of("storage-multi-node") == "Succeeded", site.log(site.launcher())
        assert vendor not in json.dumps(site.get(f"pod {site.launcher()}")["spec"])
    finally:
        gone = json.dumps([{"op": "remove", "path": f"/status/capacity/{vendor}~1gpu.large"}])
        site.run(f"kubectl patch node {node} --subresource=status --type=json --patch '{gone}'")


@pytest.mark.thorough
def test_host_paths_are_mounted_in_each_overlay(new_site: Callable[[str], Site], node: NodeFolder) -> None:
    site = new_site("privileged")
    package = site.build(str(SPEC), f"--with host-path --root {node.path}")
    log = run(site, package, "multi-node")
    for rank in (0, 1):
        assert f"rank {rank}: found in dataset: images" in log
        assert f"rank {rank}: may not write into the dataset" in log
    log = run(site, package, "single-node")
    assert "found in output: storage-multi-node-worker-0 storage-multi-node-worker-1" in log
    left = node.run(f"cd {node.path} && ls storage/output dataset")
    log = run(site, package, "one-job")
    assert "found in output: storage-multi-node-worker-0 storage-multi-node-worker-1 storage-single-node" in log
    assert "left-by-storage-single-node" in left
    assert "mine" not in left


@pytest.mark.thorough
def test_placement_option_spreads_workers_and_selects_nodes(site: Site) -> None:
    package = site.build(str(SPEC), "--with placement --site SPREAD_ELSE=DoNotSchedule")
    site.run(commands(package, "multi-node")[0], cwd=package)
    for worker in site.until(lambda: len(pods := workers_of(site)) == 2 and pods, "both workers"):
        spec = worker["spec"]
        [spread] = spec["topologySpreadConstraints"]
        assert spread["whenUnsatisfiable"] == "DoNotSchedule"
        assert spread["matchLabelKeys"] == ["training.kubeflow.org/job-name"]
        # The API server has merged the pod's label: the constraint counts only this job's workers.
        assert {"key": "training.kubeflow.org/job-name", "operator": "In", "values": ["storage-multi-node"]} in spread[
            "labelSelector"
        ]["matchExpressions"]
    assert site.end_of("storage-multi-node") == "Succeeded"
    delete(site, package, "multi-node")

    placement = next(package.glob("quickstart/common/*/k8s/mlops/placement/placement.yaml"))
    placement.write_text(placement.read_text().replace("kubernetes.io/os: linux", "mlpack/none: such"))
    site.run(commands(package, "single-node")[0], cwd=package)
    site.until(
        lambda: "didn't match Pod's node affinity/selector" in site.run("kubectl get events"),
        "the scheduler to find no node",
    )


def test_job_runs_with_several_options(site: Site) -> None:
    options = [BY_NAME[name] for name in ("scratch", "shared-memory", "placement", "service-account")]
    values = " ".join(f"--site {key.name}={key.example}" for option in options for key in option.keys)
    switches = " ".join(f"--with {option.name}" for option in options)
    site.run(f"kubectl create serviceaccount {KEYS['SERVICE_ACCOUNT'].example}")
    log = run(site, site.build(str(SPEC), f"{switches} --root /srv {values}"), "one-job")
    assert "rank 0: uid 1000, gid 1000" in log
    assert "shared memory of 65536 KiB" not in log

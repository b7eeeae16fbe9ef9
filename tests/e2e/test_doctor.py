"""Tests that doctor's findings match the result of a deploy, and that doctor leaves no objects."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.faults import Faulty
from tests.e2e.test_jobset import SPEC

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.site import Site


def examine(site: Site, package: Path, *arguments: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """Return doctor's exit code, and its findings by check."""
    done = site.shell(" ".join(["mlpack", "doctor", str(package), "-o", "json", *arguments]))
    assert done.stdout, done.stderr
    by_check: dict[str, list[dict[str, Any]]] = {}
    for finding in json.loads(done.stdout)["findings"]:
        by_check.setdefault(finding["check"], []).append(finding)
    return done.returncode, by_check


def troubles(by_check: dict[str, list[dict[str, Any]]]) -> set[str]:
    return {
        check
        for check, findings in by_check.items()
        if any(finding["state"] not in ("ok", "note") for finding in findings)
    }


@pytest.mark.parametrize("overlay", ["multi-node", "single-node"])
def test_doctor_accepts_a_runnable_package_and_creates_no_objects(site: Site, overlay: str) -> None:
    package = site.build("hello-mpi")
    before = site.left()
    code, by_check = examine(site, package, "--overlay", overlay)
    assert (code, troubles(by_check)) == (0, set()), by_check
    assert site.left() == before == []


def test_doctor_finds_a_missing_namespace(site: Site) -> None:
    package = site.build("hello-mpi")
    code, by_check = examine(site, package, "-n", "nowhere-at-all")
    assert (code, troubles(by_check)) == (1, {"namespace"}), by_check
    assert by_check["namespace"][0]["fix"] == "kubectl create namespace nowhere-at-all"


def test_doctor_offers_a_working_fix_for_pod_security(site: Site) -> None:
    package = site.build("hello-mpi")
    site.run(f"mlpack configure {package} --with root")
    accepted = ("--pod-security", "baseline")
    code, by_check = examine(site, package, *accepted)
    assert (code, troubles(by_check)) == (1, {"namespace"}), by_check
    site.run(by_check["namespace"][0]["fix"])
    assert examine(site, package, *accepted)[0] == 0


def test_doctor_finds_an_insufficient_quota(site: Site) -> None:
    package = site.build("hello-mpi")
    site.run("kubectl create quota tight --hard=pods=2,requests.cpu=1")
    site.until(lambda: site.get("quota tight").get("status"), "the quota to be counted")
    code, by_check = examine(site, package)
    assert (code, troubles(by_check)) == (1, {"quota"}), by_check
    assert by_check["quota"][0]["message"] == "tight: pods: the workload asks for 3, and 2 of 2 is left"
    site.run(by_check["quota"][0]["fix"])


def test_doctor_finds_a_quota_on_limits_that_the_pods_do_not_set(site: Site) -> None:
    package = site.build("hello-mpi")
    site.run("kubectl create quota strict --hard=limits.memory=100Gi")
    site.until(lambda: site.get("quota strict").get("status"), "the quota to be counted")
    code, by_check = examine(site, package)
    assert (code, troubles(by_check)) == (1, {"admission"}), by_check
    assert "must specify limits.memory" in by_check["admission"][0]["message"]


def test_doctor_finds_requests_beyond_every_node(site: Site) -> None:
    package = site.build("hello-mpi", "--set", "overlays.multi-node.resources.requests.cpu=900")
    code, by_check = examine(site, package)
    assert code == 1
    assert "nodes" in troubles(by_check)
    assert "900 requested" in by_check["nodes"][0]["message"]


def test_doctor_finds_objects_of_others_with_the_same_names(site: Site) -> None:
    package = site.build("hello-mpi")
    site.run("kubectl create configmap hello-mpi-env-multi-node")
    site.run("kubectl create secret generic hello-mpi-multi-node-ssh")
    code, by_check = examine(site, package)
    assert (code, troubles(by_check)) == (1, {"names"}), by_check
    for finding in by_check["names"]:
        assert finding["fix"].startswith("use another namespace (-n), or another nameSuffix")
    site.run("kubectl delete configmap/hello-mpi-env-multi-node secret/hello-mpi-multi-node-ssh")
    assert examine(site, package)[0] == 0


def test_doctor_finds_missing_references_of_a_pod(site: Site) -> None:
    package = site.build("hello-mpi")
    site.run(
        f"mlpack configure {package} --storage pvc --set OUTPUT_CLAIM=results --set DATASET_CLAIM=data"
        " --with service-account --set SERVICE_ACCOUNT=trainer --with pull-secret --set PULL_SECRET=registry"
    )
    code, by_check = examine(site, package, "--allow", "ServiceAccount")
    assert code == 1
    assert troubles(by_check) >= {"claims", "references"}, by_check
    messages = " ".join(finding["message"] for finding in [*by_check["claims"], *by_check["references"]])
    for name in ("claim results", "claim data", "ServiceAccount trainer", "secret registry"):
        assert name in messages


def test_doctor_finds_permissions_without_which_deploy_fails(site: Site, tmp_path: Path) -> None:
    package = site.build("hello-mpi")
    limited = _as_service_account(site, tmp_path, "view")
    code, by_check = examine(site, package, "--kubeconfig", str(limited))
    assert code == 1
    denied = [finding["message"] for finding in by_check["permissions"]]
    assert any("create" in message and "mpijobs.kubeflow.org" in message for message in denied), denied
    deployed = site.shell(f"mlpack deploy {package} --no-wait --kubeconfig {limited}")
    assert deployed.returncode == 7
    assert site.left() == []


def test_doctor_reports_checks_without_permission_as_unknown(site: Site, tmp_path: Path) -> None:
    package = site.build("hello-mpi")
    limited = _as_service_account(site, tmp_path, "edit")
    role = "kubectl create role jobs --verb=get,list,create,patch,delete --resource=mpijobs.kubeflow.org"
    site.run(f"{role} && kubectl create rolebinding jobs --role=jobs --serviceaccount={site.namespace}:somebody")
    code, by_check = examine(site, package, "--kubeconfig", str(limited))
    assert code == 6, by_check
    assert {finding["state"] for findings in by_check.values() for finding in findings} == {"ok", "note", "unknown"}
    assert troubles(by_check) == {"operator", "nodes"}, by_check


def test_doctor_reports_an_unreachable_cluster_as_unknown(site: Site, tmp_path: Path) -> None:
    package = site.build("hello-mpi")
    dead = tmp_path / "dead.kubeconfig"
    dead.write_text(site.run("kubectl config view --raw"))
    cluster = site.run("kubectl config view --minify -o jsonpath='{.clusters[0].name}'")
    site.run(f"kubectl --kubeconfig {dead} config set-cluster {cluster} --server=https://127.0.0.1:1")
    code, by_check = examine(site, package, "--kubeconfig", str(dead))
    assert (code, troubles(by_check)) == (6, {"server"}), by_check


def test_doctor_finds_a_finished_run_of_the_same_name(site: Site, mpi_image: str) -> None:
    assert mpi_image
    package = site.build("hello-mpi")
    site.run(f"mlpack deploy {package}")
    code, by_check = examine(site, package)
    assert (code, troubles(by_check)) == (1, {"names"}), by_check
    site.run(by_check["names"][0]["fix"])
    assert examine(site, package)[0] == 0


WRONG = {
    "image": (
        "--registry localhost --set image.tag=nobodys",
        "localhost/mpioperator/mpi-pi:nobodys is on no node and has no registry to pull it from",
        "the image localhost/mpioperator/mpi-pi:nobodys cannot be pulled",
    ),
    "nodes": (
        "--set overlays.nodes.resources.requests.cpu=900 --set overlays.one-job.resources.requests.cpu=900",
        "900 requested",
        "too little cpu left",
    ),
}
"""The options that cause a fault, and the messages of doctor and of deploy, by the check that finds the fault."""


def test_doctor_and_deploy_report_the_same_faults_of_jobs_and_jobsets(new_site: Any) -> None:
    """Four deploys wait at the same time, each in its own namespace, since the names are equal."""
    with ExitStack() as stack:
        waiting = []
        for check, (options, foretold, told) in WRONG.items():
            for overlay in ("nodes", "one-job"):
                site = new_site("restricted")
                job = "--set overlays.one-job.kind=Job"
                package = Faulty(site, site.build(str(SPEC), job, options), overlay)
                code, by_check = examine(site, package.folder, f"--overlay={overlay}")
                assert (code, troubles(by_check)) == (1, {check}), by_check
                assert foretold in by_check[check][0]["message"]
                running = stack.enter_context(package.running("deploy", "--patience", "5s"))
                waiting.append((package, running, told))
        for package, running, told in waiting:
            _, stderr = running.communicate(timeout=120)
            assert running.returncode == 7, stderr
            assert f"error: {package.workload} cannot run: " in stderr
            assert told in stderr


def _as_service_account(site: Site, folder: Path, role: str) -> Path:
    """Return a kubeconfig for a service account that has this cluster role in the namespace."""
    site.run("kubectl create serviceaccount somebody")
    subject = f"--serviceaccount={site.namespace}:somebody"
    site.run(f"kubectl create rolebinding somebody --clusterrole={role} {subject}")
    path = folder / "somebody.kubeconfig"
    path.write_text(site.run("kubectl config view --raw"))
    token = site.run("kubectl create token somebody").strip()
    with_path = f"kubectl --kubeconfig {path} config"
    site.run(f"{with_path} set-credentials somebody --token={token}")
    site.run(f"{with_path} set-context --current --user=somebody")
    asked = f"kubectl --kubeconfig {path} auth can-i get pods"
    site.until(lambda: site.shell(asked).stdout.strip() == "yes", "the role to be bound")
    return path

"""Tests that doctor's findings match the result of a deploy, and that doctor leaves no objects."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

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


def test_doctor_accepts_a_runnable_package_until_its_names_are_used(site: Site, mpi_image: str) -> None:
    """Another has created an object of one of these names."""
    assert mpi_image
    package = site.build("hello-mpi")
    code, by_check = examine(site, package)
    assert (code, troubles(by_check)) == (0, set()), by_check
    assert site.left() == []

    site.run("kubectl create configmap hello-mpi-env-multi-node")
    code, by_check = examine(site, package)
    assert (code, troubles(by_check)) == (1, {"apply"}), by_check
    assert by_check["apply"][0]["fix"].startswith("use another namespace (-n), or another nameSuffix")
    site.run("kubectl delete configmap/hello-mpi-env-multi-node")

    site.run(f"mlpack deploy {package}")
    assert examine(site, package)[0] == 0


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

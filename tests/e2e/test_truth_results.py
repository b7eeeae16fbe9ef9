"""Tests that results, logs and status report everything that they leave out or cannot read."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests import kinds
from tests.e2e.faults import component, faulty

if TYPE_CHECKING:
    from tests.e2e.faults import Faulty, Ran
    from tests.e2e.site import Site

pytestmark = pytest.mark.usefixtures("mpi_image")

POD = "fault-single-node"
INCOMPLETE = "error: the copy differs from the results in the pod: "


@pytest.fixture
def sleeper(site: Site) -> Faulty:
    """Deploy a package of one pod that sleeps, and return it."""
    package = faulty(site, "sleep:300", overlay="single-node")
    assert package.run("deploy", "--no-wait").code == 0
    package.until_running()
    return package


def inside(package: Faulty, command: str) -> None:
    """Run a command in OUTPUT_DIR."""
    package.site.run(f"kubectl exec {POD} -- sh -c {shlex.quote(f'cd $OUTPUT_DIR && {command}')}")


def results(package: Faulty, *options: str) -> Ran:
    return package.run("results", str(package.site.folder / "here"), *options)


def here(package: Faulty) -> dict[str, int]:
    """Return the sizes of the copied files by path."""
    folder = package.site.folder / "here"
    return {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def test_results_name_unreadable_files_and_odd_names_while_other_files_change(sleeper: Faulty) -> None:
    inside(sleeper, "echo x >secret && chmod 0 secret && echo a >a && echo z >z")
    inside(sleeper, r"""echo x >"$(printf 'new\nline')" && echo x >"$(printf 'esc\033[2J')" && ln -s a l""")
    inside(sleeper, "(timeout 20 sh -c 'while :; do echo x >>log; done' >/dev/null 2>&1 &)")
    first = results(sleeper)
    assert first.code == 7, first.err
    assert "not read: secret: Permission denied\n" in first.err
    assert f"{INCOMPLETE}1 could not be read" in first.err
    left_out = "skipped: not a plain file, or a name that is not allowed here: "
    assert {line for line in first.err.splitlines() if line.startswith(left_out)} == {
        left_out + name for name in ("'esc\\x1b[2J'", "l", "1 more")
    }
    assert {name: size for name, size in here(sleeper).items() if name != "log"} == {"a": 2, "z": 2}
    inside(sleeper, "chmod 644 secret")
    again = sleeper.site.until(lambda: (ran := results(sleeper)).code == 0 and ran, "a quiet moment", 60)
    assert here(sleeper)["secret"] == 2, again.err


@pytest.mark.thorough
def test_results_report_an_interruption_if_the_pod_is_deleted(sleeper: Faulty) -> None:
    inside(sleeper, "echo a >a && truncate -s 3G zz")
    with sleeper.running("results", str(sleeper.site.folder / "here")) as copying:
        sleeper.site.until(lambda: sum(here(sleeper).values()) > 1 << 20, "the first megabyte", 120)
        sleeper.site.run(f"kubectl delete pod {POD} --grace-period=1")
        stderr = copying.communicate(timeout=90)[1]
    assert copying.returncode == 7, stderr
    assert "error: the copy was interrupted: " in stderr
    assert {name for name in here(sleeper) if not name.startswith(".mlpack-")} <= {"a"}


def test_logs_print_a_log_byte_for_byte(site: Site) -> None:
    package = faulty(site, "progress", overlay="single-node")
    followed = subprocess.run(
        package.command("deploy", "--follow"), env=site.environment, cwd=site.folder, capture_output=True, check=True
    )
    logs = subprocess.run(
        package.command("logs"), env=site.environment, cwd=site.folder, capture_output=True, check=True
    )
    raw = subprocess.run(["kubectl", "logs", POD], env=site.environment, capture_output=True, check=True)
    assert raw.stdout.count(b"\n") == 302
    assert followed.stdout == logs.stdout == raw.stdout
    assert logs.stderr == b""


def limited(package: Faulty, *rules: dict[str, Any]) -> Faulty:
    """Return the package with the kubeconfig of a service account that has only these rules."""
    site = package.site
    site.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "somebody"}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": "few"},
            "rules": list(rules),
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "few"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "few"},
            "subjects": [{"kind": "ServiceAccount", "name": "somebody", "namespace": site.namespace}],
        },
    )
    token = site.run("kubectl create token somebody").strip()
    config = json.loads(site.run("kubectl config view --minify --flatten --output=json"))
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
    (site.folder / "limited").write_text(json.dumps(config), encoding="utf-8")
    environment = {**site.environment, "KUBECONFIG": str(site.folder / "limited")}
    return replace(package, site=replace(site, environment=environment))


def test_commands_report_missing_permissions_for_events_logs_and_jobs(site: Site) -> None:
    package = faulty(site, "sleep:5", overlay="single-node")
    package = limited(
        package, {"apiGroups": [""], "resources": ["pods", "configmaps"], "verbs": ["get", "list", "create", "patch"]}
    )
    deployed = package.run("deploy", "--follow")
    assert deployed.code == 0, deployed.err
    assert deployed.err.count("reasons may be missing: events is forbidden") == 1
    assert f"the end of the log is missing: the log of pod/{POD} cannot be read: " in deployed.err
    status = package.run("status")
    assert (status.code, status.out.splitlines()[0]) == (0, f"pod/{POD}  succeeded: the pod has succeeded")
    for follow in ((), ("-f",)):
        logs = package.run("logs", *follow)
        assert (logs.code, logs.out) == (7, "")
        assert re.search(rf'error: the log of pod/{POD} cannot be read: .* cannot get resource "pods/log"', logs.err)
    listed = package.site.shell("mlpack status")
    assert listed.returncode == 0
    assert "mpijobs.kubeflow.org are not among these: " in listed.stderr
    assert f"pod/{POD}" in listed.stdout


@pytest.mark.thorough
@pytest.mark.alone
@pytest.mark.skipif("MLPACK_E2E_CONTEXT" in os.environ, reason="only the cluster of tests/testbed may be broken")
def test_logs_and_results_report_a_kubelet_that_does_not_answer(sleeper: Faulty) -> None:
    component("stop", "kubelet")
    try:
        for verb, *arguments in (("logs",), ("results", str(sleeper.site.folder / "here"), "--timeout=20s")):
            ran = sleeper.run(verb, *arguments)
            assert ran.code in (7, 8)
            assert re.search("does not answer|no answer from its kubelet|received from pod/", ran.err), ran.err
            assert ran.seconds < 30
    finally:
        component("start", "kubelet")
    sleeper.site.until(lambda: results(sleeper).code == 0, "the kubelet to be back", 60)


@pytest.mark.parametrize("overlay", ["multi-node", pytest.param("servers", marks=pytest.mark.thorough)])
def test_recorded_run_brings_back_results_on_an_emptydir(site: Site, overlay: str) -> None:
    package = faulty(site, "results", *kinds.SET, overlay=overlay)
    done = package.run("deploy", "--results", str(site.folder / "runs"))
    assert done.code == 0, done.err
    (record,) = (site.folder / "runs").glob("*/*")
    assert (record / "output/rank-0.txt").read_text() == "by rank 0\n"
    assert (record / "output/deep/rank-0.bin").stat().st_size == 300_000
    assert any("rank 0: wrote" in log.read_text() for log in record.glob("logs/*/*.log"))
    verdict = json.loads((record / "verdict.json").read_text())
    assert (verdict["phase"], verdict["missing"]) == ("succeeded", [])
    assert [answer["complete"] for answer in verdict["results"]] == [True]
    again = package.run("deploy", "--results", str(site.folder / "runs"))
    assert again.code == 9, again.err
    assert "has already run" in again.err

"""Tests of an mlops user's commands: deploy, status, logs, results, delete, history."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.faults import faulty
from tests.e2e.site import ENDS, thorough
from tests.e2e.storage import NodeFolder

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.site import Site

pytestmark = pytest.mark.usefixtures("mpi_image")

CLAIMED = r"\1persistentVolumeClaim: {claimName: results}"

BOTH = pytest.mark.parametrize("overlay", ["multi-node", thorough("single-node")])


@BOTH
def test_package_is_deployed_listed_and_deleted(site: Site, overlay: str) -> None:
    package = faulty(site, "none", overlay=overlay)
    deployed = package.run("deploy", "--follow")
    assert deployed.code == 0, deployed.err
    assert "rank 0: done" in deployed.out
    assert f"{package.workload} has succeeded" in deployed.err

    status = package.run("status", "-o", "json")
    assert status.code == 0
    assert json.loads(status.out)["phase"] == "succeeded"
    assert package.run("logs").out == deployed.out

    listed = json.loads(site.run(f"mlpack history {package.folder} -o json"))
    (only,) = listed["deployments"]
    assert only["digest"] == listed["digest"]
    assert only["ended"] == "succeeded"

    assert package.run("delete").code == 0
    assert site.left() == []
    assert package.run("status").code == 7
    assert package.run("delete").code == 0


def test_second_deploy_follows_a_job_deployed_with_no_wait(site: Site) -> None:
    package = faulty(site, "sleep:25")
    first = package.run("deploy", "--no-wait")
    assert first.code == 0
    assert first.seconds < 30
    assert not ENDS.intersection(site.conditions("fault-multi-node")), "it was waited for"
    uid = site.get("mpijob fault-multi-node")["metadata"]["uid"]
    second = package.run("deploy")
    assert second.code == 0, second.err
    assert "already exists and is up to date" in second.err
    assert site.get("mpijob fault-multi-node")["metadata"]["uid"] == uid


def test_deploy_exits_with_8_after_its_timeout_and_leaves_the_job_running(site: Site) -> None:
    package = faulty(site, "sleep:35", overlay="single-node")
    late = package.run("deploy", "--timeout", "12s")
    assert late.code == 8
    assert "follow it with `mlpack status" in late.err
    assert package.run("deploy").code == 0


@BOTH
def test_finished_job_runs_again_only_with_replace(site: Site, overlay: str) -> None:
    package = faulty(site, "none", overlay=overlay)
    assert package.run("deploy").code == 0
    uid = site.get(package.workload)["metadata"]["uid"]
    refused = package.run("deploy")
    assert refused.code == 9
    assert "a finished job does not run again" in refused.err
    assert "--replace" in refused.err
    assert site.get(package.workload)["metadata"]["uid"] == uid
    replaced = package.run("deploy", "--replace")
    assert replaced.code == 0, replaced.err
    assert site.get(package.workload)["metadata"]["uid"] != uid


@BOTH
def test_deploy_shows_changes_of_a_running_job_and_applies_them_only_with_replace(site: Site, overlay: str) -> None:
    package = faulty(site, "sleep:60", overlay=overlay)
    assert package.run("deploy", "--no-wait").code == 0
    package.edit("mlops.env", "FAULT=sleep:60", "FAULT=none")
    refused = package.run("deploy")
    assert refused.code == 9
    assert "data.FAULT: sleep:60 -> none" in refused.err
    assert site.get(f"configmap fault-env-{overlay}")["data"]["FAULT"] == "sleep:60"
    assert package.run("deploy", "--replace").code == 0


def test_ctrl_c_detaches_and_shows_how_to_follow_on(site: Site) -> None:
    package = faulty(site, "sleep:25", overlay="single-node")
    with package.running("deploy") as deploy:
        package.until_running()
        deploy.send_signal(signal.SIGINT)
        _, stderr = deploy.communicate(timeout=60)
    assert deploy.returncode == 130
    assert "detached" in stderr
    assert "follow it:  mlpack deploy" in stderr
    assert package.run("deploy").code == 0


def test_next_deploy_finishes_a_deploy_killed_at_any_moment(site: Site) -> None:
    package = faulty(site, "none", overlay="single-node")
    for delay in (0.4, 0.8, 1.2, 1.6, 2.4):
        with package.running("deploy"):
            time.sleep(delay)
        again = package.run("deploy", "--replace")
        assert again.code == 0, f"after {delay} s: {again.err}"
        package.delete()


def test_dry_runs_create_no_objects(site: Site) -> None:
    package = faulty(site, "none")
    for judge in ("client", "server"):
        listed = package.run("deploy", f"--dry-run={judge}", "-o", "name")
        assert listed.code == 0, listed.err
        assert "mpijob.kubeflow.org/fault-multi-node" in listed.out.split()
    assert site.left() == []


def test_logs_wait_for_a_pod_and_end_with_it(site: Site) -> None:
    package = faulty(site, "sleep:3")
    assert package.run("deploy", "--no-wait").code == 0
    followed = package.run("logs", "-f")
    assert followed.code == 0
    assert sorted(line for line in followed.out.splitlines() if "slept" in line) == ["rank 0: slept", "rank 1: slept"]


def test_status_watch_prints_json_until_the_job_has_ended(site: Site) -> None:
    package = faulty(site, "sleep:10")
    assert package.run("deploy", "--no-wait").code == 0
    watched = package.run("status", "--watch", "-o", "json")
    assert watched.code == 0, watched.err
    documents, rest = [], watched.out
    while rest.strip():
        document, end = json.JSONDecoder().raw_decode(rest.lstrip())
        documents.append(document)
        rest = rest.lstrip()[end:]
    assert {document["workload"] for document in documents} == {"mpijob/fault-multi-node"}
    assert "running" in [document["phase"] for document in documents]
    assert documents[-1]["phase"] == "succeeded"
    assert watched.err == ""


@BOTH
def test_results_on_an_emptydir_are_copied_only_while_the_job_runs(site: Site, overlay: str) -> None:
    package = faulty(site, "results-until-told", overlay=overlay)
    assert package.run("deploy", "--no-wait").code == 0
    package.until_running()
    here = site.folder / "results"
    site.until(lambda: package.run("results", str(here)).code == 0 and (here / "rank-0.txt").exists(), "results", 300)
    assert (here / "rank-0.txt").read_text() == "by rank 0\n"
    site.until(
        lambda: (package.run("results", str(here)), (here / "deep/rank-0.bin").stat().st_size == 300_000)[1], "all"
    )
    assert not (here / "link-out").exists()
    package.let_end()
    assert package.run("status", "--watch").code == 0
    gone = package.run("results", str(here))
    assert gone.code == 7
    assert "its results were deleted with its pods" in gone.err


CLAIM = """
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {name}}}
spec:
  capacity: {{storage: 1Gi}}
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  hostPath: {{path: {path}, type: Directory}}
  claimRef: {{namespace: {name}, name: results}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: results, namespace: {name}}}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  resources: {{requests: {{storage: 1Gi}}}}
"""


@pytest.mark.skipif("MLPACK_E2E_CONTEXT" in os.environ, reason="makes a volume out of a folder of the only node")
def test_results_on_a_claim_are_copied_after_the_end(site: Site, new_site: Callable[[str], Site]) -> None:
    folder = NodeFolder(new_site("privileged"), "/tmp")
    folder.run(f"mkdir -m 777 {folder.path}")
    name = site.namespace
    (site.folder / "claim.yaml").write_text(CLAIM.format(name=name, path=folder.path))
    try:
        site.run("kubectl apply -f claim.yaml")
        package = faulty(site, "results", overlay="single-node")
        package.edit("pod.yaml", r"(- name: output.*\n *)emptyDir: {}", CLAIMED)
        deployed = package.run("deploy", "--no-verify")
        assert deployed.code == 0, deployed.err
        assert "its results: mlpack results" in deployed.err
        here = site.folder / "results"
        read = package.run("results", str(here))
        assert read.code == 0, read.err
        assert (here / "rank-0.txt").read_text() == "by rank 0\n"
        assert (here / "deep/rank-0.bin").stat().st_size == 300_000
        site.until(lambda: site.get("pods")["items"][1:] == [], "the reader to be gone")
    finally:
        site.run(f"kubectl delete persistentvolume {name} --wait=false")
        folder.run(f"rm -r {folder.path}")


def test_two_simultaneous_deploys_of_a_package_succeed(site: Site) -> None:
    package = faulty(site, "sleep:20", overlay="single-node")
    with package.running("deploy") as one, package.running("deploy") as two:
        outputs = [process.communicate(timeout=90)[1] for process in (one, two)]
    assert (one.returncode, two.returncode) == (0, 0), outputs


def test_deploy_refuses_a_conflict_and_names_the_field_manager(site: Site) -> None:
    package = faulty(site, "none", overlay="single-node")
    site.run(f"kubectl apply --server-side --field-manager=bob -k {package.folder}/quickstart/k8s/mlops/single-node")
    site.run("kubectl delete pod fault-single-node")
    package.edit("mlops.env", "FAULT=none", "FAULT=exit:0")
    refused = package.run("deploy")
    assert refused.code == 7
    assert "bob has set .data.FAULT" in refused.err
    assert "--force-conflicts" in refused.err
    assert "pod/fault-single-node" not in site.left()
    assert package.run("deploy", "--force-conflicts").code == 0


def test_deploy_ends_when_another_user_deletes_the_pod(site: Site) -> None:
    package = faulty(site, "sleep:60", overlay="single-node")
    with package.running("deploy") as deploy:
        package.until_running()
        site.run("kubectl delete pod fault-single-node --wait --grace-period=1")
        _, stderr = deploy.communicate(timeout=60)
    assert deploy.returncode == 7
    assert "it was deleted" in stderr

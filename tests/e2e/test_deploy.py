"""Tests of an mlops user's commands: deploy, status, logs, results, delete."""

from __future__ import annotations

import json
import signal
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.e2e.faults import faulty
from tests.e2e.site import ENDS

if TYPE_CHECKING:
    from tests.e2e.site import Site

pytestmark = pytest.mark.usefixtures("mpi_image")


def test_verbs_follow_a_running_mpijob_which_runs_again_only_with_replace(site: Site) -> None:
    package = faulty(site, "results-until-told")
    first = package.run("deploy", "--no-wait")
    assert first.code == 0
    assert not ENDS.intersection(site.conditions("fault-multi-node")), "it was waited for"
    uid = site.get(package.workload)["metadata"]["uid"]
    following = (("deploy",), ("logs", "-f"), ("status", "--watch", "-o", "json"))
    with ExitStack() as stack:
        deploy, logs, status = (stack.enter_context(package.running(*verb)) for verb in following)
        package.until_workers_run()
        (only,) = json.loads(site.run("mlpack status -o json"))["deployments"]
        assert (only["package"], only["workload"]) == ("fault", package.workload)
        site.until_both_ranks_say("wrote")
        here = site.folder / "results"
        assert package.run("results", str(here)).code == 0
        assert (here / "rank-0.txt").read_text() == "by rank 0\n"
        assert (here / "deep/rank-0.bin").stat().st_size == 300_000
        assert not (here / "link-out").exists()
        package.let_end()
        (_, deploy_err), (log, _), (shown, status_err) = (
            process.communicate(timeout=120) for process in (deploy, logs, status)
        )
    assert (deploy.returncode, logs.returncode, status.returncode) == (0, 0, 0), deploy_err
    assert "already exists and is up to date" in deploy_err
    assert f"{package.workload} has succeeded" in deploy_err
    assert sorted(line for line in log.splitlines() if "wrote" in line) == ["rank 0: wrote", "rank 1: wrote"]
    assert package.run("logs").out == log
    documents = []
    while shown.strip():
        document, end = json.JSONDecoder().raw_decode(shown.lstrip())
        documents.append(document)
        shown = shown.lstrip()[end:]
    assert {document["workload"] for document in documents} == {package.workload}
    assert "running" in [document["phase"] for document in documents]
    assert (documents[-1]["phase"], status_err) == ("succeeded", "")

    gone = package.run("results", str(here))
    assert (gone.code, "its results were deleted then" in gone.err) == (7, True), gone.err
    refused = package.run("deploy")
    assert refused.code == 9
    assert "a finished job does not run again" in refused.err
    assert "--replace" in refused.err
    assert site.get(package.workload)["metadata"]["uid"] == uid
    package.edit("mlops.env", "FAULT=.*", "FAULT=none")
    replaced = package.run("deploy", "--replace")
    assert replaced.code == 0, replaced.err
    assert site.get(package.workload)["metadata"]["uid"] != uid
    package.delete()
    assert package.run("status").code == 7
    assert package.run("delete").code == 0


def test_wait_ends_with_its_timeout_or_ctrl_c_and_changes_need_replace(site: Site) -> None:
    """Dry runs come first. The pod runs on after both ends, and while a change is refused."""
    package = faulty(site, "sleep:120", overlay="single-node")
    for judge in ("client", "server"):
        listed = package.run("deploy", f"--dry-run={judge}", "-o", "name")
        assert listed.code == 0, listed.err
        assert "pod/fault-single-node" in listed.out.split()
    assert site.left() == []
    late = package.run("deploy", "--timeout", "12s")
    assert late.code == 8
    assert "follow it with `mlpack status" in late.err
    with package.running("deploy") as deploy:
        assert deploy.stderr
        assert "is up to date" in deploy.stderr.readline()
        time.sleep(5)
        deploy.send_signal(signal.SIGINT)
        _, stderr = deploy.communicate(timeout=60)
    assert deploy.returncode == 130
    assert "detached" in stderr
    assert "follow it:  mlpack deploy" in stderr
    package.edit("mlops.env", "FAULT=sleep:120", "FAULT=none")
    refused = package.run("deploy")
    assert refused.code == 9
    assert "already exists with a different spec" in refused.err
    assert site.get("configmap fault-env-single-node")["data"]["FAULT"] == "sleep:120"
    assert site.phase("fault-single-node") == "Running"
    assert package.run("deploy", "--replace").code == 0
    package.delete()


@pytest.mark.thorough
def test_next_deploy_finishes_a_deploy_killed_at_any_moment(site: Site) -> None:
    package = faulty(site, "none", overlay="single-node")
    for delay in (0.4, 0.8, 1.2, 1.6, 2.4):
        with package.running("deploy"):
            time.sleep(delay)
        again = package.run("deploy", "--replace")
        assert again.code == 0, f"after {delay} s: {again.err}"
        package.delete()


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

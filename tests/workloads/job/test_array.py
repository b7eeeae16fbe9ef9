"""A Job that runs its program once for each index: its verdicts, its pods by index, and its results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager.builder.plan import Options, plan
from packager.builder.render import render
from packager.diagnosis.diagnose import diagnose
from packager.kubernetes.snapshot import Snapshot
from packager.kubernetes.verdict import Phase, Verdict
from packager.modelspec.load import load
from packager.workloads.job.life import Job
from packager.workloads.structures import pods as pods_in
from packager.workloads.structures import reserved
from tests import demo, written
from tests.fake_cluster import item
from tests.life import ENDED_WITH_3, JOB
from tests.local_pod import write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome
    from tests.fake_cluster import Object
    from tests.life import Life

    Mlpack = Callable[..., Outcome]

WHERE = ("hello-mpi", "-n", "team")
KIND = Job()
SPEC = {"completionMode": "Indexed", "completions": 4, "parallelism": 2, "backoffLimit": 0}
DONE = {"terminated": {"exitCode": 0, "reason": "Completed"}}


def job(condition: str = "", spec: Object | None = None, **status: Any) -> Object:
    """Return the Job; `condition` is the type and the reason of the one that holds."""
    kind, _, reason = condition.partition(":")
    conditions = [{"type": kind, "status": "True", "reason": reason}] if kind else []
    metadata = {"creationTimestamp": "2026-11-21T00:00:00Z"}
    return item(
        "Job", JOB, metadata=metadata, spec={**SPEC, **(spec or {})}, status={"conditions": conditions, **status}
    )


def pod(index: int, state: Object | None = None, attempt: int = 0) -> Object:
    """Return a pod of an index, which runs when no other state is given."""
    phase = {None: "Running", 0: "Succeeded"}.get(state["terminated"]["exitCode"] if state else None, "Failed")
    metadata = {
        "labels": {"job-name": JOB},
        "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
        "ownerReferences": [{"kind": "Job", "name": JOB, "uid": f"Job-{JOB}"}],
        "creationTimestamp": f"2026-11-21T00:0{attempt}:0{index}Z",
    }
    containers = [{"name": "main", "image": "a:1", "state": state or {"running": {}}, "restartCount": 0}]
    status = {"phase": phase, "containerStatuses": containers}
    name = f"{JOB}-{index}-abcd{attempt}"
    return item("Pod", name, metadata=metadata, spec={"containers": [{"name": "main"}]}, status=status)


def judged(workload: Object, *pods: Object, events: tuple[Object, ...] = ()) -> Verdict:
    return diagnose(KIND, Snapshot(workload, (), pods, events, 30))


def test_array_is_in_manifest_and_readme(tmp_path: Path) -> None:
    overlay = "{kind: Pod} => {kind: Job, completions: 6, parallelism: 2, retries: 3}"
    loaded = load(demo.write(tmp_path, demo.changed(overlay)))
    entries = {entry.path: entry.content for entry in render(plan(loaded, loaded.spec.variants[0], Options())).entries}
    manifest = yaml.safe_load(entries["quickstart/k8s/mlops/single-node/job.yaml"])  # type: ignore[arg-type]
    assert {key: value for key, value in manifest["spec"].items() if key not in ("template", "podFailurePolicy")} == {
        "completions": 6,
        "parallelism": 2,
        "completionMode": "Indexed",
        "backoffLimit": 3,
    }
    readme = " ".join(entries["README.md"].decode().split())  # type: ignore[union-attr]
    assert (
        "It runs 6 times, 2 at a time, each in a pod of its own that finds its index, 0 to 5, in "
        "`JOB_COMPLETION_INDEX`. On storage that outlives the pods all of them write to the same `OUTPUT_DIR`. When "
        "one fails, it is started again, up to 3 times in all."
    ) in readme


def test_array_reports_number_of_finished_indexes() -> None:
    counts: Any
    for counts, summary in [
        ({}, "0 of 4 done"),
        ({"succeeded": 3, "active": 1}, "3 of 4 done"),
        ({"succeeded": 2, "failed": 1, "active": 2}, "2 of 4 done, 1 failed"),
    ]:
        assert judged(job(**counts), pod(0, DONE), pod(1)) == Verdict(Phase.RUNNING, summary)


def test_array_runs_while_any_pod_runs() -> None:
    waiting = pod(1)
    waiting["status"]["containerStatuses"][0]["state"] = {"waiting": {}}
    assert judged(job(), pod(0), waiting).phase is Phase.RUNNING
    assert judged(job(), waiting).phase is Phase.PENDING


def test_array_succeeds_when_all_indexes_succeed() -> None:
    verdict = judged(job("Complete:CompletionsReached", succeeded=4), *(pod(index, DONE) for index in range(4)))
    assert verdict == Verdict(Phase.SUCCEEDED, "all 4 indexes have succeeded")


def test_successful_array_reports_retried_index() -> None:
    pods = [pod(0, ENDED_WITH_3), pod(1, DONE), pod(0, DONE, attempt=1)]
    verdict = judged(job("Complete", {"backoffLimit": 1, "completions": 2}, succeeded=2, failed=1), *pods)
    assert (verdict.phase, verdict.summary) == (Phase.SUCCEEDED, "all 2 indexes have succeeded")
    assert [(finding.reason, finding.subject) for finding in verdict.findings] == [("Retried", f"pod/{JOB}-0-abcd0")]


def test_failed_array_names_failed_indexes() -> None:
    for pods, retries, summary in [
        ([pod(0, DONE), pod(3, ENDED_WITH_3)], 0, "index 3 has failed"),
        ([pod(1, ENDED_WITH_3), pod(2, ENDED_WITH_3)], 0, "indexes 1-2 have failed"),
        (
            [pod(1, ENDED_WITH_3), pod(1, ENDED_WITH_3, attempt=1)],
            1,
            "index 1 has failed, after 1 retry of all indexes together",
        ),
        ([pod(1, ENDED_WITH_3), pod(1, DONE, attempt=1)], 2, "one of its indexes has failed"),
        ([], 0, "one of its indexes has failed"),
    ]:
        verdict = judged(job("Failed:BackoffLimitExceeded", {"backoffLimit": retries}, failed=1 + retries), *pods)
        assert (verdict.phase, verdict.summary) == (Phase.FAILED, summary)


def test_array_reports_refused_pod_while_others_run() -> None:
    about = {"kind": "Job", "name": JOB, "uid": f"Job-{JOB}"}
    message = (
        'Error creating: pods "a" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1'
    )
    metadata = {"name": "event", "creationTimestamp": "2026-11-21T00:00:05Z"}
    event = {
        "type": "Warning",
        "reason": "FailedCreate",
        "message": message,
        "involvedObject": about,
        "metadata": metadata,
    }
    verdict = judged(job(active=1), pod(0), events=(event,))
    assert verdict.phase is Phase.RUNNING
    assert [finding.blocks for finding in verdict.findings] == [False]
    assert judged(job(active=0), events=(event,)).phase is Phase.STUCK


def test_pod_names_of_an_array_determine_roles() -> None:
    for job_name, pod_name, role in [
        ("a", "a-10-x2b4z", "main"),
        ("a", "a-x2b4z", "main"),
        ("a", "ab-1-x2b4z", None),
        ("a", "a-1-2-x2b4z", None),
        ("n" * 60, f"{'n' * 54}-12-x2b4z", "main"),
        ("n" * 60, f"{'n' * 60}-12-x2b4z", None),
    ]:
        assert KIND.role(job_name, pod_name) == role


def test_array_lists_last_pod_of_each_index_in_order() -> None:
    pods = [pod(2), pod(0, ENDED_WITH_3), pod(0, attempt=1)]
    assert [entry["metadata"]["name"] for entry in KIND.listed(pods)] == [f"{JOB}-0-abcd1", f"{JOB}-2-abcd0"]


MANIFEST = """\
apiVersion: batch/v1
kind: Job
metadata: {name: NAME}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: main}]}
"""


def test_pods_of_an_array_are_at_most_its_completions() -> None:
    for completions, count in [(1, 1), (3, 2)]:
        lines = f"  completionMode: Indexed\n  completions: {completions}\n  parallelism: 2\n"
        [manifest] = written.overlay(MANIFEST + lines).manifests
        assert [pods.count for pods in pods_in(manifest)] == [count]
        assert reserved(manifest, "JOB_COMPLETION_INDEX") == "Kubernetes sets it, to the pod's index"


@pytest.fixture
def array(life: Life) -> Life:
    """The made-up cluster, with an array of two running pods and one that has ended."""
    life.served["batch/v1"] = ["Job"]
    *rest, single = life.overlays["single-node"]
    metadata = {
        "name": JOB,
        "labels": {"app.kubernetes.io/managed-by": "mlpack", "app.kubernetes.io/name": "hello-mpi"},
    }
    spec = {**SPEC, "template": {"metadata": {}, "spec": single["spec"]}}
    life.overlays["multi-node"] = [*rest, {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}]
    life._make(life.overlays["multi-node"])
    life.objects += [pod(0, DONE), pod(1), pod(2)]
    life.logs = {f"{JOB}-{index}-abcd0": f"index {index}\n" for index in range(3)}
    return life


@pytest.mark.usefixtures("array")
def test_logs_select_pod_by_index(mlpack: Mlpack) -> None:
    assert mlpack("logs", *WHERE, "--worker", "1").stdout == "index 1\n"
    everything = [f"[{JOB}-{index}-abcd0] index {index}" for index in range(3)]
    assert mlpack("logs", *WHERE).stdout.splitlines() == everything
    assert mlpack("logs", *WHERE, "--all").stdout.splitlines() == everything
    none = mlpack("logs", *WHERE, "--worker", "3")
    assert (none.code, none.stdout) == (7, "")
    unknown = mlpack("logs", *WHERE, "--worker", "4")
    assert (unknown.code, unknown.stderr) == (2, "error: index 4 not found\nhint: there are 0 to 3\n")


def test_status_lists_the_indexes(mlpack: Mlpack, array: Life) -> None:
    array.find("Job", JOB)["status"] = {"succeeded": 1, "active": 2}
    answer = mlpack("status", *WHERE, "-o", "json").json
    assert answer["summary"] == "1 of 4 done"
    assert [entry["name"] for entry in answer["pods"]] == [f"{JOB}-{index}-abcd0" for index in range(3)]


def test_results_have_one_folder_per_index(mlpack: Mlpack, array: Life, tmp_path: Path) -> None:
    array.output = write(tmp_path / "pod", {"a.txt": b"hello"})
    done = mlpack("results", "hello-mpi", "out", "-n", "team")
    assert done.code == 0, done.stderr
    assert sorted(path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.txt")) == [
        "1/a.txt",
        "2/a.txt",
    ]
    assert "no results of the indexes that have ended: 0\n" in done.stderr

"""Tests of the use case `packager.cluster.sequence`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from packager.base.errors import UnansweredError, UnreachableError, UsageError
from packager.cluster.deploy import apply, delete_existing
from packager.cluster.sequence import NOT_RUN, Runnable, Task, open_tasks, run, task
from packager.cluster.target import Target
from packager.cluster.workload_watch import follow, verdicts
from packager.kubernetes.kubectl.client import Kubectl
from tests.life import JOB, POD, Life

SINGLE, MULTI = "single-node", "multi-node"


@pytest.fixture
def targets(life: Life, tmp_path: Path) -> Iterator[tuple[Target, ...]]:
    """The targets of the Pod and of the MPIJob of hello-mpi, in this order."""
    with opened(life, tmp_path / "hello-mpi", [SINGLE, MULTI]) as tasks:
        yield tasks


@contextmanager
def opened(life: Life, package: Path, names: Sequence[str] | None, **runnable: Any) -> Iterator[tuple[Target, ...]]:
    kubectl = Kubectl(namespace="team", runner=life)
    with open_tasks(
        Runnable(package, package, **runnable), names, kubectl, person="ann@desk", tell=pytest.fail
    ) as tasks:
        yield tasks


def execute(current: Task) -> Any:
    apply(delete_existing(current.prepared) if current.obstacles else current.prepared)
    *_, last = follow(current.target)
    return verdicts(current.target, last)


def test_run_starts_each_task_after_success_of_previous_task(targets: tuple[Target, ...], life: Life) -> None:
    seen = []

    def end() -> None:
        seen.append([item["kind"] for item in life.objects if item["kind"] in ("Pod", "MPIJob")])
        life.end_pod()

    life.moments = [end, life.start, life.end]
    results = list(run(targets, execute))
    assert [(result.task, result.phase) for result in results] == [(SINGLE, "succeeded"), (MULTI, "succeeded")]
    assert seen == [["Pod"]]
    answer = results[1].as_json()
    assert answer["started"] <= answer["ended"]
    assert {**answer, "started": None, "ended": None} == {
        "task": MULTI,
        "workload": f"mpijob/{JOB}",
        "phase": "succeeded",
        "summary": answer["summary"],
        "skipped": False,
        "findings": [],
        "started": None,
        "ended": None,
    }


def test_task_does_not_treat_failed_job_of_other_person_as_failed(targets: tuple[Target, ...], life: Life) -> None:
    life.moments = [lambda: life.end_pod("Failed")]
    list(run(targets[:1], execute))
    assert task(targets[0]).has_failed
    life.find("Pod", POD)["metadata"]["annotations"]["mlpack/deployed-by"] = "bob@desk"
    assert not task(targets[0]).has_failed


def test_run_reports_refused_apply_as_failure(targets: tuple[Target, ...], life: Life) -> None:
    life.refused_once = {"apply": 'Error from server (Forbidden): pods "x" is forbidden: exceeded quota: q'}
    first, second = run(targets, execute)
    assert (first.phase, second.phase) == ("failed", NOT_RUN)
    assert "quota" in str(first.error)


def test_run_reports_unanswered_question_as_failure(targets: tuple[Target, ...]) -> None:
    def refuse(_task: Task) -> Any:
        raise UnansweredError("it is in the way")

    first, second = run(targets, refuse)
    assert (first.summary, second.phase) == ("it is in the way", NOT_RUN)


def test_run_ends_when_cluster_does_not_answer(targets: tuple[Target, ...], life: Life) -> None:
    life.go_silent()
    with pytest.raises(UnreachableError):
        list(run(targets, execute))


def test_open_tasks_selects_tasks_by_name_sequence_or_default(life: Life, tmp_path: Path) -> None:
    package = tmp_path / "hello-mpi"

    def names(requested: Sequence[str] | None, **runnable: Any) -> list[str]:
        with opened(life, package, requested, **runnable) as tasks:
            return [target.overlay for target in tasks]

    assert names(None) == [MULTI]
    assert names([SINGLE, MULTI]) == [SINGLE, MULTI]
    assert names(["single_node"], is_cube=True) == [SINGLE]
    for requested, is_cube, message, hint in (
        (["single"], False, f"{package} has no task 'single'; it has: {MULTI}, {SINGLE}", f"did you mean {SINGLE!r}?"),
        ([SINGLE, SINGLE], False, f"the task {SINGLE!r} is listed twice", "run it again when it has ended"),
        (None, True, f"{package} has several tasks: {MULTI}, {SINGLE}", "--task A,B runs A, and then B"),
    ):
        with pytest.raises(UsageError) as refused:
            names(requested, is_cube=is_cube)
        assert (str(refused.value), refused.value.hint) == (message, hint)
    inventory = (package / "manifest.json").read_text()
    sequence = f'"sequence": ["{SINGLE}", "{MULTI}"], "files"'
    (package / "manifest.json").write_text(inventory.replace('"files"', sequence, 1))
    assert names(None) == [SINGLE, MULTI]

"""Tests of `mlpack lint`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Mlpack = Callable[..., Outcome]


def test_lint_lists_problems_as_text_and_json(mlpack: Mlpack, specs: Path) -> None:
    assert mlpack("lint", "demo", "--specs", specs).stdout == ""
    done = mlpack("lint", f"{specs}/wrong", f"{specs}/absent.yaml", "hello-mpi")
    assert done.code == 3
    assert done.stdout.splitlines() == [
        (
            f"{specs}/wrong/spec.yaml:7:23: expected Pod, Job, MPIJob, JobSet, Deployment or "
            "LeaderWorkerSet, found 'Pood' "
            "(did you mean 'Pod'?)"
        ),
        f"{specs}/absent.yaml: no such file or directory",
    ]
    note = "note: multi-node: that the program uses MPI is not checked: without it, each rank works alone\n"
    assert done.stderr == f"{note}2 problems\n"
    assert mlpack("lint", "./absent.yaml").stdout == "absent.yaml: no such file or directory\n"
    answer = mlpack("lint", f"{specs}/wrong", f"{specs}/absent.yaml", "-o", "json").json
    assert (answer["valid"], answer["exit_code"]) == (False, 3)
    (problem, _) = answer["problems"]
    assert problem == {
        "file": f"{specs}/wrong/spec.yaml",
        "line": 7,
        "column": 23,
        "message": "expected Pod, Job, MPIJob, JobSet, Deployment or LeaderWorkerSet, found 'Pood'",
        "hint": "did you mean 'Pod'?",
    }

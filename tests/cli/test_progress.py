"""The lines that a command prints while it waits."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from packager.cli.watching import Lines
from packager.kubernetes.verdict import Finding, Phase, Verdict

if TYPE_CHECKING:
    import pytest

CRASHED = Finding("Error", "pod/a", "container init ended with exit code 1", blocks=False, log=("no model", "in /x"))


def test_last_lines_of_a_container_are_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    target = SimpleNamespace(shown="job/a", kubectl=SimpleNamespace(runner=SimpleNamespace(clock=lambda: 0.0)))
    target.per_workload = (target,)
    lines = Lines(cast("Any", target))
    for finding in (
        CRASHED,
        replace(CRASHED, message="container init ended with exit code 1; started again, once so far"),
    ):
        verdict = Verdict(Phase.PENDING, "pods: 1 starting", (finding,))
        lines.show(
            cast("Any", SimpleNamespace(silence=0, verdict=verdict, per_workload=False, index=0, is_last=False)),
            None,
        )
    assert capsys.readouterr().err.splitlines() == [
        "00:00  pending: pods: 1 starting",
        "00:00  pod/a: container init ended with exit code 1",
        "  | no model",
        "  | in /x",
        "00:00  pod/a: container init ended with exit code 1; started again, once so far",
    ]

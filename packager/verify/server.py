"""Checks an overlay with a server-side dry run on a cluster, which changes nothing. Tests: verify/test_verify.py."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base import workfolder
from packager.base.problems import Problem
from packager.kubernetes.kubectl import KLOG
from packager.kubernetes.kubectl.refusals import could_not_evaluate

if TYPE_CHECKING:
    from packager.kubernetes.kubectl.client import Kubectl
    from packager.package.opened import Package
    from packager.rendering.render import Outcome

_SECONDS = 120.0


def check(package: Package, outcome: Outcome, kubectl: Kubectl) -> tuple[list[Problem], list[str]]:
    """Return the problems that the cluster reports, and the reasons if it could not check the overlay.

    Raises:
        ToolError: kubectl is missing or timed out.
    """
    assert outcome.overlay
    name = outcome.overlay.name
    with workfolder.temporary() as folder:
        file = folder / "manifests.yaml"
        file.write_text(outcome.rendered, encoding="utf-8")
        done = kubectl.run("apply", f"--filename={file}", "--dry-run=server", "--validate=strict", timeout=_SECONDS)
    problems: list[Problem] = []
    unchecked: list[str] = []
    for line in done.stderr.splitlines():
        answer = KLOG.sub("", line).strip()
        if not answer or (answer.startswith(("* ", "resource mapping not found")) and not could_not_evaluate(answer)):
            continue
        if answer.startswith("Warning:"):
            problems.append(_placed(outcome, answer))
        elif could_not_evaluate(answer):
            unchecked.append(f"the cluster could not check {name}: {kubectl.meaning(answer)}")
        else:
            problems.append(_placed(outcome, answer.removeprefix("error: ").replace(str(file), str(package.source))))
    if done.returncode != 0 and not problems and not unchecked:
        unchecked.append(f"the cluster could not check {name}: kubectl ended with {done.returncode} and no message")
    return problems, unchecked


def _placed(outcome: Outcome, answer: str) -> Problem:
    """Return a finding at the field that the API server's answer names, if the manifest has it."""
    assert outcome.overlay
    message = f"the cluster says: {answer}"
    for manifest in outcome.overlay.manifests:
        if manifest.name and f'"{manifest.name}"' in answer and manifest.kind.lower() in answer.lower():
            field = re.search(r"((?:spec|metadata|data)[.\[][\w.\[\]/-]+)", answer)
            steps = [] if field is None else re.findall(r"[\w/-]+", field[1])
            location = tuple(int(step) if step.isdecimal() else step for step in steps)
            problem = outcome.overlay.problem(manifest, location, answer)
            return Problem(problem.file, problem.line, problem.column, message)
    return Problem(*outcome.sources.start, message)

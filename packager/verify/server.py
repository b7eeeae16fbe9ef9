"""Checks an overlay with a server-side dry run on a cluster, which changes nothing. Tests: verify/test_verify.py."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base import workfolder
from packager.base.errors import ToolError
from packager.base.problems import Problem
from packager.kubernetes.kubectl import KLOG
from packager.kubernetes.kubectl.refusals import could_not_evaluate, error_from
from packager.verify.case import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.kubernetes.kubectl.client import Kubectl
    from packager.rendering.overlay import RenderedOverlay
    from packager.verify.case import OverlayCase

_SECONDS = 120.0


def check(case: OverlayCase, kubectl: Kubectl) -> Iterator[Finding]:
    """Yield the problems that the cluster reports, and the reasons if it could not check the overlay."""
    source, found = str(case.case.package.source), False
    unchecked = f"the cluster could not check {case.overlay.name}:"
    with workfolder.temporary() as folder:
        file = folder / "manifests.yaml"
        file.write_text(case.rendered, encoding="utf-8")
        arguments = ("apply", f"--filename={file}", "--dry-run=server", "--validate=strict")
        try:
            done = kubectl.run(*arguments, timeout=_SECONDS)
        except ToolError as error:
            yield Finding("unchecked", f"{unchecked} {error}")
            return
    for line in done.stderr.splitlines():
        answer = KLOG.sub("", line).strip()
        if not answer or (answer.startswith(("* ", "resource mapping not found")) and not could_not_evaluate(answer)):
            continue
        found = True
        if could_not_evaluate(answer) and not answer.startswith("Warning:"):
            yield Finding("unchecked", f"{unchecked} {error_from(answer)}")
        else:
            answer = answer.removeprefix("error: ").replace(str(file), source)
            yield Finding("problem", _placed(case.overlay, answer))
    if done.returncode != 0 and not found:
        yield Finding("unchecked", f"{unchecked} kubectl ended with {done.returncode} and no message")


def _placed(overlay: RenderedOverlay, answer: str) -> Problem:
    """Return a finding at the field that the API server's answer names, if the manifest has it."""
    message = f"the cluster says: {answer}"
    for manifest in overlay.manifests:
        if manifest.name and f'"{manifest.name}"' in answer and manifest.kind.lower() in answer.lower():
            field = re.search(r"((?:spec|metadata|data)[.\[][\w.\[\]/-]+)", answer)
            steps = [] if field is None else re.findall(r"[\w/-]+", field[1])
            location = tuple(int(step) if step.isdecimal() else step for step in steps)
            problem = overlay.problem(manifest, location, answer)
            return Problem(problem.file, problem.line, problem.column, message)
    return Problem(*overlay.sources.start, message)

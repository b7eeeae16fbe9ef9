"""What a cluster says to an overlay, asked by a server-side dry run, which changes nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.problems import Problem

if TYPE_CHECKING:
    from packager.cluster.client import Kubectl
    from packager.package import Package
    from packager.verify.rendering import Outcome

_SECONDS = 120.0

# What keeps the cluster from judging the package: no way to it, no permission, nothing that serves the kind.
_CANNOT_SAY = re.compile(
    r"connection refused|unable to connect|was refused|i/o timeout|no such host|tls handshake timeout|deadline exceeded"
    r"|must be logged in|unauthorized|is forbidden: user|no configuration has been provided|invalid configuration"
    r'|context "[^"]*" does not exist|namespaces? "[^"]*" not found|no matches for kind|no such file or directory'
    r"|connection reset|unexpected eof|service ?unavailable|ensure crds are installed",
    re.IGNORECASE,
)
_NOISE = re.compile(r"^[EWI]\d{4} [\d:.]+ +\d+ [^]]+\] ")


def check(package: Package, outcome: Outcome, kubectl: Kubectl) -> tuple[list[Problem], list[str]]:
    """Return what the cluster has against the overlay, and why it could not say when it could not.

    Raises:
        ToolError: kubectl is missing, or did not end.
    """
    assert outcome.overlay
    name = outcome.overlay.name
    folder = str(package.overlay(name))
    done = kubectl.run("apply", "-k", folder, "--dry-run=server", "--validate=strict", timeout=_SECONDS)
    problems: list[Problem] = []
    unchecked: list[str] = []
    for line in done.stderr.splitlines():
        said = _NOISE.sub("", line).strip()
        if not said or (said.startswith(("* ", "resource mapping not found")) and not _CANNOT_SAY.search(said)):
            continue
        if said.startswith("Warning:"):
            problems.append(_placed(outcome, said))
        elif _CANNOT_SAY.search(said):
            unchecked.append(f"the cluster could not judge {name}: {said.removeprefix('error: ')}")
        else:
            problems.append(_placed(outcome, said.removeprefix("error: ").replace(folder, str(package.source))))
    if done.returncode != 0 and not problems and not unchecked:
        unchecked.append(f"the cluster could not judge {name}: kubectl ended with {done.returncode} and no word")
    return problems, unchecked


def _placed(outcome: Outcome, said: str) -> Problem:
    """Return a finding that points at the field that the API server names, when it names one that is there."""
    assert outcome.overlay
    message = f"the cluster says: {said}"
    for manifest in outcome.overlay.manifests:
        if manifest.name and f'"{manifest.name}"' in said and manifest.kind.lower() in said.lower():
            field = re.search(r"((?:spec|metadata|data)[.\[][\w.\[\]/-]+)", said)
            steps = [] if field is None else re.findall(r"[\w/-]+", field[1])
            location = tuple(int(step) if step.isdecimal() else step for step in steps)
            problem = outcome.overlay.problem(manifest, location, said)
            return Problem(problem.file, problem.line, problem.column, message)
    return Problem(*outcome.sources.start, message)

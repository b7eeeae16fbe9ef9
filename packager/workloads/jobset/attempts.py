"""Determines the role and attempt of each pod of a JobSet, and which pod failed first. Pure.

When one pod fails, its Job deletes the Job's other pods, JobSet deletes its other Jobs, and pods that still run fail
because the first is gone. So the cause is in the pod that failed first.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from packager.kubernetes.objects import annotation, created, labels, name, status
from packager.kubernetes.pods import failure
from packager.kubernetes.stopped import ended_at, stopped
from packager.workloads.indexed import ANNOTATION
from packager.workloads.jobset.structure import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot
    from packager.kubernetes.verdict import Finding

JOBSET = "jobset.sigs.k8s.io/jobset-name"
ROLE = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_INDEX = "jobset.sigs.k8s.io/job-index"
ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"

MAIN = "mlpack/main"
"""The annotation of the role whose first pod is the default pod of commands."""


_CONSEQUENCE = re.compile(
    r"connection (was )?(reset|closed|refused|aborted|lost)|connection(reset|refused)?error|broken ?pipe"
    r"|socket (timeout|closed)",
    re.IGNORECASE,
)
"""What a program says whose neighbour is gone."""

_REACTION = timedelta(seconds=10)
"""How long after the first pod's failure others end because of it."""

NEVER = datetime.max.replace(tzinfo=UTC)
"""When something happens that does not: it comes after everything that does."""


def attempt(pod: Object) -> int:
    """Return which attempt of the set a pod belongs to, from 0."""
    return _number(labels(pod).get(ATTEMPT))


def who(pod: Object) -> str:
    """Return the name of a pod for users: node 1."""
    job = _number(labels(pod).get(JOB_INDEX))
    return f"{labels(pod).get(ROLE, 'pod')} {f'{job}-' if job else ''}{_number(annotation(pod, ANNOTATION))}"


def current(pods: Sequence[Object]) -> list[Object]:
    """Return the pods of the last attempt, the newest of each index; those of the role that leads come first."""
    last = max(map(attempt, pods), default=0)
    newest: dict[tuple[bool, str, int, int], Object] = {}
    for pod in sorted((pod for pod in pods if attempt(pod) == last), key=created):
        role, job = labels(pod).get(ROLE, ""), _number(labels(pod).get(JOB_INDEX))
        newest[annotation(pod, MAIN) != "true", role, job, _number(annotation(pod, ANNOTATION))] = pod
    return [newest[place] for place in sorted(newest)]


def computes(pod: Object) -> bool:
    """Whether the model runs in a pod."""
    return annotation(pod, OPTIONS) is None


def failures(snapshot: Snapshot) -> list[tuple[Object, Finding]]:
    """Return the pods of the last attempt that have failed by themselves, the one first that the others failed for.

    That is the one that ended first. A pod's end is known to the second, and a program that notices at once that
    another one is gone may end before that: so, of those that end within seconds, one that says that it has lost a
    connection comes after one that does not.
    """
    failed = [
        (pod, finding)
        for pod in current(snapshot.pods)
        if status(pod).get("phase") == "Failed" and not stopped(pod, snapshot) and (finding := failure(pod))
    ]
    first = min((ended_at(pod) or NEVER for pod, _ in failed), default=NEVER)

    def order(entry: tuple[Object, Finding]) -> tuple[bool, bool, datetime, str]:
        pod, finding = entry
        end = ended_at(pod) or NEVER
        is_consequence = any(_CONSEQUENCE.search(line) for line in finding.log)
        return end - first > _REACTION, is_consequence, end, name(pod)

    return sorted(failed, key=order)


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0

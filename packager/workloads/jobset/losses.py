"""Finds the pods of a JobSet that were deleted from outside and so made it fail. Pure.

The Job counts a deleted pod as failed and deletes the others; for those it writes events.

Tests: workloads/jobset/test_life.py.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from packager.kubernetes.objects import (
    created,
    is_being_deleted,
    labels,
    last_seen,
    moment,
    name,
    owners,
    sentence,
    uid,
)
from packager.kubernetes.remedy import RUN_AGAIN
from packager.kubernetes.stopped import DELETED, ended_at, stop_requested_at, stopped
from packager.kubernetes.verdict import Finding
from packager.workloads.jobset.attempts import NEVER, ROLE, current, failures, who

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot

# The name of an Indexed Job's pod (pkg/controller/job/indexed_job_utils.go).
_POD = re.compile(r"(?P<job>.+)-(?P<index>[0-9]+)-[a-z0-9]{5}")


def lost(snapshot: Snapshot, jobs: Sequence[Object]) -> list[Finding]:
    """Return the pods that were told to stop before any had failed, except by the Job itself; the first one first.

    The programs of other pods end by themselves when one is told to stop, often before it has ended: such a failure
    is a consequence.
    """
    ends = [ended_at(pod) for pod, _ in failures(snapshot)]
    if None in ends:
        return []
    first_end = min(filter(None, ends), default=NEVER)
    cleaned = {sentence(event).rpartition(" ")[2] for job in jobs for event in snapshot.about(job, "SuccessfulDelete")}
    failing = set(map(uid, jobs))
    going = [pod for pod in current(snapshot.pods) if owners(pod) & failing and name(pod) not in cleaned]
    if first_end != NEVER:
        going = [pod for pod in going if (stop_requested_at(pod) or NEVER) < first_end]
    going.sort(key=lambda pod: stop_requested_at(pod) or NEVER)
    findings = [
        replace(finding, message=f"{who(pod)}: {finding.message}")
        for pod in going
        if (finding := stopped(pod, snapshot))
    ]
    return findings or list(_gone(snapshot, jobs, cleaned, first_end))


def _gone(snapshot: Snapshot, jobs: Sequence[Object], cleaned: set[str], first_end: datetime) -> Iterator[Finding]:
    """Yield the first pod of these Jobs that was deleted, and not replaced, before the first failure.

    A kubelet reports Killing only for running pods. The Jobs of an earlier attempt had the same names.
    """
    living = [pod for pod in snapshot.pods if not is_being_deleted(pod)]
    replaced = {name(pod).rpartition("-")[0] for pod in living}
    named = {name(job): job for job in jobs}
    for event in sorted(snapshot.events, key=last_seen):
        about, when = event["involvedObject"], moment(last_seen(event))
        is_kill = event.get("reason") == "Killing" and sentence(event).startswith("Stopping container ")
        pod = _POD.fullmatch(about["name"]) if about.get("kind") == "Pod" else None
        job = named.get(pod["job"]) if pod else None
        if pod is None or job is None or not is_kill or about["name"] in cleaned:
            continue
        if created(job) <= when < first_end and about["name"].rpartition("-")[0] not in replaced:
            message = f"{labels(job).get(ROLE, 'pod')} {pod['index']}: it was deleted, which stopped it"
            yield Finding(DELETED, f"pod/{about['name']}", message, RUN_AGAIN, blocks=False)
            return

"""Finds pods that a workload lost before it ended, from pod status and events. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from packager.kubernetes.objects import created, last_seen, moment, name, sentence, status, uid
from packager.kubernetes.pods import CAUSES, failure
from packager.kubernetes.remedy import RUN_AGAIN
from packager.kubernetes.stopped import (
    DELETED,
    deletion_cause,
    ended_at,
    started_at,
    stop_requested_at,
    stopped,
)
from packager.kubernetes.verdict import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot
    from packager.workloads.workload import Workload

LOST = "WorkerLost"

VANISHED = "Vanished"
"""A main pod that was deleted before its end was seen: it may have succeeded."""


def losses(kind: Workload, snapshot: Snapshot) -> list[Finding]:
    """Return the pods that were stopped before the workload had ended: the main pod, or lost workers."""
    main = kind.main(snapshot.pods)
    if main is None:
        gone = _main_gone(kind, snapshot)
        return [gone] if gone else []
    failed = failure(main)
    if failed and status(main).get("reason") not in (None, "DeadlineExceeded"):
        return [failed]  # its node says so, and why
    if finding := stopped(main, snapshot):
        return [replace(finding, log=failed.log if failed else ())]
    return list(worker_losses(kind, snapshot, main))


def worker_losses(kind: Workload, snapshot: Snapshot, main: Object) -> Iterator[Finding]:
    """Yield the workers that were stopped while the main pod ran; after that, controllers delete them anyway."""
    for worker in kind.workers(snapshot.pods):
        stop_requested = stop_requested_at(worker)
        finding = stopped(worker, snapshot)
        if finding and stop_requested and _is_meanwhile(stop_requested, main, snapshot):
            yield replace(finding, reason=LOST, message=f"{finding.message} while the job was running")
    for event in _killed(snapshot):
        pod = event["involvedObject"]["name"]
        if kind.role(name(snapshot.workload), pod) == "worker" and _is_meanwhile(_time(event), main, snapshot):
            yield Finding(
                LOST,
                f"pod/{pod}",
                f"{_cause(snapshot, event)}, which stopped it while the job was running",
                RUN_AGAIN,
                blocks=False,
            )


def _is_meanwhile(when: datetime, main: Object, snapshot: Snapshot) -> bool:
    """Whether something happened while the last main pod ran, before its controller began to clean up after that."""
    completed = status(snapshot.workload).get("completionTime")
    begin, end = started_at(main), ended_at(main)
    if begin is None or when < begin or (completed and when >= moment(completed)):
        return False
    return end is None or when < end or (completed is not None and when == end)


def _main_gone(kind: Workload, snapshot: Snapshot) -> Finding | None:
    """Return the cause that stopped the deleted last main pod; a kubelet reports Killing only for running pods."""
    workload = name(snapshot.workload)
    makers = (snapshot.workload, *snapshot.children)
    made = [event for maker in makers for event in snapshot.about(maker, "SuccessfulCreate")]
    last = sentence(made[-1]).rpartition(" ")[2] if made else None
    for event in _killed(snapshot):
        pod = event["involvedObject"]["name"]
        if kind.role(workload, pod) == "main" and pod == (last or pod):
            return Finding(
                DELETED,
                f"pod/{pod}",
                f"{_cause(snapshot, event)}, which stopped it",
                RUN_AGAIN,
                blocks=False,
            )
    return None


def _killed(snapshot: Snapshot) -> list[Object]:
    """Return the Killing events of kubelets about pods that no longer exist: one per pod, the newest first."""
    pod_uids = {uid(pod) for pod in snapshot.pods}
    begin = created(snapshot.workload)
    killed = {}
    for event in sorted(snapshot.events, key=last_seen):
        about = event["involvedObject"]
        is_kill = event.get("reason") == "Killing" and sentence(event).startswith("Stopping container ")
        if is_kill and about.get("kind") == "Pod" and about.get("uid") not in pod_uids and _time(event) > begin:
            killed[about.get("uid")] = event
    return list(reversed(killed.values()))


def _time(event: Object) -> datetime:
    return moment(last_seen(event))


def _cause(snapshot: Snapshot, killed: Object) -> str:
    pod = killed["involvedObject"].get("uid")
    for event in snapshot.events:
        if event["involvedObject"].get("uid") == pod and event.get("reason") in CAUSES:
            return CAUSES[event["reason"]]
    return deletion_cause({"metadata": {"uid": pod}}, snapshot)

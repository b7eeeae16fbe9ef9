"""Determines the role and attempt of each pod of a JobSet, and which pod failed first. Pure.

When one pod fails, its Job deletes the Job's other pods, JobSet deletes its other Jobs, and pods that still run fail
because the first is gone. So the cause is in the pod that failed first. That need not be the one that ends first: a
program that has raised an error may take longer to end than one that loses its connection to it.

Tests: workloads/jobset/test_life.py.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from packager.kubernetes.objects import (
    annotation,
    created,
    is_being_deleted,
    labels,
    last_seen,
    main_state,
    moment,
    name,
    owners,
    sentence,
    shown,
    status,
    uid,
)
from packager.kubernetes.pods import DELETED, ended_at, failure, stop_requested_at, stopped
from packager.kubernetes.remedy import RUN_AGAIN
from packager.kubernetes.verdict import Finding
from packager.workloads.jobset.structure import OPTIONS
from packager.workloads.program import INDEX_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot


JOBSET = "jobset.sigs.k8s.io/jobset-name"
ROLE = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_INDEX = "jobset.sigs.k8s.io/job-index"
ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"

MAIN = "mlpack/main"
"""The annotation of the role whose first pod is the default pod of commands."""

CAUSE_LINES = 60
"""How much of the log of a pod that failed counts: torchrun puts a traceback and a table, forty lines, below the
program's own traceback."""

_CONSEQUENCE = re.compile(
    r"connection (was )?(reset|closed|refused|aborted|lost)|connection(reset|refused)?error|broken ?pipe"
    r"|socket (timeout|closed)",
    re.IGNORECASE,
)
"""The messages of a program whose connection to another one broke."""

_TRACEBACK = "Traceback (most recent call last):"

_RANK = re.compile(r"\[rank\d+\]: ")
"""The beginning of each line of a traceback in PyTorch 2 (_distributed_excepthook of distributed_c10d.py)."""

_REPORT = re.compile(
    r"((ERROR|WARNING):|\[[\d:, -]+\] )torch\.distributed\.elastic\.|[EW]\d{4} .* torch/distributed/elastic/"
)
"""The first line of torchrun's report on a process that has failed, in PyTorch 1 and in PyTorch 2."""

_NOTICED = re.compile(r" +time +: (\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d)")
"""When torchrun noticed that a process had failed; the last one in its table is the first process."""

_SIGNALLED = re.compile(r"([\w.]+\.)?(SignalException|KeyboardInterrupt|SystemExit)\b")
"""The exceptions of Python in a program that was told to stop (torch/distributed/elastic/multiprocessing/api.py)."""

_REACTION = timedelta(seconds=10)
"""The time after the first pod's failure in which others end because of it."""

NEVER = datetime.max.replace(tzinfo=UTC)
"""When something happens that does not: it comes after everything that does."""


def attempt(pod: Object) -> int:
    """Return the number of the attempt, from 0, that a pod belongs to."""
    return _number(labels(pod).get(ATTEMPT))


def who(pod: Object) -> str:
    """Return the name of a pod for users: node 1."""
    job = _number(labels(pod).get(JOB_INDEX))
    return f"{labels(pod).get(ROLE, 'pod')} {f'{job}-' if job else ''}{_number(annotation(pod, INDEX_ANNOTATION))}"


def current(pods: Sequence[Object]) -> list[Object]:
    """Return the pods of the last attempt, the newest per index, with those of the leading role first."""
    last = max(map(attempt, pods), default=0)
    newest: dict[tuple[bool, str, int, int], Object] = {}
    for pod in sorted((pod for pod in pods if attempt(pod) == last), key=created):
        role, job = labels(pod).get(ROLE, ""), _number(labels(pod).get(JOB_INDEX))
        newest[annotation(pod, MAIN) != "true", role, job, _number(annotation(pod, INDEX_ANNOTATION))] = pod
    return [newest[place] for place in sorted(newest)]


def is_first(pod: Object) -> bool:
    """Whether a pod is the first of its role: its Job and it have the index 0."""
    return _number(labels(pod).get(JOB_INDEX)) == _number(annotation(pod, INDEX_ANNOTATION)) == 0


def computes(pod: Object) -> bool:
    """Whether the model runs in a pod."""
    return annotation(pod, OPTIONS) is None


def failures(snapshot: Snapshot) -> list[tuple[Object, Finding]]:
    """Return the pods of the last attempt that have failed by themselves, the one first that the others failed for.

    That is the one that ended first. A pod's end is known to the second, and a program that notices at once that
    another one is gone may end before that: so, of those that end within seconds, one that says that it has lost a
    connection comes after one that does not. If all of them say so, a pod is the cause that has raised another error
    and was stopped before it had ended. Where the logs were not read in time, the end of torchrun's report says when it
    noticed the failure of the program, after which it takes seconds to end itself.
    """
    pods = current(snapshot.pods)
    failed = [
        (pod, replace(finding, log=kept_lines(snapshot, pod)[-CAUSE_LINES:] or finding.log))
        for pod in pods
        if not stopped(pod, snapshot) and (finding := _failure(pod))
    ]
    first = min((ended_at(pod) or NEVER for pod, _ in failed), default=NEVER)
    are_noticed = all(_noticed_at(finding) for _, finding in failed)

    def order(entry: tuple[Object, Finding]) -> tuple[bool, bool, str, datetime, str]:
        pod, finding = entry
        end = ended_at(pod) or NEVER
        noticed = _noticed_at(finding) if are_noticed else ""
        return end - first > _REACTION, _has_lost_another(finding), noticed, end, name(pod)

    if failed and all(_has_lost_another(finding) for _, finding in failed):
        ended = {uid(pod) for pod, _ in failed}
        last, living = max(map(attempt, pods), default=0), set(map(uid, pods))
        gone = [log.pod for log in snapshot.logs if attempt(log.pod) == last and uid(log.pod) not in living]
        candidates = current([*pods, *gone])  # those that were deleted, but whose logs were kept, too
        failed += [(pod, raised) for pod in candidates if uid(pod) not in ended and (raised := _raised(snapshot, pod))]
        return sorted(failed, key=lambda entry: (uid(entry[0]) in ended, order(entry)))
    return sorted(failed, key=order)


def _failure(pod: Object) -> Finding | None:
    """Return why a pod has failed, or is about to: a kubelet says first that the container has ended, and then the pod.

    JobSet may delete the pod in between.
    """
    has_failed = bool((main_state(pod).get("terminated") or {}).get("exitCode"))
    if status(pod).get("phase") == "Running" and pod["spec"].get("restartPolicy") == "Never" and has_failed:
        return failure({**pod, "status": {**status(pod), "phase": "Failed"}})
    return failure(pod)


def _noticed_at(finding: Finding) -> str:
    """Return when torchrun noticed the failure, by its pod's clock, as text that sorts; empty if it does not say."""
    times = [match[1] for line in finding.log if (match := _NOTICED.match(line))]
    return times[-1] if times else ""


def kept_lines(snapshot: Snapshot, pod: Object) -> tuple[str, ...]:
    """Return the last lines of the pod's log, if they were read in time; otherwise nothing."""
    return next((log.lines for log in snapshot.logs if uid(log.pod) == uid(pod)), ())


def without_torchrun(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the lines of the program itself, without torchrun's report below, which only says where it ran."""
    report = next((number for number, line in enumerate(lines) if _REPORT.match(line)), len(lines))
    return tuple(lines[:report] or lines)


def _has_lost_another(finding: Finding) -> bool:
    """Whether a pod that has failed says that it lost a connection: to another one that had failed before."""
    return any(_CONSEQUENCE.search(line) for line in finding.log)


def _raised(snapshot: Snapshot, pod: Object) -> Finding | None:
    """Return the error that a pod's program raised before the pod was stopped: the first of Python's tracebacks.

    Programs in other languages end at once, or write nothing that could be distinguished from other lines of a log.
    """
    lines = kept_lines(snapshot, pod)
    texts = [line[match.end() :] if (match := _RANK.match(line)) else line for line in lines]
    start = next((number for number, text in enumerate(texts) if text.startswith(_TRACEBACK)), len(lines))
    error = next((text for text in texts[start + 1 :] if text and not text[0].isspace()), None)
    is_another = error is None or _SIGNALLED.match(error) or any(map(_CONSEQUENCE.search, lines[-CAUSE_LINES:]))
    if is_another:
        return None
    return Finding("Error", shown(pod), f"it was stopped after {error}", log=lines[start:][:CAUSE_LINES])


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0


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
    return findings or list(_deleted(snapshot, jobs, cleaned, first_end))


def _deleted(snapshot: Snapshot, jobs: Sequence[Object], cleaned: set[str], first_end: datetime) -> Iterator[Finding]:
    """Yield the first pod of these Jobs that was deleted, and not replaced, before the first failure.

    A kubelet reports Killing only for running pods. The Jobs of an earlier attempt had the same names.
    """
    replaced = {name(pod).rpartition("-")[0] for pod in snapshot.pods if not is_being_deleted(pod)}
    named = {name(job): job for job in jobs}
    for event in reversed(snapshot.killed()):
        about, when = event["involvedObject"], moment(last_seen(event))
        pod = _POD.fullmatch(about["name"])
        job = named.get(pod["job"]) if pod else None
        is_new = about["name"] not in cleaned and about["name"].rpartition("-")[0] not in replaced
        if pod and job and is_new and created(job) <= when < first_end:
            message = f"{labels(job).get(ROLE, 'pod')} {pod['index']}: it was deleted, which stopped it"
            yield Finding(DELETED, f"pod/{about['name']}", message, RUN_AGAIN, blocks=False)
            return

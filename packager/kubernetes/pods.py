"""Determines the state of a pod from its status, and why it has failed."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from packager.base.values import Value, as_dict
from packager.kubernetes.objects import (
    condition,
    container_statuses,
    is_being_deleted,
    main_container,
    main_state,
    moment,
    name,
    sentence,
    shown,
    status,
    true_condition,
    uid,
)
from packager.kubernetes.remedy import RUN_AGAIN, Action, Remedy
from packager.kubernetes.verdict import Finding

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot


LAST_LINES = 12


# Exit codes that mean something by convention: POSIX shells, and 128 + the signal's number (signal(7)).
_EXIT_CODES = {
    126: "it cannot be executed",
    127: "command not found",
    132: "illegal instruction: built for a different CPU?",
    134: "aborted",
    135: "bus error: is /dev/shm too small?",
    137: "killed",
    139: "segmentation fault",
    143: "stopped by SIGTERM",
}

_BY_ITS_NODE = {
    "Evicted": Action.REQUEST_MORE,
    "Preempting": Action.RUN_AGAIN,
    "NodeLost": Action.RUN_AGAIN,
    "UnexpectedAdmissionError": Action.RUN_AGAIN,
}
"""The action that helps after a node has ended a pod, by the reason in the status of the pod."""

# The messages of a kubelet that evicts a pod for its own limits, not for its node (pkg/kubelet/eviction/helpers.go).
_EXCEEDS_OWN_LIMIT = re.compile(r"exceeds the (total )?limit |exceeded its local ephemeral storage limit ")

# The reasons of a kubelet for an end before the program began (kuberuntime_container.go; cri-api and Docker differ).
_NEVER_STARTED = ("StartError", "ContainerCannotRun")


_INIT = "init"
"""The name of the container that runs before the program."""

# The last line of `sources.sh` in the templates of packages, when it fails: the address, and the reason.
_NOT_FETCHED = re.compile("sources: ([a-z0-9]+://.*)")
_FETCH_REMEDIES = {"no right to read it": Action.RENEW_KEY, "no space left": Action.RAISE_STORAGE}
"""The action that helps when a source is not fetched, by words of the reason."""


def state(pod: Object) -> str:
    """Return the state of the pod in a word or two, as `kubectl get pods` shows it."""
    if is_being_deleted(pod):
        return "Terminating"
    pod_status = status(pod)
    phase = str(pod_status.get("reason") or pod_status.get("phase") or "Pending")
    starting = pod_status.get("initContainerStatuses") or ()
    for container in starting:
        waiting = (container["state"].get("waiting") or {}).get("reason")
        if "terminated" not in container["state"] or container["state"]["terminated"].get("exitCode"):
            if waiting and waiting != "PodInitializing":
                return f"Init:{waiting}"
            if pod_status.get("phase") == "Pending":
                return "Starting"
            break
    for container in pod_status.get("containerStatuses") or ():
        word = container["state"].get("waiting") or container["state"].get("terminated") or {}
        if word.get("reason") not in (None, "ContainerCreating", "PodInitializing", "Completed"):
            return str(word["reason"])
    if phase == "Pending" and (scheduled := condition(pod, "PodScheduled")):
        return "Starting" if scheduled["status"] == "True" else str(scheduled.get("reason") or phase)
    return phase


def failure(pod: Object) -> Finding | None:
    """Return the reason why the pod has failed, with the last lines of the container that failed; None if none has."""
    if status(pod).get("phase") != "Failed":
        return None
    disruption = true_condition(pod, "DisruptionTarget")
    reason = status(pod).get("reason")
    detail = status(pod).get("message") or (disruption or {}).get("message")
    if reason or disruption:
        word = str(reason or (disruption or {})["reason"])
        cause = (detail or CAUSES.get(word) or "").strip()
        message = f"{_split_words(word)}: {cause}" if cause else _split_words(word)
        action = Action.RAISE_STORAGE if detail and _EXCEEDS_OWN_LIMIT.search(detail) else _BY_ITS_NODE.get(word)
        return Finding(word, shown(pod), message, action and Remedy.of(action))
    for container in container_statuses(pod):
        terminated = container["state"].get("terminated")
        if terminated and (terminated.get("exitCode") or terminated.get("reason") == "OOMKilled"):
            return termination(pod, container, terminated)
    return Finding("Failed", shown(pod), "failed without a reason from its containers")


def crashed(pod: Object) -> Finding | None:
    """Return how a container of a running pod last ended, if the kubelet has restarted it since."""
    for container in container_statuses(pod):
        terminated = (container.get("lastState") or {}).get("terminated")
        if terminated and container.get("restartCount") and terminated.get("exitCode"):
            end = termination(pod, container, terminated)
            count = int(container["restartCount"])
            message = f"{end.message}; started again, {'once' if count == 1 else f'{count} times'} so far"
            return Finding(end.reason, end.subject, message, end.remedy, blocks=False, log=end.log)
    return None


def broken(pod: Object) -> Finding | None:
    """Return the container of a running pod that has failed for good: the pod fails when its other containers end.

    A kubelet that may not start containers again waits for all of them, and calls the pod Failed if one of them failed
    (pkg/kubelet/kubelet_pods.go, getPhase).
    """
    if status(pod).get("phase") != "Running" or pod["spec"].get("restartPolicy") != "Never":
        return None
    for container in status(pod).get("containerStatuses") or ():
        terminated = container["state"].get("terminated")
        if terminated and terminated.get("exitCode"):
            end = termination(pod, container, terminated)
            message = f"{end.message}, so that the pod fails when its other containers have ended"
            return replace(end, message=message, blocks=False)
    return None


def termination(pod: Object, container: Object, terminated: Object) -> Finding:
    """Return how a container of the pod has ended, from its status."""
    log = last_lines(terminated.get("message", ""))
    code = terminated.get("exitCode", 0)
    limit = memory_limit(pod["spec"], container["name"])
    if terminated.get("reason") == "OOMKilled":
        message = f"container {container['name']} used more memory than its limit{f' of {limit}' if limit else ''}"
        return Finding(
            REASON, shown(pod), message, Remedy.of(Action.RAISE_MEMORY), log=log, container=container["name"]
        )
    if terminated.get("reason") in _NEVER_STARTED:
        why = " ".join(terminated.get("message", "").split())
        message = f"container {container['name']} could not be started{f': {why}' if why else ''}"
        return Finding(str(terminated["reason"]), shown(pod), message, container=container["name"])
    if container["name"] == _INIT and log and (source := _NOT_FETCHED.fullmatch(log[-1])):
        message = f"container {_INIT} has not fetched a source: {source[1]}"
        action = next((action for words, action in _FETCH_REMEDIES.items() if words in source[1]), None)
        return Finding("NotFetched", shown(pod), message, action and Remedy.of(action), log=log, container=_INIT)
    meaning = _EXIT_CODES.get(code)
    message = f"container {container['name']} ended with exit code {code}{f' ({meaning})' if meaning else ''}"
    reason = terminated.get("reason") or "Error"
    # The runtime may hear of the end before it hears of the reason.
    advice = Remedy.of(Action.RAISE_LIKELY_MEMORY, limit=limit) if code == 137 and limit is not None else None
    return Finding(reason, shown(pod), message, advice, log=log, container=container["name"])


def last_lines(text: str) -> tuple[str, ...]:
    """Return the end of a log, without the lines that only divide it."""
    lines = [after_carriage_return(line) for line in text.replace("\0", "").split("\n")]
    return tuple([line for line in lines if line.strip("-= ")][-LAST_LINES:])


def after_carriage_return(line: str) -> str:
    """Return the visible end of a line that carriage returns overwrite, such as a progress bar."""
    return line.rstrip().rpartition("\r")[2]


def _split_words(word: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", word).lower()


REASON = "OOMKilled"
"""The reason of these findings, in the word of Kubernetes."""


def killed_process(subject: str, where: str, limit: str | None, ended: str) -> Finding:
    """Return the finding that a process was killed for its memory use although its workload or container ended well."""
    most = f"the limit of {limit}" if limit else "available"
    message = (
        f"a process in {where} was killed for using more memory than {most}, and {ended} still ended with exit code 0"
    )
    return Finding(REASON, subject, message, Remedy.of(Action.CHECK_RESULT), blocks=False)


def memory_limit(spec: Object, container: str | None = None) -> str | None:
    """Return the memory limit of a container in a pod's spec; of the first one if none is named."""
    specified = [*spec["containers"], *(spec.get("initContainers") or ())]
    for entry in specified:
        if container in (None, entry["name"]):
            limit = ((entry.get("resources") or {}).get("limits") or {}).get("memory")
            return str(limit) if limit else None
    return None


_NODE_SILENT = "its node does not answer, or has a taint that it does not tolerate"
_PREEMPTED = "a pod of higher priority preempted it"
_NODE_GONE = "its node no longer exists"

CAUSES: Mapping[str, str] = MappingProxyType(
    {
        # Reasons of the condition DisruptionTarget.
        "DeletionByPodGC": _NODE_GONE,
        "DeletionByTaintManager": _NODE_SILENT,
        "EvictionByEvictionAPI": "it was evicted (a drain of its node, or a request to evict it)",
        "PreemptionByScheduler": _PREEMPTED,
        # Reasons of events.
        "Preempted": _PREEMPTED,
        "TaintManagerEviction": _NODE_SILENT,
        # Reasons of events and of the status of a pod.
        "Evicted": "its node had too little left of something",
        # Reasons of the status of a pod.
        "NodeLost": _NODE_GONE,
        "Preempting": _PREEMPTED,
        "UnexpectedAdmissionError": "its node rejected it",
    }
)
"""The cause of each reason."""


_SIGNALS = 128
"""The number that a shell, and a container runtime, add to the signal that ended a program."""

_LAST_SIGNAL = 64


class Container(Value, frozen=True):
    """A container of a pod, as the kubelet saw it last."""

    name: str
    state: str | None  # "waiting", "running" or "terminated"; None before the kubelet has said so
    exit_code: int | None  # the exit code, if it has ended
    signal: int | None  # the signal that ended it, if the exit code contains one
    reason: str | None  # the reason why it waits or has ended, in the word of Kubernetes
    started: str | None  # when it was started the last time, as an RFC 3339 time
    finished: str | None  # when it ended
    restarts: int  # the number of restarts

    def as_json(self) -> dict[str, Any]:
        """Return the container for `-o json`."""
        return as_dict(self)


def containers(pod: Object) -> tuple[Container, ...]:
    """Return the pod's containers, init containers first, as far as its status names them."""
    return tuple(_container(status) for status in container_statuses(pod))


def _container(status: Object) -> Container:
    state, facts = next(iter((status.get("state") or {}).items()), (None, None))
    facts = facts or {}
    code = facts.get("exitCode")
    signal = (code or 0) - _SIGNALS
    return Container(
        status["name"],
        state,
        code,
        signal if 0 < signal <= _LAST_SIGNAL else None,
        facts.get("reason"),
        facts.get("startedAt"),
        facts.get("finishedAt"),
        status.get("restartCount", 0),
    )


DELETED = "Deleted"

_DISRUPTION = "DisruptionTarget"

_KUBELET_CONFIRMATION = timedelta(seconds=5)
"""The time in which a kubelet confirms the end of a pod that it was told to stop.

It does so by deleting the pod once more, without a grace period: the time of the first request is then lost.
"""


def stopped(pod: Object, snapshot: Snapshot) -> Finding | None:
    """Return the cause that stopped the pod before it had ended by itself; None if it was not stopped."""
    if not (is_being_deleted(pod) or true_condition(pod, _DISRUPTION)) or _ended_first(pod, snapshot):
        return None
    disruption = true_condition(pod, _DISRUPTION)
    reason = str((disruption or {}).get("reason") or DELETED)
    return Finding(reason, shown(pod), _message(pod, snapshot), RUN_AGAIN, blocks=False)


def stop_requested_at(pod: Object) -> datetime | None:
    """Return the time at which the pod was told to stop, by the server's clock; None if it was not, or unknown."""
    if (disruption := true_condition(pod, _DISRUPTION)) and disruption.get("lastTransitionTime"):
        return moment(disruption["lastTransitionTime"])
    grace = pod["metadata"].get("deletionGracePeriodSeconds")
    return (
        moment(pod["metadata"]["deletionTimestamp"]) - timedelta(seconds=grace)
        if is_being_deleted(pod) and grace
        else None
    )


def ended_at(pod: Object) -> datetime | None:
    """Return when the pod's main container ended; None if it has not, or the time is not known."""
    terminated = main_state(pod).get("terminated") or {}
    return moment(terminated["finishedAt"]) if terminated.get("finishedAt") else None


def started_at(pod: Object) -> datetime | None:
    """Return when the pod's main container was started, the last time; None when it was not."""
    state = main_state(pod)
    begin = (state.get("terminated") or state.get("running") or {}).get("startedAt")
    return moment(begin) if begin else None


def has_ended(pod: Object) -> bool:
    """Whether the pod's main container has ended, or the pod as a whole."""
    return "terminated" in main_state(pod) or status(pod).get("phase") in ("Succeeded", "Failed")


def _ended_first(pod: Object, snapshot: Snapshot) -> bool:
    """Whether the main container had ended by itself before the pod was told to stop."""
    if "terminated" not in main_state(pod) or any(_is_kill(event, pod) for event in snapshot.events):
        return False
    end, stop = ended_at(pod), stop_requested_at(pod)
    if end is None:
        return True
    if stop is None:
        # The time of the signal is not known; a kubelet that reports its actions would have reported a kill.
        if any(event["involvedObject"].get("uid") == uid(pod) for event in snapshot.events):
            return True
        return moment(pod["metadata"]["deletionTimestamp"]) - end > _KUBELET_CONFIRMATION
    # In one and the same second, the end is far more often the answer to the word.
    return end < stop


def _is_kill(event: Object, pod: Object) -> bool:
    """Whether the kubelet says that it has stopped the pod's main container, which it does only of one that runs."""
    is_kill = event["involvedObject"].get("uid") == uid(pod) and event.get("reason") == "Killing"
    return is_kill and sentence(event).endswith(f" container {main_container(pod)}")


def _message(pod: Object, snapshot: Snapshot) -> str:
    if disruption := true_condition(pod, _DISRUPTION):
        reason, detail = disruption.get("reason", ""), sentence(disruption)
        if reason in CAUSES:
            return f"{CAUSES[reason]}, which stopped it"
        return (
            f"its node stopped it: {detail}"
            if reason == "TerminationByKubelet"
            else f"it was stopped: {detail or reason}"
        )
    return f"{deletion_cause(pod, snapshot)}, which stopped it"


def deletion_cause(pod: Object, snapshot: Snapshot) -> str:
    """Return the cause of a deletion that the pod's own status does not explain."""
    if snapshot.namespace and is_being_deleted(snapshot.namespace):
        return f"its namespace {name(snapshot.namespace)} is being deleted"
    if is_being_deleted(snapshot.workload) and uid(pod) != uid(snapshot.workload):
        return f"{shown(snapshot.workload)} is being deleted"
    return "it was deleted"

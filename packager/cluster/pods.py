"""What a pod's status and events say of it: why it has failed, or why it does not start."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.cluster import mounts
from packager.cluster.objects import concerning, condition, container_statuses, holds, is_going, sentence, shown, status
from packager.cluster.verdict import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.cluster.objects import Object

IMAGE_PATIENCE = 15.0
"""A registry may hiccup; an image that is still not there after this long is not coming."""

CONFIG_PATIENCE = 10.0
"""Somebody may be about to apply the ConfigMap or the Secret that is missing."""

LAST_LINES = 12

_IMAGE = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
_CONFIG = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}

# Exit codes that mean something by convention: POSIX shells, and 128 + the signal's number (signal(7)).
_EXIT = {
    126: "it cannot be executed",
    127: "no such command",
    132: "illegal instruction: built for another CPU?",
    134: "aborted",
    135: "bus error: is /dev/shm too small?",
    137: "killed",
    139: "segmentation fault",
    143: "told to stop",
}

_NOT_READY = {"FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox"}

_NODE_TROUBLE = {
    "Evicted": "ask for more of what it lacked, in the overlay's resources",
    "Preempting": "a pod of higher priority took its place",
    "NodeLost": "the node is gone; deploy again",
    "UnexpectedAdmissionError": "the node refused it; deploy again",
}


def state(pod: Object) -> str:
    """Return what the pod is at, in a word or two, as `kubectl get pods` has it."""
    if is_going(pod):
        return "Terminating"
    said = status(pod)
    phase = str(said.get("reason") or said.get("phase") or "Pending")
    starting = said.get("initContainerStatuses") or ()
    for container in starting:
        waiting = (container["state"].get("waiting") or {}).get("reason")
        if "terminated" not in container["state"] or container["state"]["terminated"].get("exitCode"):
            if waiting and waiting != "PodInitializing":
                return f"Init:{waiting}"
            if said.get("phase") == "Pending":
                return "Starting"
            break
    for container in said.get("containerStatuses") or ():
        word = container["state"].get("waiting") or container["state"].get("terminated") or {}
        if word.get("reason") not in (None, "ContainerCreating", "PodInitializing", "Completed"):
            return str(word["reason"])
    if phase == "Pending" and (scheduled := condition(pod, "PodScheduled")):
        return "Starting" if scheduled["status"] == "True" else str(scheduled.get("reason") or phase)
    return phase


def failure(pod: Object) -> Finding | None:
    """Return why the pod has failed, with the last lines of the container that did; None when it has not failed."""
    if status(pod).get("phase") != "Failed":
        return None
    disruption = holds(pod, "DisruptionTarget")
    reason = status(pod).get("reason")
    said = status(pod).get("message") or (disruption or {}).get("message")
    if reason or disruption:
        word = str(reason or (disruption or {})["reason"])
        message = f"{_spaced(word)}: {said}" if said else _spaced(word)
        return Finding(word, shown(pod), message, _NODE_TROUBLE.get(word))
    for container in container_statuses(pod):
        terminated = container["state"].get("terminated")
        if terminated and (terminated.get("exitCode") or terminated.get("reason") == "OOMKilled"):
            return _ended(pod, container, terminated)
    return Finding("Failed", shown(pod), "failed, and its containers do not say why")


def crashed(pod: Object) -> Finding | None:
    """Return how a container of a running pod ended the last time, when the kubelet has started it again since."""
    for container in container_statuses(pod):
        terminated = (container.get("lastState") or {}).get("terminated")
        if terminated and container.get("restartCount") and terminated.get("exitCode"):
            found = _ended(pod, container, terminated)
            message = f"{found.message}; started again, {container['restartCount']} times so far"
            return Finding(found.reason, found.subject, message, found.hint, blocks=False, log=found.log)
    return None


def obstacles(pod: Object, events: Sequence[Object]) -> Iterator[Finding]:
    """Yield what keeps the pod from starting."""
    if status(pod).get("phase") not in (None, "Pending", "Running", "Unknown"):
        return
    scheduled = condition(pod, "PodScheduled")
    if scheduled and scheduled["status"] == "False":
        yield _unscheduled(pod, scheduled)
        return
    ready = condition(pod, "Ready")
    if status(pod).get("reason") == "NodeLost" or (ready and ready["status"] == "Unknown"):
        yield Finding("NodeLost", shown(pod), "its node does not answer any more", "kubectl get nodes")
    for container in container_statuses(pod):
        waiting = container["state"].get("waiting") or {}
        reason, said = waiting.get("reason", ""), sentence(waiting)
        if reason in _IMAGE:
            yield _image(pod, container["image"], reason, said, events)
            return
        if reason in _CONFIG:
            message = f"container {container['name']} cannot be made: {said or reason}"
            yield Finding(reason, shown(pod), message, _config_hint(said), final_after=CONFIG_PATIENCE)
            return
        if reason == "CrashLoopBackOff":
            terminated = (container.get("lastState") or {}).get("terminated") or {}
            found = _ended(pod, container, terminated)
            yield Finding(reason, shown(pod), f"{found.message}, again and again", found.hint, log=found.log)
            return
    yield from _mounts(pod, events)


def _ended(pod: Object, container: Object, terminated: Object) -> Finding:
    log = last_lines(terminated.get("message", ""))
    code = terminated.get("exitCode", 0)
    limit = memory_limit(pod["spec"], container["name"])
    if terminated.get("reason") == "OOMKilled":
        message = f"container {container['name']} took more memory than its limit{f' of {limit}' if limit else ''}"
        hint = "raise limits.memory in the overlay's manifest, or make the work smaller"
        return Finding("OOMKilled", shown(pod), message, hint, log=log, container=container["name"])
    meaning = _EXIT.get(code)
    message = f"container {container['name']} ended with exit code {code}{f' ({meaning})' if meaning else ''}"
    reason = terminated.get("reason") or "Error"
    # The runtime may hear of the end before it hears of the reason.
    may_be_memory = code == 137 and limit is not None
    advice = f"most often for more memory than its limit of {limit}: raise limits.memory" if may_be_memory else None
    return Finding(reason, shown(pod), message, advice, log=log, container=container["name"])


def _unscheduled(pod: Object, scheduled: Object) -> Finding:
    said = scheduled.get("message", "")
    if scheduled.get("reason") == "SchedulingGated":
        return Finding("SchedulingGated", shown(pod), "held back by a scheduling gate (a queue's, perhaps)")
    # What the scheduler tells of preemption and of devices that could be freed is of use to nobody who waits.
    said = re.sub(r"\.? ?(no new claims to deallocate, )?preemption:.*", "", said).rstrip(". ,")
    hint = None
    if "Insufficient" in said:
        hint = "wait for room, or ask for less in the overlay's resources; `kubectl describe nodes` shows what is taken"
    elif "PersistentVolumeClaim" in said or "persistentvolumeclaim" in said:
        hint = "kubectl get persistentvolumeclaims"
    elif "taint" in said or "node affinity" in said or "node selector" in said:
        hint = "kubectl get nodes --show-labels; kubectl describe nodes | grep Taints"
    return Finding(
        "Unschedulable", shown(pod), f"no node can take it: {said or 'the scheduler does not say why'}", hint
    )


def _image(pod: Object, image: str, reason: str, said: str, events: Sequence[Object]) -> Finding:
    if not said or said.startswith("Back-off"):  # the kubelet's own words are in the event
        for event in reversed(concerning(events, pod)):
            if event.get("message", "").startswith("Failed to pull image"):
                said = sentence(event)
                break
    cause = said.rpartition("failed to do request: ")[2].removeprefix(f'Failed to pull image "{image}": ')
    if re.search(r"not ?found|manifest unknown", said, re.IGNORECASE):
        hint = "build and push it, or correct REGISTRY in mlops.env"
    elif re.search(r"denied|unauthorized|authentication|forbidden", said, re.IGNORECASE):
        hint = "the registry wants a login: give the namespace's service account an imagePullSecret"
    elif reason == "InvalidImageName":
        hint = "correct REGISTRY in mlops.env"
    else:
        hint = "the node does not reach the registry: is REGISTRY in mlops.env right?"
    message = f"the image {image} cannot be pulled{f': {cause}' if cause else ''}"
    patience = 0.0 if reason == "InvalidImageName" else IMAGE_PATIENCE
    return Finding("ErrImagePull", shown(pod), message, hint, final_after=patience)


def _mounts(pod: Object, events: Sequence[Object]) -> Iterator[Finding]:
    started = any("waiting" not in each["state"] for each in container_statuses(pod))
    if started or status(pod).get("phase") != "Pending":
        return
    told = [event for event in concerning(events, pod) if event.get("reason") in _NOT_READY]
    if refused := mounts.refused(told):
        for mount in refused:
            message = f"{mount.source} cannot be mounted: {mount.why}"
            yield Finding("FailedMount", shown(pod), message, mount.hint)
        return
    for event in reversed(told):
        said = sentence(event)
        if "failed to sync" in said and "cache" in said:
            continue  # the kubelet has not heard of the object yet; it asks again
        missing = re.search(r'(configmap|secret|persistentvolumeclaim) "[^"]+" not found', said)
        patience = CONFIG_PATIENCE if missing else float("inf")
        yield Finding(str(event["reason"]), shown(pod), said, _config_hint(said), final_after=patience)
        return


def _config_hint(said: str) -> str | None:
    if missing := re.search(r'(configmap|secret|persistentvolumeclaim) "([^"]+)" not found', said):
        return f"create the {missing[1]} {missing[2]} in this namespace"
    if "runAsNonRoot" in said:
        return "give a user other than 0 in the overlay's patch"
    return None


def memory_limit(spec: Object, container: str | None = None) -> str | None:
    """Return the memory that a container of a pod's spec may take, its first one's when none is named."""
    specified = [*spec["containers"], *(spec.get("initContainers") or ())]
    for each in specified:
        if container in (None, each["name"]):
            limit = ((each.get("resources") or {}).get("limits") or {}).get("memory")
            return str(limit) if limit else None
    return None


def last_lines(text: str) -> tuple[str, ...]:
    """Return the end of a log, without the lines that only divide it."""
    lines = [line.rstrip() for line in text.replace("\0", "").splitlines()]
    return tuple([line for line in lines if line.strip("-= ")][-LAST_LINES:])


def _spaced(word: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", word).lower()

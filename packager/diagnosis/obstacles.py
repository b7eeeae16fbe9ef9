"""Finds the obstacles to the start of a pod: image, volumes, node, sidecar. Tests: kubernetes/test_pods.py."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from packager.diagnosis.scheduling import unfit
from packager.kubernetes.objects import (
    condition,
    container_statuses,
    events_about,
    image_of,
    last_seen,
    main_container,
    moment,
    name,
    sentence,
    shown,
    status,
    true_condition,
)
from packager.kubernetes.pods import last_lines, termination
from packager.kubernetes.remedy import Action, Remedy
from packager.kubernetes.verdict import NEVER, Finding

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence
    from datetime import datetime

    from packager.kubernetes.objects import Object

IMAGE_PATIENCE = 15.0
"""A registry may hiccup; an image that is still not there after this long is not coming."""

CONFIG_PATIENCE = 10.0
"""The missing ConfigMap or Secret may be applied soon."""

CRASH_PATIENCE = 30.0
"""A kubelet that holds a container back for this long has started it three times (10 s, 20 s, 40 s)."""

CRASH_LOOP = "CrashLoopBackOff"
"""The reason of a container that the kubelet holds back before it starts it again."""

UNSCHEDULABLE, HELD_BY_GROUP = "Unschedulable", "HeldByGroup"
"""The reasons of a pod that fits no node, and of one whose gang scheduler waits until all pods of its group fit."""

SIDECAR_PATIENCE = 60.0
"""Some sidecars end by themselves when they find that they are alone."""

_IMAGE = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
_NEVER_PULLED = {"InvalidImageName", "ErrImageNeverPull"}
_CONFIG = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}

# Of cluster-autoscaler (processors/status/eventing_scale_up_processor.go), and of Karpenter (scheduling/events.go).
_NODE_COMES = {"TriggeredScaleUp", "Nominated"}
_NO_NODE_COMES = "NotTriggerScaleUp"

_GROWTH_SECONDS = 600
"""Seconds without a new node before a hint is given: a group that is full now may have room soon."""

_NOT_READY = {"FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox"}


_FIRST_PAUSE = timedelta(seconds=10)
_LONGEST_PAUSE = timedelta(minutes=5)
"""The pauses before an image is pulled again, twice as long each time (pkg/kubelet: imageBackOffPeriod,
MaxImageBackOff)."""

_MOST_DOUBLINGS = 5

# A kubelet's message about a container that it holds back (pkg/kubelet/kuberuntime: doBackOff), with a Go duration.
_HELD_BACK = re.compile(r"back-off (?:(\d+)h)?(?:(\d+)m)?(?:(\d+)(?:\.\d+)?s)? restarting failed container")

# What a kubelet says of a mount that failed (k8s.io/mount-utils, mount_linux.go), its lines made one. Where there is
# systemd, that says something of its own first; mount(8) begins with its name and, often, with the place in the pod.
_FAILED_MOUNT = re.compile(
    r"Mounting arguments: .*?-t (?P<kind>\S+) (?:-o \S+ )?(?P<source>.+) /\S+ "
    r"Output: (?:Running (?:scope )?as unit: \S+ )?(?:mount[.\w]*: )?(?:/\S+: )?(?P<why>.+)"
)

_PULL_REMEDIES = (
    (r"not ?found|manifest unknown", Action.PUSH_IMAGE),
    (r"denied|unauthorized|authentication|forbidden", Action.LOG_IN_TO_REGISTRY),
    ("ErrImageNeverPull", Action.LOAD_IMAGE),
    ("InvalidImageName", Action.CORRECT_IMAGE),
)
_NFS_REMEDIES = (
    ("unknown filesystem type|helper program", Action.INSTALL_NFS_CLIENT),
    ("denied|reason given by server|not a directory", Action.EXPORT_FOLDER),
    ("", Action.REACH_NFS_SERVER),
)
_CONFIG_REMEDIES = (
    (r'(?P<kind>configmap|secret|persistentvolumeclaim) "(?P<name>[^"]+)" not found', Action.CREATE_OBJECT),
    (r"couldn't find key (?P<key>\S+) in Secret (?:\S+/)?(?P<name>\S+)", Action.ADD_SECRET_KEY),
    ("runAsNonRoot", Action.SET_USER),
)
"""The actions that help, by patterns in a kubelet's message; the first one that is found counts."""

_MOUNT_RETRY_SECONDS = 150.0
"""A kubelet tries again after at most two minutes: a volume without an event for longer is mounted."""


def obstacles(
    pod: Object, events: Sequence[Object], nodes: Sequence[Object] = (), own: Container[str] = ()
) -> Iterator[Finding]:
    """Yield the obstacles to the start or the continuation of the pod.

    A container that is not among those of its template (`own`, if known) was added by a webhook, and no value of the
    package helps it.
    """
    if status(pod).get("phase") not in (None, "Pending", "Running", "Unknown"):
        return
    scheduled = condition(pod, "PodScheduled")
    if scheduled and scheduled["status"] == "False":
        yield _unscheduled(pod, scheduled, events)
        return
    yield from lost_node(pod, nodes)
    for container in container_statuses(pod):
        if finding := _waiting(pod, container, events):
            is_added = bool(own) and container["name"] not in own
            yield replace(finding, remedy=Remedy.of(Action.INSPECT_MUTATIONS)) if is_added else finding
            return
    yield from _mounts(pod, events)


def _waiting(pod: Object, container: Object, events: Sequence[Object]) -> Finding | None:
    """Return why a kubelet cannot start a container, from the container's status; None if it can, or has."""
    waiting = container["state"].get("waiting") or {}
    reason, detail = waiting.get("reason", ""), sentence(waiting)
    if reason in _IMAGE:
        return _image(pod, image_of(pod, container), reason, detail, events)
    if reason in _CONFIG:
        message = f"container {container['name']} cannot be created: {detail or reason}"
        return Finding(reason, shown(pod), message, _remedy(_CONFIG_REMEDIES, detail), final_after=CONFIG_PATIENCE)
    if reason != CRASH_LOOP:
        return None
    terminated = (container.get("lastState") or {}).get("terminated") or {}
    image = image_of(pod, container)
    pulls = _failed_pulls(pod, image, events)
    if pulls and last_seen(pulls[-1]) >= terminated.get("finishedAt", ""):
        return _image(pod, image, reason, "", events)  # it was removed since the container was started
    end = termination(pod, container, terminated)
    # A job may be lucky in its next attempt. What is to serve, or to run before it, has failed in the same way three
    # times by then.
    lasting = [main_container(pod), *(entry["name"] for entry in pod["spec"].get("initContainers") or ())]
    is_service = pod["spec"].get("restartPolicy") == "Always" and container["name"] in lasting
    patience = CRASH_PATIENCE if is_service else NEVER
    message = f"{end.message}, again and again"
    again = _next_start(container)
    return Finding(reason, shown(pod), message, end.remedy, final_after=patience, log=end.log, next_try=again)


def lost_node(pod: Object, nodes: Sequence[Object]) -> Iterator[Finding]:
    """Yield the finding that the pod's node does not answer; the status of its pods is then out of date."""
    node = next((node for node in nodes if name(node) == pod["spec"].get("nodeName")), None)
    lost = seems_node_lost(pod) if node is None else not true_condition(node, "Ready")
    if not lost:
        return
    ready = (condition(node, "Ready") if node else None) or condition(pod, "Ready") or {}
    where = f" {pod['spec']['nodeName']}" if pod["spec"].get("nodeName") else ""
    since = (
        f" since {moment(ready['lastTransitionTime']):%H:%M:%S} UTC" if ready.get("lastTransitionTime") else " any more"
    )
    yield Finding("NodeLost", shown(pod), f"its node{where} does not answer{since}", Remedy.of(Action.INSPECT_NODES))


def seems_node_lost(pod: Object) -> bool:
    """Whether the pod's node seems not to answer.

    What the kubelet says of the containers stays as it was, and the node controller takes back that the pod is ready
    (pkg/controller/util/node: MarkPodsNotReady).
    """
    ready, containers = condition(pod, "Ready"), condition(pod, "ContainersReady")
    if status(pod).get("reason") == "NodeLost" or (ready and ready["status"] == "Unknown"):
        return True
    contradicts = ready and containers and (ready["status"], containers["status"]) == ("False", "True")
    return bool(contradicts and not pod["spec"].get("readinessGates"))


def kept_running(pod: Object) -> Finding | None:
    """Return the containers that keep a pod running after its main container has ended, such as injected sidecars."""
    main = main_container(pod)
    statuses = {entry["name"]: entry["state"] for entry in status(pod).get("containerStatuses") or ()}
    terminated = statuses.pop(main, {}).get("terminated")
    running = [container for container, state in statuses.items() if "running" in state]
    if not (terminated and running):
        return None
    message = (
        f"container {main} has ended with exit code {terminated.get('exitCode', 0)}, "
        f"but the pod keeps running for its container {', '.join(running)}"
    )
    log = last_lines(terminated.get("message", ""))
    return Finding(
        "SidecarRuns", shown(pod), message, Remedy.of(Action.REMOVE_SIDECAR), final_after=SIDECAR_PATIENCE, log=log
    )


def _growth(pod: Object, events: Sequence[Object]) -> Finding | None:
    """Return the finding from the cluster's autoscaler about a pod that fits no node; None without an event of it."""
    growth = [event for event in events_about(events, pod) if event.get("reason") in (*_NODE_COMES, _NO_NODE_COMES)]
    if not growth:
        return None
    detail = sentence(growth[-1])
    if growth[-1]["reason"] in _NODE_COMES:
        return Finding("ScalingUp", shown(pod), f"a node is on its way: {detail}", blocks=False)
    waited = moment(last_seen(growth[-1])) - moment(pod["metadata"]["creationTimestamp"])
    is_long = waited.total_seconds() >= _GROWTH_SECONDS
    advice = Remedy.of(Action.GROW_CLUSTER) if is_long else None
    return Finding("NoNodeFits", shown(pod), f"no node can run it, and the cluster adds none: {detail}", advice)


def _unscheduled(pod: Object, scheduled: Object, events: Sequence[Object]) -> Finding:
    detail = scheduled.get("message", "")
    if scheduled.get("reason") == "SchedulingGated":
        return Finding("SchedulingGated", shown(pod), "held back by a scheduling gate (for example of a queue)")
    if growth := _growth(pod, events):
        return growth
    why = unfit(detail)
    if why.of_group:  # an earlier attempt may have failed for a reason of its own, by which the group can be helped
        failed = [event for event in events_about(events, pod) if event.get("reason") == "FailedScheduling"]
        why = next((own for event in reversed(failed) if not (own := unfit(sentence(event))).of_group), why)
    message = f"no node can run it: {why.words or 'the scheduler gives no reason'}"
    return Finding(HELD_BY_GROUP if why.of_group else UNSCHEDULABLE, shown(pod), message, why.remedy)


def without_held_by_group(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings without those on pods that wait for their group, if another says why the group waits."""
    if not any(finding.reason == UNSCHEDULABLE for finding in findings):
        return list(findings)
    return [finding for finding in findings if finding.reason != HELD_BY_GROUP]


def _image(pod: Object, image: str, reason: str, detail: str, events: Sequence[Object]) -> Finding:
    failed = _failed_pulls(pod, image, events)
    if failed and (not detail or detail.startswith("Back-off")):  # the kubelet's own words are in the event
        detail = sentence(failed[-1])
    cause = detail.rpartition("failed to do request: ")[2].removeprefix(f'Failed to pull image "{image}": ')
    remedy = _remedy(_PULL_REMEDIES, f"{reason} {detail}") or Remedy.of(Action.REACH_REGISTRY)
    message = f"the image {image} cannot be pulled{f': {cause}' if cause else ''}"
    patience = 0.0 if reason == "InvalidImageName" else IMAGE_PATIENCE
    again = None if reason in _NEVER_PULLED else _next_pull(failed)
    return Finding("ErrImagePull", shown(pod), message, remedy, final_after=patience, next_try=again)


def _next_start(container: Object) -> datetime | None:
    """Return when a container in CrashLoopBackOff may start again; None if its kubelet does not say so."""
    end = ((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt")
    pause = _HELD_BACK.match(sentence(container["state"].get("waiting") or {}))
    if not (end and pause):
        return None
    hours, minutes, seconds = (int(number or 0) for number in pause.groups())
    return moment(end) + timedelta(hours=hours, minutes=minutes, seconds=seconds)


def _failed_pulls(pod: Object, image: str, events: Sequence[Object]) -> list[Object]:
    """Return the events about failed pulls of an image for a pod since the last good one, the oldest first."""
    about_pod = [(event, str(event.get("message") or "")) for event in events_about(events, pod)]
    good = [last_seen(event) for event, text in about_pod if event.get("reason") == "Pulled" and f'"{image}"' in text]
    failed = [event for event, text in about_pod if text.startswith(f'Failed to pull image "{image}"')]
    return [event for event in failed if last_seen(event) > max(good, default="")]


def _next_pull(failed: Sequence[Object]) -> datetime | None:
    """Return the end of the pause of a kubelet after these failed pulls of an image; None without their events."""
    if not failed:
        return None
    tries = sum(int(event.get("count") or 1) for event in failed)
    pause: timedelta = min(_FIRST_PAUSE * 2 ** min(tries - 1, _MOST_DOUBLINGS), _LONGEST_PAUSE)
    return moment(last_seen(failed[-1])) + pause


def _mounts(pod: Object, events: Sequence[Object]) -> Iterator[Finding]:
    started = any("waiting" not in entry["state"] for entry in container_statuses(pod))
    if started or status(pod).get("phase") != "Pending":
        return
    warnings = [event for event in events_about(events, pod) if event.get("reason") in _NOT_READY]
    if refused := _refused_mounts(pod, warnings):
        yield from refused
        return
    for event in reversed(warnings):
        detail = sentence(event)
        if "failed to sync" in detail and "cache" in detail:
            continue  # the kubelet has not heard of the object yet; it asks again
        missing = re.search(r'(configmap|secret|persistentvolumeclaim) "[^"]+" not found', detail)
        patience = CONFIG_PATIENCE if missing else float("inf")
        yield Finding(str(event["reason"]), shown(pod), detail, _remedy(_CONFIG_REMEDIES, detail), final_after=patience)
        return


def _refused_mounts(pod: Object, events: Sequence[Object]) -> list[Finding]:
    """Return the volumes that the pod's node does not mount, in order, from the events about a pod, the newest last."""
    if not events or events[-1]["reason"] != "FailedMount":
        return []  # the mounts succeeded before a later failure, such as of a sandbox
    newest = moment(last_seen(events[-1]))
    refused = {}
    for event in events:
        failed = _FAILED_MOUNT.search(sentence(event))
        if failed and (newest - moment(last_seen(event))).total_seconds() < _MOUNT_RETRY_SECONDS:
            source, why = failed["source"], failed["why"].removesuffix(f" while mounting {failed['source']}")
            remedy = _remedy(_NFS_REMEDIES, why) if failed["kind"].startswith("nfs") else None
            message = f"{source} cannot be mounted: {why}"
            refused[source] = Finding("FailedMount", shown(pod), message, remedy)
    return [refused[source] for source in sorted(refused)]


def _remedy(table: Sequence[tuple[str, Action]], message: str) -> Remedy | None:
    """Return the action of the first pattern that is found in a message, with the pattern's groups as its values."""
    matches = ((action, re.search(pattern, message, re.IGNORECASE)) for pattern, action in table)
    return next((Remedy.of(action, **match.groupdict()) for action, match in matches if match), None)

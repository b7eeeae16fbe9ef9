"""Reads single facts from Kubernetes objects, as `kubectl get -o json` prints them. Tests: kubernetes/test_pods.py."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Object = dict[str, Any]
"""One Kubernetes object."""

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
"""The annotation by which a pod says which of its containers `kubectl logs` and `kubectl exec` mean."""


def name(item: Object) -> str:
    """Return the object's name."""
    return str(item["metadata"]["name"])


def uid(item: Object) -> str:
    """Return the object's uid: another object of the same name has another."""
    return str(item["metadata"].get("uid", ""))


def shown(item: Object) -> str:
    """Return `kind/name`, as kubectl takes it."""
    return f"{item['kind'].lower()}/{name(item)}"


def annotation(item: Object, key: str) -> str | None:
    """Return the value of the annotation `key`; None when the object has none."""
    return (item["metadata"].get("annotations") or {}).get(key)


def labels(item: Object) -> Mapping[str, str]:
    """Return the object's labels."""
    return item["metadata"].get("labels") or {}


def owners(item: Object) -> set[str]:
    """Return the uids of the objects that own this one."""
    return {owner["uid"] for owner in item["metadata"].get("ownerReferences") or ()}


def is_being_deleted(item: Object) -> bool:
    """Return whether the object is being deleted and still exists."""
    return "deletionTimestamp" in item["metadata"]


def created(item: Object) -> datetime:
    """Return when the object was made, by the server's clock."""
    return moment(item["metadata"]["creationTimestamp"])


def moment(text: str) -> datetime:
    """Return the time that an RFC 3339 timestamp of the API means."""
    return datetime.fromisoformat(text).astimezone(UTC)


def status(item: Object) -> Object:
    """Return the object's status, which may still be empty."""
    return item.get("status") or {}


def condition(item: Object, kind: str) -> Object | None:
    """Return the condition of the type `kind` when the object has it, whether true or not."""
    for entry in status(item).get("conditions") or ():
        if entry["type"] == kind:
            return dict(entry)
    return None


def true_condition(item: Object, kind: str) -> Object | None:
    """Return the condition of the type `kind` when it is true."""
    entry = condition(item, kind)
    return entry if entry and entry["status"] == "True" else None


def container_statuses(pod: Object) -> list[Object]:
    """Return the statuses of the pod's containers, init containers first, in the order in which they start."""
    pod_status = status(pod)
    return [*(pod_status.get("initContainerStatuses") or ()), *(pod_status.get("containerStatuses") or ())]


def _containers(pod: Object) -> list[Object]:
    """Return the containers in the pod's spec, init containers first."""
    spec = pod.get("spec") or {}
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def main_container(pod: Object) -> str:
    """Return the name of the container that does the pod's work."""
    return annotation(pod, DEFAULT_CONTAINER) or str(pod["spec"]["containers"][0]["name"])


def image_of(pod: Object, container_status: Object) -> str:
    """Return the image that the pod's spec has for a container; its status may name another one of the same digest."""
    name = container_status["name"]
    images = (container.get("image") for container in _containers(pod) if container["name"] == name)
    return str(next(images, None) or container_status["image"])


def main_state(pod: Object) -> Object:
    """Return the state of the pod's main container: `waiting`, `running` or `terminated`; empty before it has one."""
    main = main_container(pod)
    return next((dict(entry["state"]) for entry in container_statuses(pod) if entry["name"] == main), {})


def is_running(pod: Object) -> bool:
    """Whether the pod's main container runs: only then can it be asked for anything."""
    return "running" in main_state(pod)


def restarts(pod: Object) -> int:
    """Return the number of restarts of the pod's containers."""
    return sum(container_status.get("restartCount", 0) for container_status in container_statuses(pod))


def events_about(events: Iterable[Object], item: Object) -> list[Object]:
    """Return the events about this very object (not an earlier one of its name), the oldest first."""
    about_item = [event for event in events if event["involvedObject"].get("uid") == uid(item)]
    return sorted(about_item, key=last_seen)


def sentence(item: Object) -> str:
    """Return the message of an event or of a container's state as one line; empty without one."""
    return " ".join(item.get("message", "").split())


def last_seen(event: Object) -> str:
    """Return when the event happened last (core/v1 and events.k8s.io/v1 keep it in different fields)."""
    series = event.get("series") or {}
    times = (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event["metadata"].get("creationTimestamp"),
    )
    return next((time for time in times if time), "")

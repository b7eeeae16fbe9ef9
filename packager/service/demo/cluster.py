"""Simulates a cluster in memory: pods that start, print curves, and succeed or fail.

A program is simulated by its environment: it takes STEPS steps, one in a second, and fails if LEARNING_RATE is above 1.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from packager.base import jsonio
from packager.kubernetes.manifest import Manifest, listing, mapping
from packager.service.jobs.kube import WHOLE_LOG, Cluster, LogOptions, RefusedError
from packager.workloads import structures

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from packager.kubernetes.objects import Object
    from packager.workloads.pods import Pods

_TICK = 0.1
"""The seconds between two looks at the changes and logs."""

_PULLING_TICKS = 20
_MOST_STEPS = 3600
_DIVERGES = 1.0
"""The learning rate above which a simulated program fails."""

_ENDS = (("Complete", "Completed", "Succeeded"), ("Failed",))
"""The conditions of workloads that have succeeded, each of some kind, and of those that have failed."""


class SimulatedCluster(Cluster):
    """A cluster in memory.

    Args:
        tick: The seconds of a tenth of a step.
    """

    def __init__(self, tick: float = _TICK) -> None:
        self.namespace = "demo"
        self._tick = tick
        self._numbers = itertools.count(1)
        self._objects: dict[tuple[str, str, str], Object] = {}
        self._changes: list[tuple[str, Object]] = []
        self._logs: dict[tuple[str, str], list[tuple[datetime, str]]] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """End all simulated programs."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def apply(self, item: Object, namespace: str, *, dry_run: bool = False) -> Object:
        """Store an object, start its pods if it is a new workload, and return the object."""
        if dry_run:
            return item
        key = (item["kind"], namespace, item["metadata"]["name"])
        before = self._objects.get(key)
        stored = {**copy.deepcopy({**(before or {}), **item})}
        stored["metadata"] = {
            **self._metadata(namespace),
            **mapping((before or {}).get("metadata")),
            **item["metadata"],
        }
        self._put(stored)
        if before is None and structures.is_workload(Manifest(stored)):
            task = asyncio.create_task(self._run(key))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        return stored

    async def create(self, item: Object, namespace: str, *, dry_run: bool = False) -> None:
        """Store an object, unless one of its name exists."""
        if (item["kind"], namespace, item["metadata"]["name"]) not in self._objects:
            await self.apply(item, namespace, dry_run=dry_run)

    async def get(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """Return an object, or None if it does not exist; each storage class exists."""
        if namespace is None:
            return {"metadata": {"name": name}}
        return copy.deepcopy(self._objects.get((kind, namespace, name)))

    async def delete(self, kind: str, name: str, namespace: str) -> None:
        """Delete an object and what it owns."""
        if item := self._objects.pop((kind, namespace, name), None):
            self._changes.append(("DELETED", item))
            for key, other in list(self._objects.items()):
                owners = listing(other["metadata"].get("ownerReferences"))
                if any(mapping(owner).get("uid") == item["metadata"]["uid"] for owner in owners):
                    await self.delete(key[0], key[2], namespace)

    async def list(
        self, kind: str, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> tuple[list[Object], str]:
        """Return all objects of a kind, and the version from which a watch continues."""
        if kind == "Node":
            return [{"metadata": {"name": "simulated-1", "labels": {}}}], "0"
        items = [copy.deepcopy(item) for item in self._objects.values() if _matches(item, kind, namespace, labels)]
        return items, str(len(self._changes))

    async def watch(
        self, kind: str, namespace: str, version: str, labels: Mapping[str, str] | None = None
    ) -> AsyncIterator[tuple[str, Object]]:
        """Yield each change after a version."""
        position = int(version)
        while True:
            for change, item in self._changes[position:]:
                if _matches(item, kind, namespace, labels):
                    yield change, copy.deepcopy(item)
            position = len(self._changes)
            await asyncio.sleep(self._tick)

    async def log(self, pod: str, namespace: str, options: LogOptions = WHOLE_LOG) -> AsyncIterator[str]:
        """Yield the lines of a pod's log."""
        lines = self._logs.get((namespace, pod))
        if lines is None or options.is_previous:
            raise RefusedError(f'container "main" in pod "{pod}" is waiting to start', 400)
        position = max(0, len(lines) - options.tail) if options.tail else 0
        while True:
            for time, line in lines[position:]:
                if options.since is None or time >= options.since:
                    yield f"{_text(time)} {line}\n" if options.has_times else f"{line}\n"
            position = len(lines)
            item = self._objects.get(("Pod", namespace, pod))
            if not options.is_following or item is None or item["status"]["phase"] != "Running":
                return
            await asyncio.sleep(self._tick)

    def _metadata(self, namespace: str) -> Object:
        return {
            "namespace": namespace,
            "uid": f"simulated-{next(self._numbers)}",
            "creationTimestamp": _text(datetime.now(UTC)),
        }

    def _put(self, item: Object) -> None:
        """Store an object, and report it to the watches."""
        key = (item["kind"], item["metadata"]["namespace"], item["metadata"]["name"])
        change = "MODIFIED" if key in self._objects else "ADDED"
        item = copy.deepcopy(item)
        self._changes.append((change, item))
        item["metadata"]["resourceVersion"] = str(len(self._changes))
        self._objects[key] = item

    # what controllers and kubelets do

    async def _run(self, key: tuple[str, str, str]) -> None:
        """Run the pods of a workload to their end, unless it is deleted."""
        workload = self._objects[key]
        manifest = Manifest(workload)
        pods = tuple(pod for part in structures.pods(manifest) for pod in self._pods(part, workload))
        self._state(pods, "Pending", {"waiting": {"reason": "ContainerCreating"}})
        await asyncio.sleep(self._tick * _PULLING_TICKS)
        self._state(pods, "Running", {"running": {"startedAt": _text(datetime.now(UTC))}})
        settings = _environment(pods)
        steps, rate = min(int(settings.get("STEPS", 60)), _MOST_STEPS), settings.get("LEARNING_RATE", 0.01)
        fails = rate > _DIVERGES
        for step in range(1, (min(steps, 8) if fails else steps) + 1):
            await asyncio.sleep(self._tick * 10)
            if key not in self._objects:
                return
            self._print(pods[:1], _line(step, rate, fails=fails))
        if fails:
            self._print(pods[:1], "ValueError: the loss is not a number: the learning rate is too high")
        code = 1 if fails else 0
        ended = {"exitCode": code, "reason": "Error" if fails else "Completed", "finishedAt": _text(datetime.now(UTC))}
        self._state(pods, "Failed" if fails else "Succeeded", {"terminated": ended})
        if key[0] != "Pod" and key in self._objects:
            reason = {"reason": "BackoffLimitExceeded", "message": "a pod has failed"} if fails else {}
            time = {"status": "True", "lastTransitionTime": ended["finishedAt"], **reason}
            self._put({**self._objects[key], "status": {"conditions": [{"type": end, **time} for end in _ENDS[code]]}})

    def _pods(self, part: Pods, workload: Object) -> tuple[Object, ...]:
        """Return the pods of a template."""
        namespace = workload["metadata"]["namespace"]
        if workload["kind"] == "Pod":
            return (workload,)
        owner = {key: workload[key] for key in ("apiVersion", "kind")}
        owner |= {key: workload["metadata"][key] for key in ("name", "uid")}
        pods = []
        for number in range(part.count):
            role = f"-{part.name}" if part.role else ""
            metadata = {
                **self._metadata(namespace),
                "name": f"{workload['metadata']['name']}{role}-{number}",
                "labels": {**mapping(part.metadata.get("labels")), "job-name": workload["metadata"]["name"]},
                "ownerReferences": [owner],
            }
            pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**part.spec}})
        return tuple(pods)

    def _state(self, pods: Sequence[Object], phase: str, state: Object) -> None:
        """Store a new phase of pods, whose containers have all the same state; deleted pods stay deleted."""
        for pod in pods:
            key = ("Pod", pod["metadata"]["namespace"], pod["metadata"]["name"])
            if phase != "Pending" and key not in self._objects:
                continue
            containers = [
                {"name": mapping(item)["name"], "state": state, "restartCount": 0, "image": mapping(item).get("image")}
                for item in listing(pod["spec"].get("containers"))
            ]
            status = {"phase": phase, "containerStatuses": containers, "startTime": _text(datetime.now(UTC))}
            self._put({**pod, "spec": {**pod["spec"], "nodeName": "simulated-1"}, "status": status})
            if phase == "Running":
                self._logs[key[1], key[2]] = []

    def _print(self, pods: Sequence[Object], line: str) -> None:
        for pod in pods:
            self._logs[pod["metadata"]["namespace"], pod["metadata"]["name"]].append((datetime.now(UTC), line))


def _line(step: int, rate: float, *, fails: bool) -> str:
    """Return the line that a simulated program prints after a step."""
    loss = 2.4 * 1.8**step if fails else 0.12 + 2.3 * math.exp(-step * (0.03 + rate)) + 0.04 * math.sin(step * 1.7)
    return jsonio.compact({"step": step, "loss": round(loss, 4), "accuracy": round(1 / (1 + loss), 4)})


def _environment(pods: Sequence[Object]) -> dict[str, float]:
    """Return the variables of the first containers whose values are numbers."""
    values: dict[str, float] = {}
    for pod in pods[:1]:
        for container in listing(pod["spec"].get("containers"))[:1]:
            for entry in map(mapping, listing(mapping(container).get("env"))):
                try:
                    number = float(str(entry.get("value")))
                except ValueError:
                    continue
                if math.isfinite(number) and number > 0:
                    values[str(entry.get("name"))] = number
    return values


def _matches(item: Object, kind: str, namespace: str | None, labels: Mapping[str, str] | None) -> bool:
    metadata = item["metadata"]
    is_there = item["kind"] == kind and metadata.get("namespace") == namespace
    return is_there and (labels or {}).items() <= mapping(metadata.get("labels")).items()


def _text(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")

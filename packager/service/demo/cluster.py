"""Simulates a cluster in memory: pods that start, print curves, and succeed or fail.

A program is simulated by its environment: it takes STEPS steps, one in a second, and fails if LEARNING_RATE is above 1.

Tests: service/demo/test_content.py.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import math
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from packager.base import jsonio
from packager.kubernetes.manifest import Manifest, listing, mapping
from packager.kubernetes.objects import owners
from packager.service.config import ProjectConfig
from packager.service.jobs.kube import WHOLE_LOG, Cluster, LogOptions, RefusedError
from packager.service.registry.bodies import DefinitionBody, TemplateBody
from packager.workloads import structures

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from packager.base.values import Json
    from packager.kubernetes.objects import Object
    from packager.service.access.tokens import Caller
    from packager.service.server import Server
    from packager.workloads.pods import Pods


_TICK = 0.1
"""The seconds between two looks at the changes and logs."""

_PULLING_TICKS = 20
_MOST_STEPS = 3600
_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_DIVERGES = 1.0
"""The learning rate above which a simulated program fails."""

_ENDS = (("Complete", "Completed", "Succeeded"), ("Failed",))
"""The conditions of workloads that have succeeded, each of some kind, and of those that have failed."""


class SimulatedCluster(Cluster):
    """A cluster in memory; with `runs`, programs start and end by themselves."""

    def __init__(self, namespace: str = "demo", tick: float = _TICK, *, runs: bool = True) -> None:
        """Create an empty cluster; `tick` are the seconds of a tenth of a step."""
        super().__init__(None)
        self.namespace = namespace
        self.objects: dict[tuple[str, str], Object] = {}  # all objects, by kind and name
        self.lines: dict[str, list[tuple[datetime, str]]] = {}  # the lines of each pod, each with its time
        self._tick = tick
        self._runs = runs
        self._numbers = itertools.count(1)
        self._changes: list[tuple[str, Object]] = []
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
        key = (item["kind"], item["metadata"]["name"])
        before = self.objects.get(key)
        stored = copy.deepcopy({**(before or {}), **item})
        kept = mapping((before or {}).get("metadata"))
        stored["metadata"] = {**self._metadata(namespace), **kept, **stored["metadata"]}
        self.put(stored)
        if before is None and self._runs and structures.is_workload(Manifest(stored)):
            task = asyncio.create_task(self._run(key))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        return stored

    async def create(self, item: Object, namespace: str, *, dry_run: bool = False) -> None:
        """Store an object, unless one of its name exists."""
        if not dry_run and (item["kind"], item["metadata"]["name"]) not in self.objects:
            await SimulatedCluster.apply(self, item, namespace)

    async def get(self, kind: str, name: str, namespace: str) -> Object | None:  # noqa: ARG002 - it is one for all
        """Return an object, or None if it does not exist."""
        return copy.deepcopy(self.objects.get((kind, name)))

    async def delete(self, kind: str, name: str, namespace: str) -> None:
        """Delete an object and what it owns."""
        if item := self.objects.pop((kind, name), None):
            self._changes.append(("DELETED", item))
            for (owned_kind, owned_name), other in list(self.objects.items()):
                if item["metadata"]["uid"] in owners(other):
                    await SimulatedCluster.delete(self, owned_kind, owned_name, namespace)

    async def list(
        self, kind: str, namespace: str, labels: Mapping[str, str] | None = None
    ) -> tuple[list[Object], str]:
        """Return all objects of a kind, and the version from which a watch continues."""
        version = str(len(self._changes))  # before the items: tests change them in another thread
        items = [item for item in list(self.objects.values()) if _matches(item, kind, namespace, labels)]
        return [copy.deepcopy(item) for item in items], version

    async def watch(
        self, kind: str, namespace: str, version: str, labels: Mapping[str, str] | None = None
    ) -> AsyncIterator[tuple[str, Object]]:
        """Yield each change after a version."""
        position = int(version)
        while True:
            changes = self._changes[position:]
            for change, item in changes:
                if _matches(item, kind, namespace, labels):
                    yield change, copy.deepcopy(item)
            position += len(changes)
            await asyncio.sleep(self._tick)

    async def log(self, pod: str, namespace: str, options: LogOptions = WHOLE_LOG) -> AsyncIterator[bytes]:  # noqa: ARG002
        """Yield the lines of a pod's log."""
        lines = self._lines_of(pod, options)
        if lines is None:
            raise RefusedError(f'container "main" in pod "{pod}" is waiting to start', 400)
        position = max(0, len(lines) - options.tail) if options.tail else 0
        while True:
            for time, line in lines[position:]:
                if options.since is None or time >= options.since:
                    yield (f"{_text(time)} {line}" if options.has_times else line).encode(errors="surrogateescape")
            position = len(lines)
            item = self.objects.get(("Pod", pod))
            if not options.is_following or item is None or item["status"]["phase"] != "Running":
                return
            await asyncio.sleep(self._tick)
            lines = self._lines_of(pod, options) or lines

    def _lines_of(self, pod: str, options: LogOptions) -> Sequence[tuple[datetime, str]] | None:
        """Return the lines of a pod, each with its time; None before it starts."""
        return None if options.is_previous else self.lines.get(pod)

    def _metadata(self, namespace: str) -> Object:
        return {
            "namespace": namespace,
            "uid": f"simulated-{next(self._numbers)}",
            "creationTimestamp": _text(datetime.now(UTC)),
        }

    def put(self, item: Object) -> None:
        """Store an object, and report it to the watches, as a controller does."""
        key = (item["kind"], item["metadata"]["name"])
        change = "MODIFIED" if key in self.objects else "ADDED"
        item["metadata"]["resourceVersion"] = str(next(self._numbers))
        self.objects[key] = item
        self._changes.append((change, copy.deepcopy(item)))

    # what controllers and kubelets do

    async def _run(self, key: tuple[str, str]) -> None:
        """Run the pods of a workload to their end, unless it is deleted."""
        workload = self.objects[key]
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
            if key not in self.objects:
                return
            self._print(pods[:1], _line(step, rate, fails=fails))
        if fails:
            self._print(pods[:1], "ValueError: the loss is not a number: the learning rate is too high")
        code = 1 if fails else 0
        ended = {"exitCode": code, "reason": "Error" if fails else "Completed", "finishedAt": _text(datetime.now(UTC))}
        self._state(pods, "Failed" if fails else "Succeeded", {"terminated": ended})
        if key[0] != "Pod" and key in self.objects:
            reason = {"reason": "BackoffLimitExceeded", "message": "a pod has failed"} if fails else {}
            time = {"status": "True", "lastTransitionTime": ended["finishedAt"], **reason}
            self.put(
                {
                    **copy.deepcopy(self.objects[key]),
                    "status": {"conditions": [{"type": end, **time} for end in _ENDS[code]]},
                }
            )

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
            key = ("Pod", pod["metadata"]["name"])
            if phase != "Pending" and key not in self.objects:
                continue
            containers = [
                {"name": mapping(item)["name"], "state": state, "restartCount": 0, "image": mapping(item).get("image")}
                for item in listing(pod["spec"].get("containers"))
            ]
            status = {"phase": phase, "containerStatuses": containers, "startTime": _text(datetime.now(UTC))}
            self.put(
                {
                    **pod,
                    "metadata": dict(pod["metadata"]),
                    "spec": {**pod["spec"], "nodeName": "simulated-1"},
                    "status": status,
                }
            )
            if phase == "Running":
                self.lines[key[1]] = []

    def _print(self, pods: Sequence[Object], line: str) -> None:
        for pod in pods:
            self.lines[pod["metadata"]["name"]].append((datetime.now(UTC), f"{line}\n"))


def _line(step: int, rate: float, *, fails: bool) -> str:
    """Return the line that a simulated program prints after a step."""
    loss = 2.4 * 1.8**step if fails else 0.12 + 2.3 * math.exp(-step * (0.03 + rate)) + 0.04 * math.sin(step * 1.7)
    return jsonio.compact({"step": step, "loss": round(loss, 4), "accuracy": round(1 / (1 + loss), 4)})


def _environment(pods: Sequence[Object]) -> dict[str, float]:
    """Return the variables of the first container whose values are numbers."""
    values: dict[str, float] = {}
    for container in listing(pods[0]["spec"].get("containers"))[:1]:
        for entry in map(mapping, listing(mapping(container).get("env"))):
            if _NUMBER.fullmatch(str(entry.get("value"))):
                values[str(entry.get("name"))] = float(str(entry["value"]))
    return values


def _matches(item: Object, kind: str, namespace: str, labels: Mapping[str, str] | None) -> bool:
    metadata = item["metadata"]
    is_there = item["kind"] == kind and metadata.get("namespace") == namespace
    return is_there and (labels or {}).items() <= mapping(metadata.get("labels")).items()


def _text(time: datetime) -> str:
    return time.isoformat(timespec="microseconds").replace("+00:00", "Z")


PROJECTS = {
    "research": ProjectConfig(namespace="demo-research", max_gpus=4, max_running=3),
    "vision": ProjectConfig(namespace="demo-vision", max_gpus=2),
}
"""The projects of the server."""

_TEMPLATE = """\
{# Trains a model in one container. The values are environment variables. #}
apiVersion: batch/v1
kind: Job
metadata:
  name: "{{ global.release }}"
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: main
          image: "{{ image.repository }}:{{ image.tag }}"
          env:
            - name: STEPS
              value: "{{ (process.train | default({})).steps or 60 }}"
            - name: LEARNING_RATE
              value: "{{ (process.train | default({})).learningRate or 0.01 }}"
          resources:
            limits:
              nvidia.com/gpu: {{ (resources | default({})).gpus or 1 }}
"""
_VALUES = """\
process:
  train:
    steps: (Optional:integer) How many steps to train, one in a second
    learningRate: (Optional:number) The learning rate; above 1, the loss grows and the job fails
resources:
  gpus: (Optional:integer) How many GPUs to use
"""
_EXAMPLE = """\
taskDef: {name}
process:
  train:
    steps: 60
    learningRate: 0.01
resources:
  gpus: 1
"""
_JOBS: tuple[tuple[str, str, int, float, int], ...] = (
    ("digits", "vision", 45, 0.05, 1),
    ("digits", "vision", 30, 3.0, 1),
    ("language-model", "research", 240, 0.01, 2),
    ("language-model", "research", 900, 0.02, 2),
    ("language-model", "research", 120, 0.01, 4),
)
"""Each job's definition, project, steps, learning rate and GPUs. The last one waits for GPUs."""


async def fill(server: Server, caller: Caller) -> None:
    """Register a template and definitions, and create jobs."""
    await server.templates.add(
        caller, TemplateBody(name="demo-training", template=_TEMPLATE, description="Trains a model with GPUs.")
    )
    for name, text in {"digits": "Recognizes digits.", "language-model": "Trains a language model."}.items():
        body = DefinitionBody(
            name=name,
            task_template_name="demo-training",
            description=text,
            user_values_description=_VALUES,
            user_values_example=_EXAMPLE.format(name=name),
            system_values="image: {repository: registry.example.com/demo, tag: '1.0'}",
        )
        await server.definitions.add(caller, body)
    for name, project, steps, rate, gpus in _JOBS:
        train: dict[str, Json] = {"steps": steps, "learningRate": rate}
        filled: dict[str, Json] = {"taskDef": name, "process": {"train": train}, "resources": {"gpus": gpus}}
        await server.jobs.create(caller, {**filled, "project": project})

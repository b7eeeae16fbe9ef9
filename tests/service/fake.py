"""A Kubernetes cluster in memory, with the methods of `packager.service.jobs.kube.Cluster`."""

from __future__ import annotations

import asyncio
import copy
import itertools
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from packager.service.jobs.kube import WHOLE_LOG, LogOptions, RefusedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from packager.base.errors import ClusterError

Object = dict[str, Any]


class FakeCluster:
    """A cluster in memory. Tests set its attributes.

    Attributes:
        namespace: The default namespace.
        namespaces: All namespaces.
        watches: The number of watches that were started.
        late: Kinds whose watches send nothing.
        objects: All objects, by kind and name.
        error: The error of the next requests; None to answer them.
        refused: Messages by kind, with which the API server refuses objects.
        storage_classes: The names of the storage classes.
        logs: The lines of each pod, by `POD`, `POD/CONTAINER`, `POD/previous` or `POD/previous/CONTAINER`.
        applied: `KIND/NAME` of each object that was applied.
    """

    def __init__(self) -> None:
        self.namespace = "tests"
        self.namespaces = {"tests"}
        self.watches = 0
        self.late: set[str] = set()
        self.objects: dict[tuple[str, str], Object] = {}
        self.error: ClusterError | None = None
        self.refused: dict[str, str] = {}
        self.storage_classes = {"shared"}
        self.logs: dict[str, list[str]] = {}
        self.applied: list[str] = []
        self._numbers = itertools.count(1)
        self._changes: list[tuple[str, str, Object]] = []

    def _answer(self) -> None:
        if self.error:
            raise self.error

    async def close(self) -> None:
        return

    async def apply(self, item: Object, namespace: str, *, dry_run: bool = False) -> Object:
        assert namespace in self.namespaces
        assert item["kind"] != "Secret", "the server may create Secrets, and nothing else"
        self._answer()
        if message := self.refused.get(item["kind"]):
            raise RefusedError(message, 403)
        key = (item["kind"], item["metadata"]["name"])
        if dry_run:
            return item
        self.applied.append("/".join(key))
        before = self.objects.get(key, {})
        stored = copy.deepcopy({**before, **item})
        stored["metadata"] |= {
            "namespace": namespace,
            "uid": before.get("metadata", {}).get("uid") or f"uid-{next(self._numbers)}",
            "creationTimestamp": _now(),
        }
        self.put(stored)
        return stored

    async def create(self, item: Object, namespace: str, *, dry_run: bool = False) -> None:
        assert namespace in self.namespaces
        self._answer()
        if message := self.refused.get(item["kind"]):
            raise RefusedError(message, 403)
        key = (item["kind"], item["metadata"]["name"])
        if not dry_run and key not in self.objects:
            self.applied.append("/".join(key))
            metadata = {"namespace": namespace, "uid": f"uid-{next(self._numbers)}", "creationTimestamp": _now()}
            self.put(copy.deepcopy({**item, "metadata": {**item["metadata"], **metadata}}))

    def put(self, item: Object) -> None:
        """Store an object and send a watch event, as a controller does."""
        key = (item["kind"], item["metadata"]["name"])
        word = "MODIFIED" if key in self.objects else "ADDED"
        item["metadata"]["resourceVersion"] = str(next(self._numbers))
        self.objects[key] = item
        self._changes.append((item["kind"], word, copy.deepcopy(item)))

    async def get(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        assert kind != "Secret", "the server may read none"
        self._answer()
        if namespace is None:
            return {"metadata": {"name": name}} if name in self.storage_classes else None
        return copy.deepcopy(self.objects.get((kind, name)))

    async def delete(self, kind: str, name: str, namespace: str) -> None:
        assert namespace in self.namespaces
        assert kind != "Secret", "the server may delete none"
        self._answer()
        self._delete(kind, name)

    def _delete(self, kind: str, name: str) -> None:
        """Delete an object and the Secrets that it owns, as the garbage collector does."""
        if item := self.objects.pop((kind, name), None):
            self._changes.append((kind, "DELETED", item))
            for (owned_kind, owned_name), owned in list(self.objects.items()):
                owners = owned["metadata"].get("ownerReferences", ())
                if owned_kind == "Secret" and any(owner["uid"] == item["metadata"]["uid"] for owner in owners):
                    self._delete(owned_kind, owned_name)

    async def list(
        self, kind: str, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> tuple[list[Object], str]:
        self._answer()
        if namespace is None:
            return [], "0"
        version = str(len(self._changes))  # before the items: tests change them in another thread
        items = [
            copy.deepcopy(item)
            for (known, _), item in list(self.objects.items())
            if known == kind and _matches(item, namespace, labels)
        ]
        return items, version

    async def watch(
        self, kind: str, namespace: str, version: str, labels: Mapping[str, str] | None = None
    ) -> AsyncIterator[tuple[str, Object]]:
        assert namespace in self.namespaces
        position = int(version)
        self.watches += 1
        while True:
            self._answer()
            if kind in self.late:
                await asyncio.sleep(0.01)
                continue
            changes = self._changes[position:]
            for known, word, item in changes:
                if known == kind and _matches(item, namespace, labels):
                    yield word, copy.deepcopy(item)
            position += len(changes)
            await asyncio.sleep(0.01)

    async def log(
        self,
        pod: str,
        namespace: str,
        options: LogOptions = WHOLE_LOG,
    ) -> AsyncIterator[str]:
        assert namespace in self.namespaces
        self._answer()
        name = f"{pod}/previous" if options.is_previous else pod
        known = self.logs.get(f"{name}/{options.container}", self.logs.get(name))
        if known is None or ("Pod", pod) not in self.objects:
            raise RefusedError(f'container "main" in pod "{pod}" is waiting to start', 400)
        position = max(0, len(known) - options.tail) if options.tail else 0
        while True:
            for number, line in enumerate(known[position:], position):
                time = datetime(2026, 11, 22, 10, 0, number % 60, 500_000, UTC)
                if options.since is None or time >= options.since:
                    yield f"{time.isoformat().replace('+00:00', 'Z')} {line}" if options.has_times else line
            position = len(known)
            if not options.is_following or self.objects["Pod", pod]["status"]["phase"] != "Running":
                return
            await asyncio.sleep(0.01)

    # the actions of controllers

    def pod(self, job: str, phase: str, *, exit_code: int | None = None, reason: str = "Error") -> None:
        """Store the pod of a Job."""
        owner = self.objects["Job", job]
        state: Object = {"running": {}}
        if exit_code is not None:
            state = {"terminated": {"exitCode": exit_code, "reason": "Completed" if exit_code == 0 else reason}}
        template = owner["spec"]["template"]
        container = template["spec"]["containers"][0]["name"]
        self.put(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{job}-x2x9p",
                    "uid": f"pod-{job}",
                    "namespace": owner["metadata"]["namespace"],
                    "labels": {**template["metadata"]["labels"], "job-name": job},
                    "creationTimestamp": _now(),
                    "ownerReferences": [{"uid": owner["metadata"]["uid"]}],
                },
                "spec": {**template["spec"], "nodeName": "n3"},
                "status": {
                    "phase": phase,
                    "containerStatuses": [{"name": container, "state": state, "restartCount": 0, "image": "x:1"}],
                },
            }
        )

    def end(self, job: str, condition: str) -> None:
        """End a Job with a condition: Complete or Failed."""
        item = copy.deepcopy(self.objects["Job", job])
        item["status"] = {"conditions": [{"type": condition, "status": "True", "reason": "BackoffLimitExceeded"}]}
        self.put(item)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _matches(item: Object, namespace: str, labels: Mapping[str, str] | None) -> bool:
    metadata: Object = item["metadata"]
    return bool(metadata.get("namespace") == namespace) and (labels or {}).items() <= metadata.get("labels", {}).items()

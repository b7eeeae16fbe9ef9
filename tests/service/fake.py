"""The simulated cluster of the demonstration, in which nothing happens by itself, with what only tests need."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from packager.service.demo.cluster import SimulatedCluster
from packager.service.jobs.kube import WHOLE_LOG, LogOptions, RefusedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from packager.base.errors import ClusterError

Object = dict[str, Any]


class FakeCluster(SimulatedCluster):
    """A cluster in memory. Tests set its attributes.

    Attributes:
        namespaces: All namespaces.
        watches: The number of watches that were started.
        late: Kinds whose watches send nothing.
        error: The error of the next requests; None to answer them.
        refused: Messages by kind, with which the API server refuses objects.
        logs: The lines of each pod, by `POD`, `POD/CONTAINER`, `POD/previous` or `POD/previous/CONTAINER`.
        applied: `KIND/NAME` of each object that was applied.
    """

    def __init__(self) -> None:
        super().__init__("tests", 0.01, runs=False)
        self.namespaces = {"tests"}
        self.watches = 0
        self.late: set[str] = set()
        self.error: ClusterError | None = None
        self.refused: dict[str, str] = {}
        self.logs: dict[str, list[str]] = {}
        self.applied: list[str] = []

    def _answer(self, item: Object | None = None) -> None:
        if self.error:
            raise self.error
        if item and (message := self.refused.get(item["kind"])):
            raise RefusedError(message, 403)

    async def apply(self, item: Object, namespace: str, *, dry_run: bool = False) -> Object:
        assert namespace in self.namespaces
        assert item["kind"] != "Secret", "the server may create Secrets, and nothing else"
        self._answer(item)
        if not dry_run:
            self.applied.append(f"{item['kind']}/{item['metadata']['name']}")
        return await super().apply(item, namespace, dry_run=dry_run)

    async def create(self, item: Object, namespace: str, *, dry_run: bool = False) -> None:
        assert namespace in self.namespaces
        self._answer(item)
        if not dry_run and (item["kind"], item["metadata"]["name"]) not in self.objects:
            self.applied.append(f"{item['kind']}/{item['metadata']['name']}")
        await super().create(item, namespace, dry_run=dry_run)

    async def get(self, kind: str, name: str, namespace: str) -> Object | None:
        assert kind != "Secret", "the server may read none"
        self._answer()
        return await super().get(kind, name, namespace)

    async def delete(self, kind: str, name: str, namespace: str) -> None:
        assert namespace in self.namespaces
        assert kind != "Secret", "the server may delete none"
        self._answer()
        await super().delete(kind, name, namespace)

    async def list(
        self, kind: str, namespace: str, labels: Mapping[str, str] | None = None
    ) -> tuple[list[Object], str]:
        self._answer()
        return await super().list(kind, namespace, labels)

    async def watch(
        self, kind: str, namespace: str, version: str, labels: Mapping[str, str] | None = None
    ) -> AsyncIterator[tuple[str, Object]]:
        assert namespace in self.namespaces
        self.watches += 1
        self._answer()
        async for change in super().watch(kind, namespace, version, labels):
            if kind not in self.late:
                yield change

    async def log(self, pod: str, namespace: str, options: LogOptions = WHOLE_LOG) -> AsyncIterator[bytes]:
        assert namespace in self.namespaces
        self._answer()
        async for chunk in super().log(pod, namespace, options):
            yield chunk

    def _lines_of(self, pod: str, options: LogOptions) -> Sequence[tuple[datetime, str]] | None:
        name = f"{pod}/previous" if options.is_previous else pod
        known = self.logs.get(f"{name}/{options.container}", self.logs.get(name))
        if known is None or ("Pod", pod) not in self.objects:
            return None
        times = (datetime(2026, 11, 22, 10, 0, number % 60, 500_000, UTC) for number in range(len(known)))
        return list(zip(times, known, strict=True))

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

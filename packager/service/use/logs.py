"""The use case of logs: reads logs of existing pods, and kept logs of deleted ones. Tests: service/api/test_logs.py."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from packager.base import units
from packager.base.errors import ClusterError, UnreachableError
from packager.base.values import Value, replace
from packager.service.access import permissions
from packager.service.failures import Failure
from packager.service.jobs.kube import LogOptions, RefusedError, pods_of
from packager.service.jobs.logs import MOST_PODS, kept_lines
from packager.service.store.databases import AwayError
from packager.service.store.store import FINAL
from packager.service.use.events import guarded

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
    from collections.abc import Set as AbstractSet
    from typing import TypeAlias

    from packager.service.access.tokens import Caller
    from packager.service.jobs.kube import Cluster
    from packager.service.store.models import StoredJob, StoredLog
    from packager.service.store.store import Store

    Authenticate = Callable[[], Awaitable[Caller]]
    Chunks: TypeAlias = AsyncIterator[str]

_AHEAD = 100
"""The most chunks of several pods that wait for a slow reader."""

_POLL_SECONDS = 2.0
_FIRST_LINE_SECONDS = 1.0


class _Source(Value, frozen=True):
    """The source of the requested logs of a job: the cluster for existing pods, and the database."""

    store: Store
    cluster: Cluster
    job: StoredJob
    options: LogOptions
    kept: Sequence[StoredLog]  # without their content
    live: AbstractSet[str]  # the names of the existing pods

    async def opened(self, pod: str) -> Chunks:
        """Return the log of a pod, whose first lines are read. Raises Failure or ClusterError."""
        if pod not in self.live:
            return await self._from_kept(pod)
        stream = self.cluster.log(pod, self.job.namespace, self.options)
        try:
            return _after(await anext(stream, b""), stream)
        except ClusterError as error:
            if any(entry.pod == pod for entry in self.kept):
                return await self._from_kept(pod)
            if isinstance(error, RefusedError):
                raise Failure("no-log" if error.is_about_start else "conflict", str(error)) from None
            raise

    async def started(self, pod: str) -> Chunks:
        """Return the log of a pod after waiting for its container to start. Raises as `opened`."""
        while True:
            try:
                return await self.opened(pod)
            except Failure as failure:
                if failure.kind != "no-log":
                    raise
                with suppress(AwayError):
                    job = await asyncio.to_thread(self.store.job, self.job.release)
                    if job is None or job.status in FINAL:
                        raise
            await asyncio.sleep(_POLL_SECONDS)

    async def _from_kept(self, pod: str) -> Chunks:
        options = self.options
        instance = "previous" if options.is_previous else "current"
        entries = [entry for entry in self.kept if (entry.pod, entry.instance) == (pod, instance)]
        named = [entry for entry in entries if options.container in (None, entry.container)]
        main = [entry for entry in named if entry.place >= 0] or named
        if not main:
            names = ", ".join(dict.fromkeys(entry.container for entry in entries)) or "none"
            raise Failure("conflict", f"no such log of {pod} was kept: the containers are {names}")

        def read() -> str:
            content = self.store.logs.content(main[0])
            lines = kept_lines(content, tail=options.tail, since=options.since, has_times=options.has_times)
            return "".join(lines)

        return _after((await asyncio.to_thread(read)).encode())


async def _after(first: bytes, rest: AsyncIterator[bytes] | None = None) -> AsyncGenerator[str]:
    if first:
        yield first.decode(errors="replace")
    if rest is not None:
        async for chunk in rest:
            yield chunk.decode(errors="replace")


def _named(pod: str, chunk: str) -> str:
    """Return a chunk of lines, each with the name of its pod."""
    end = "\n" if chunk.endswith("\n") else ""
    return f"{pod}: " + chunk.removesuffix("\n").replace("\n", f"\n{pod}: ") + end


class Logs:
    """The use case of logs."""

    def __init__(self, store: Store, cluster: Cluster, server: str) -> None:
        self._store = store
        self._cluster = cluster
        self._server = server

    async def open(self, authenticate: Authenticate, release: str, pod: str | None, options: LogOptions) -> Chunks:
        """Return the log of a job that the caller owns, or in whose project they act for others.

        Without a pod, it is that of all pods: with several, each line begins with the name of its pod, and following
        continues with pods that start later.

        Raises Failure or ClusterError.
        """

        async def check() -> StoredJob:
            caller, read = await authenticate(), self._store.job
            action = "read the logs of others"
            return await asyncio.to_thread(permissions.own_job, caller, release, read, action, "viewer")

        job = await check()
        kept = await asyncio.to_thread(self._store.logs.of_job, release)
        try:
            live = {
                item["metadata"]["name"] for item in await pods_of(self._cluster, job.namespace, release, self._server)
            }
        except UnreachableError:
            if not kept:
                raise
            live = set()
        pods = _chosen({*live, *(entry.pod for entry in kept)}, pod, options)
        source = _Source(self._store, self._cluster, job, options, kept, live)
        if options.is_following:
            begun: dict[str, Chunks] = {}
            if len(pods) == 1:
                # An error becomes the status of the answer. But a kubelet does not answer before the first line, for
                # which the request must not wait in the place of others.
                with suppress(TimeoutError):
                    async with asyncio.timeout(_FIRST_LINE_SECONDS):
                        begun[pods[0]] = await source.opened(pods[0])
            is_growing = pod is None and not options.is_previous and job.status not in FINAL
            return guarded(_Followed(source, pods, begun).lines(is_growing=is_growing), check)
        return _in_turn(source, pods, await source.opened(pods[0]))  # an error becomes the status of the answer


def moment(since: str | None) -> datetime | None:
    """Return a time, or the time of a duration before now. Raises Failure."""
    try:
        return units.moment(since, datetime.now(UTC)) if since else None
    except ValueError as error:
        raise Failure("invalid-query", f"since: {error}") from None


def _chosen(pods: set[str], pod: str | None, options: LogOptions) -> list[str]:
    """Return the names of the requested pods: one, or all. Raises Failure."""
    names = sorted(pods)
    if not names:
        raise Failure("no-log", "the job has no pod: it has not started, or its pods were deleted")
    if pod is not None and pod not in names:
        raise Failure("not-found", f"pod {pod!r} not found: the pods are {', '.join(names)}")
    if options.is_following and pod is None and len(names) > MOST_PODS:
        raise Failure("conflict", f"follow takes {MOST_PODS} pods at most: name one of {', '.join(names)}")
    return names if pod is None else [pod]


async def _in_turn(source: _Source, pods: Sequence[str], first: Chunks) -> AsyncGenerator[str]:
    """Yield the log of the first pod, which is open, and then those of the other pods."""
    for pod in pods:
        try:
            chunks = first if pod == pods[0] else await source.opened(pod)
            async for chunk in chunks:
                yield _named(pod, chunk) if len(pods) > 1 else chunk
        except (ClusterError, Failure) as error:
            yield f"{pod}: [{error}]\n" if len(pods) > 1 else f"[{error}]\n"


class _Followed:
    """The logs of pods, merged as lines are written; with several pods, each line begins with the name of its pod."""

    def __init__(self, source: _Source, pods: Sequence[str], begun: dict[str, Chunks]) -> None:
        self._source = source
        self._pods = pods
        self._opened = begun
        self._chunks: asyncio.Queue[tuple[str, str | None]] = asyncio.Queue(_AHEAD)
        self._known = source.job.pod_names | {*pods}
        self._readers: dict[str, asyncio.Task[None]] = {}
        self._open = 0

    async def lines(self, *, is_growing: bool) -> AsyncGenerator[str]:
        """Yield chunks until all logs have ended; with `is_growing`, also of pods that start before the job ends."""
        for pod in self._pods:
            self._begin(pod, self._source)
        later = [asyncio.create_task(self._begin_later())] if is_growing else []
        self._open += len(later)
        try:
            while self._open:
                pod, chunk = await self._chunks.get()
                if chunk is None:
                    self._open -= 1
                else:
                    yield _named(pod, chunk) if len(self._readers) > 1 else chunk
        finally:
            tasks = (*later, *self._readers.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, pod: str, source: _Source) -> None:
        self._known.add(pod)
        self._open += 1
        self._readers[pod] = asyncio.create_task(self._read(pod, source))

    async def _begin_later(self) -> None:
        """Begin to read the logs of pods that start later, until the job has ended."""
        source, is_over = self._source, False
        while not is_over:
            await asyncio.sleep(_POLL_SECONDS)
            with suppress(AwayError):
                job = await asyncio.to_thread(source.store.job, source.job.release)
                if job is None:
                    break
                is_over = job.status in FINAL
                live = job.pod_names - self._known
                kept = await asyncio.to_thread(source.store.logs.of_job, job.release) if live or is_over else []
                gone = {entry.pod for entry in kept} - self._known - live if is_over else set()
                room = max(0, MOST_PODS - sum(not reader.done() for reader in self._readers.values()))
                whole = replace(source, options=replace(source.options, tail=None), kept=kept, live=live)
                for pod in sorted(live | gone)[:room]:
                    self._begin(pod, whole)
        await self._chunks.put(("", None))

    async def _read(self, pod: str, source: _Source) -> None:
        """Put the chunks of a log into the queue, and None at its end."""
        try:
            chunks = self._opened.get(pod) or await source.started(pod)
            async for chunk in chunks:
                await self._chunks.put((pod, chunk))
        except (ClusterError, Failure) as error:
            await self._chunks.put((pod, f"[{error}]\n"))
        except AwayError:  # the message may name hosts and users
            await self._chunks.put((pod, "[the database does not answer]\n"))
        await self._chunks.put((pod, None))

"""Reads the logs of a deployed package's pods as they are written."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packager.base.errors import ClusterError, UnreachableError, UsageError
from packager.cluster.follow import follow_one
from packager.cluster.logreader import WHOLE, LogRange, LogReader
from packager.cluster.podwatch import PodWatch
from packager.cluster.target import pod_of_index
from packager.kubernetes.objects import container_names, created, name, uid
from packager.kubernetes.pods import after_carriage_return
from packager.kubernetes.stopped import started_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from packager.cluster.follow import Update
    from packager.cluster.target import Target
    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot
    from packager.kubernetes.verdict import Verdict
    from packager.workloads.workload import Workload

__all__ = ["MAIN", "Feed", "LogRange", "NewestLine", "PodSelection", "command_for_log", "follow", "logs"]

REFUSED_SECONDS = 15.0
"""Seconds after which a refusal counts as permanent: a restarting API server may forbid everything for a moment."""

UNANSWERED_SECONDS = 300.0
"""Seconds without an answer after which a log is given up."""

_BLOCK_BYTES = 64 << 10
_PATIENCE = 2.0
_LINE_BYTES = 4 << 10


Part = bytes | str
"""Bytes of a log, or a remark for a person on what comes before or after them."""


@dataclass(frozen=True, slots=True)
class PodSelection:
    """The pods and containers whose logs are read.

    Attributes:
        worker: The index of the worker or pod; None for the main pod, or for all pods if there is no main one.
        all_pods: Whether to read every pod; each line then begins with the name of its pod.
        container: The container; None for the main one of each pod. Pods without it are left out.
    """

    worker: int | None = None
    all_pods: bool = False
    container: str | None = None


MAIN = PodSelection()


class Feed:
    """The new part of the logs of the selected pods.

    Args:
        of: The opened overlay of the workload.
        selection: The pods and containers.
        part: The part of each log to read. `tail` applies to the pods of the first reading.
        is_following: Whether reading continues; errors may then pass, and are reported when they begin and end.
        watch: Keeps the logs of at least the selected pods; None for a watch that keeps only these.

    Attributes:
        of: The opened overlay of the workload.
        watch: Keeps the logs of the selected pods for a follower of the workload, even when the pods are deleted.
        has_written: Whether any byte has been read.
        error: The error of the last reading; None if everything could be read.
    """

    def __init__(
        self,
        target: Target,
        selection: PodSelection = MAIN,
        part: LogRange = WHOLE,
        *,
        is_following: bool = False,
        watch: PodWatch | None = None,
    ) -> None:
        self.has_written = False
        self.error: ClusterError | None = None
        self.target = target
        self.watch = watch or PodWatch(target.kubectl, self._selected, selection.container)
        self._worker = selection.worker
        self._all_pods = selection.all_pods
        self._container = selection.container
        self._part = part
        self._is_whole = part.is_whole
        self._is_following = is_following
        self._readers: dict[str, LogReader] = {}
        self._finished: set[str] = set()  # the uids of deleted pods whose logs were read to their ends
        self._has_waited = False
        self._has_read = False
        self._is_refused = False
        self._failing_since = 0.0
        self._open = ""  # the pod of an unfinished last line on stdout

    def read(self, snapshot: Snapshot) -> Iterator[Part]:
        """Yield the new parts, and set `error` if some could not be read."""
        if self._worker is None and self.target.manifests.kind.indexes(snapshot.workload):
            self._all_pods = True  # there is no main pod
        pods = self._with_container(self._pods(snapshot))
        if not pods and not self._has_waited:
            yield f"waiting for the {'pods' if self._all_pods else 'pod'} of {self.target.shown}"
            self._has_waited = True
        earlier, self.error = self.error, None
        yield from self._read_deleted(snapshot)
        for pod in pods:
            try:
                yield from self._read(pod)
            except ClusterError as error:
                self.error = self.error or error
        self._part = replace(self._part, tail=None)  # all lines of later pods are new
        self._has_read |= bool(pods) and self.error is None
        if self.error is not None and earlier is None:
            self._failing_since = self.target.kubectl.runner.clock()
            if self._is_following:
                yield f"{self.error}; it continues when the log can be read"
        elif self.error is None and earlier is not None:
            yield "the log can be read again"

    def raise_if_hopeless(self) -> None:
        """Raise the error of the last reading if waiting would not help.

        Raises:
            ClusterError: The cluster has refused from the start or for a long time, or has not answered for very long.
        """
        if self.error is None:
            return
        refused = REFUSED_SECONDS if self._has_read else 0.0
        patience = UNANSWERED_SECONDS if isinstance(self.error, UnreachableError) else refused
        if self.target.kubectl.runner.clock() - self._failing_since >= patience:
            raise self.error

    def nothing_written(self) -> ClusterError | None:
        """Return the error for a log that was read without an error and is empty; None for a part that may be empty."""
        hint = self.target.command("status")
        if self._part.is_previous:
            return ClusterError(f"{self.target.shown} has no log from before a restart", hint=hint)
        if not self._is_whole:
            return None
        for reader in self._readers.values():
            if reader.is_gone:
                return ClusterError(f"{reader.shown} was deleted, and its log with it", hint=hint)
            if reader.may_miss_all:
                kept = "or its node has already removed the log"
                return ClusterError(f"{self.target.shown} has written nothing yet, {kept}", hint=hint)
        return ClusterError(f"{self.target.shown} has written nothing yet", hint=hint)

    def _read_deleted(self, snapshot: Snapshot) -> Iterator[Part]:
        """Yield the parts of deleted pods' logs that were not read before; those of earlier attempts come first."""
        living = set(map(uid, snapshot.pods))
        pods = self.watch.pods_since(created(snapshot.workload)) if self._is_following else []
        if self.watch.is_refused and not self._is_refused:
            self._is_refused = True
            yield "you may not watch pods: logs of pods that are deleted within seconds may be missing"
        for pod in _by_attempt(self.target.manifests.kind, pods, self._selected):
            if uid(pod) in living or uid(pod) in self._finished or not started_at(pod):
                continue
            self._finished.add(uid(pod))
            reader, log = self._reader(pod), self.watch.log(pod)
            if log is not None and not reader.is_complete:
                log.has_ended.wait(_PATIENCE)
                yield from self._parts(pod, reader, reader.read_kept(log))
            if not reader.is_complete:
                yield f"the end of the log of {reader.shown} is missing: the pod was deleted before it was read"

    def _reader(self, pod: Object) -> LogReader:
        return self._readers.setdefault(uid(pod), LogReader(self.target.kubectl, pod, self._container, self._part))

    def _read(self, pod: Object) -> Iterator[Part]:
        reader = self._reader(pod)
        yield from self._parts(pod, reader, reader.read(pod))

    def _parts(self, pod: Object, reader: LogReader, new_data: Iterator[bytes]) -> Iterator[Part]:
        had_begun, gaps, block = bool(reader.begin), reader.gaps, bytearray()
        try:
            for data in new_data:
                self.has_written = True
                if reader.gaps > gaps:
                    yield _drained(block)
                    gaps = reader.gaps
                    yield _gap(reader)
                block += self._with_pod_prefix(name(pod), data)
                if len(block) >= _BLOCK_BYTES:
                    yield _drained(block)
        finally:
            if block:
                yield _drained(block)
        if reader.late and not had_begun:
            late = f"the log of {reader.shown} begins {reader.late.total_seconds():,.0f} s after its container started"
            yield f"{late}: earlier lines, if any, are no longer on its node"
        if reader.gaps > gaps:
            yield _gap(reader)

    def _with_pod_prefix(self, pod: str, data: bytes) -> bytes:
        """Return a line or a part of a line with the prefix of its pod, if it needs one."""
        before = b"\n" if self._open and self._open != pod else b""
        if self._all_pods and self._open != pod:
            before += f"[{pod}] ".encode()
        self._open = "" if data.endswith(b"\n") else pod
        return before + data

    def _pods(self, snapshot: Snapshot) -> list[Object]:
        """Return the selected pods. Raises UsageError if the workload has no such worker."""
        kind = self.target.manifests.kind
        if self._worker is not None and kind.indexes(snapshot.workload):
            pod = pod_of_index(kind, snapshot, self._worker)
            return [pod] if pod else []
        if self._worker is not None and (workers := kind.workers(snapshot.pods))[: self._worker] == workers:
            if workers:
                raise UsageError(f"worker {self._worker} not found", hint=f"there are 0 to {len(workers) - 1}")
            return []
        return self._selected(snapshot.pods)

    def _selected(self, pods: Sequence[Object]) -> list[Object]:
        """Return those pods of an attempt whose logs are read, as far as they exist."""
        kind, workload = self.target.manifests.kind, self.target.manifests.workload
        if self._worker is not None:
            by_index = kind.indexed(pods) if kind.indexes(workload) else dict(enumerate(kind.workers(pods)))
            return [by_index[self._worker]] if self._worker in by_index else []
        if self._all_pods or kind.indexes(workload):
            return kind.listed(pods)
        main = kind.main(pods)
        return [main] if main else []

    def _with_container(self, pods: Sequence[Object]) -> Sequence[Object]:
        """Return the pods that have the container. Raises UsageError if there are pods, and none has it."""
        if self._container is None:
            return pods
        having = [pod for pod in pods if self._container in container_names(pod)]
        if pods and not having:
            names = ", ".join(dict.fromkeys(name for pod in pods for name in container_names(pod)))
            raise UsageError(f"container {self._container} not found", hint=f"there are {names}")
        return having


def _by_attempt(
    kind: Workload, pods: Sequence[Object], selected: Callable[[Sequence[Object]], Sequence[Object]]
) -> list[Object]:
    """Return the selected pods of each attempt, in order of the attempts."""
    ordered: list[Object] = []
    rest = list(pods)
    while rest:
        newest = kind.listed(rest)
        if not newest:
            break
        ordered[:0] = selected(newest)
        attempt = set(map(uid, newest))
        rest = [pod for pod in rest if uid(pod) not in attempt]
    return ordered


def _drained(block: bytearray) -> bytes:
    """Return and remove the content of the block, so that nothing is returned twice if the caller stops reading."""
    data = bytes(block)
    block.clear()
    return data


def _gap(reader: LogReader) -> str:
    return f"lines of {reader.shown} may be missing here: its node has rotated the log since the last read"


def logs(feed: Feed) -> Iterator[Part]:
    """Yield the logs that the pods of `feed` have written until now.

    Raises:
        UsageError: There is no such worker.
        ClusterError: The workload does not exist, has written nothing yet, or its log cannot be read.
    """
    target = feed.target
    snapshot = target.observe(events=False)
    if snapshot is None:
        raise ClusterError(f"{target.shown} not found", hint=target.command("deploy"))
    yield from feed.read(snapshot)
    if feed.error:
        raise feed.error
    if not feed.has_written and (error := feed.nothing_written()):
        raise error


def follow(feed: Feed) -> Iterator[Part]:
    """Yield the logs of the pods of `feed` as they are written, until the workload has ended.

    Raises:
        UsageError: There is no such worker.
        ClusterError: The workload does not exist, cannot run, or its log cannot be read for a long time.
    """
    target, lost = feed.target, ""
    for update in follow_one(target, keep_following=True, watch=feed.watch):
        if update.silence:
            trouble = "does not answer" if isinstance(update.error, UnreachableError) else "does not report the state"
            if trouble != lost:
                why = "" if isinstance(update.error, UnreachableError) else f": {update.error}"
                yield f"the cluster {trouble}; the log continues when it does{why}"
            lost = trouble
            continue
        if lost:
            yield "the cluster is reachable again"
            lost = ""
        if update.snapshot is None:
            raise ClusterError(f"{target.shown}: {update.verdict.summary}", hint=target.command("deploy"))
        yield from feed.read(update.snapshot)
        feed.raise_if_hopeless()
        if update.is_last and not update.verdict.phase.is_over and not feed.has_written:
            raise ClusterError(f"{target.shown} cannot run: {update.verdict.summary}", hint=target.command("status"))
    if feed.error:
        raise feed.error


def command_for_log(target: Target, verdict: Verdict) -> str:
    """Return the command line that prints the log of the pod that made the workload fail, main pod or not."""
    kind, name = target.manifests.kind, target.manifests.name
    pod = verdict.findings[0].subject.removeprefix("pod/") if verdict.findings else ""
    return target.command("logs", *(("--all",) if kind.role(name, pod) == "worker" else ()))


class NewestLine:
    """The newest line of the main pod's log, for displays that show a single line."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._pod = ""
        self._reader: LogReader | None = None
        self._line = b""
        self._newest: str | None = None

    def read(self, update: Update) -> str | None:
        """Return the newest line; None if there is none or the log cannot be read."""
        pod = self.target.manifests.kind.main(update.snapshot.pods) if update.snapshot else None
        if pod is None or update.silence:
            return self._newest
        if uid(pod) != self._pod or self._reader is None:
            self._pod, self._reader = uid(pod), LogReader(self.target.kubectl, pod)
        with suppress(ClusterError):
            for data in self._reader.read(pod, patience=_PATIENCE):
                self._line = (self._line + data)[-_LINE_BYTES:]
                self._newest = after_carriage_return(self._line.decode(errors="replace")) or self._newest
                self._line = b"" if data.endswith(b"\n") else self._line
        return self._newest

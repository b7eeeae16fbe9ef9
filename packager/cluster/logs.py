"""Reads the logs of a deployed package's pods as they are written."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from packager.base.errors import ClusterError, UnreachableError, UsageError
from packager.cluster.logreader import ContainerLog, LogPart, LogStreams, Prefixes, read_once
from packager.cluster.podwatch import Begin, PodWatch
from packager.cluster.target import Target, pods_by_index
from packager.cluster.workload_watch import Update, follow_one
from packager.kubernetes.manifest import Manifest, listing, mapping
from packager.kubernetes.objects import Object, container_names, created, name, uid
from packager.kubernetes.pods import after_carriage_return
from packager.kubernetes.snapshot import Snapshot
from packager.kubernetes.verdict import Verdict
from packager.workloads.structures import pods as groups_of

REFUSED_SECONDS = 15.0
"""Seconds after which a refusal counts as permanent: a restarting API server may forbid everything for a moment."""

UNANSWERED_SECONDS = 300.0
"""Seconds without an answer after which a log is given up."""

_FIRST_SECONDS = 1.0
"""Seconds in which the first lines of a new log arrive; others are shown with the next look at the pods."""

_LINE_BYTES = 4 << 10

Part = bytes | str
"""Bytes of a log, or a remark for a person on what comes before or after them."""


@dataclass(frozen=True, slots=True)
class PodSelection:
    """The pods and containers whose logs are read."""

    worker: int | None = None  # the index of the worker or pod; None for the main pod, or for all if there is none
    all_pods: bool = False  # whether to read every pod; each line then begins with the name of its pod
    container: str | None = None  # None for the main one of each pod; pods without it are left out


MAIN = PodSelection()


class Feed:
    """The new part of the logs of the selected pods.

    `tail` is the number of last lines, of pods of the first reading; None for all. `also` receives the living pods that
    the watch has seen.
    """

    def __init__(
        self, target: Target, selection: PodSelection = MAIN, tail: int | None = None, also: Begin | None = None
    ) -> None:
        self.has_written = False  # whether any byte has been read
        self.error: ClusterError | None = None  # the error of the last reading; None if everything could be read
        self.target = target
        self.selection = selection
        self.tail = tail
        self.streams = LogStreams(target.kubectl)
        # sees pods that begin and end between two looks, for a follower of the workload
        self.watch = PodWatch(target.kubectl, self._begin)
        self._also = also
        self._workload: Object | None = None
        self._has_read = False
        self._has_said: set[str] = set()
        self._failing_since = 0.0
        self._prefixes = Prefixes()
        has_indexes = bool(target.manifests.kind.indexes(target.manifests.workload))
        self._is_of_all = selection.all_pods or (selection.worker is None and has_indexes)

    def select(self, snapshot: Snapshot) -> Sequence[Object]:
        """Return the pods whose logs are read. Raises UsageError if there is no such worker or container."""
        kind, worker, container = self.target.manifests.kind, self.selection.worker, self.selection.container
        self._workload = snapshot.workload
        if worker is not None:
            pods_by_index(kind, snapshot.workload, snapshot.pods, worker)
        pods = self._selected(snapshot.workload, snapshot.pods)
        if container is None:
            return pods
        having = [pod for pod in pods if container in container_names(pod)]
        if pods and not having:
            names = ", ".join(dict.fromkeys(name for pod in pods for name in container_names(pod)))
            raise UsageError(f"container {container} not found", hint=f"there are {names}")
        return having

    def _selected(self, workload: Object, pods: Sequence[Object]) -> list[Object]:
        """Return those pods of an attempt whose logs are read, as far as they exist."""
        kind, worker = self.target.manifests.kind, self.selection.worker
        if self._is_of_all:
            return kind.listed(pods)
        pod = kind.main(pods) if worker is None else pods_by_index(kind, workload, pods).get(worker)
        return [pod] if pod else []

    def _begin(self, pods: Sequence[Object]) -> None:
        """Begin with the logs of pods that the watch has seen, all since the workload was created."""
        workload = self._workload
        if self._also:
            self._also(pods)
        if workload is not None:
            self._follow(self._selected(workload, [pod for pod in pods if created(pod) >= created(workload)]))

    def _follow(self, pods: Iterable[Object]) -> bool:
        followed = [self.streams.follow(pod, self.selection.container, self.tail) for pod in pods]
        return all(followed)

    def missing(self, pods: Sequence[Object]) -> Iterator[str]:
        """Yield a remark if there are no pods yet."""
        if not pods:
            yield from self._say_once(f"waiting for the {'pods' if self._is_of_all else 'pod'} of {self.target.shown}")

    def read(self, snapshot: Snapshot) -> Iterator[Part]:
        """Yield the new parts, and set `error` if some could not be read."""
        pods = self.select(snapshot)
        yield from self.missing(pods)
        if self.watch.is_refused:
            refused = "you may not watch pods: logs of pods that are deleted within seconds may be missing"
            yield from self._say_once(refused)
        living = set(map(uid, snapshot.pods))
        if self.selection.worker is None:
            for pod in self.watch.pods_since(created(snapshot.workload)):
                if uid(pod) not in living and self._selected(snapshot.workload, [pod]):
                    self.streams.follow(pod, self.selection.container, self.tail, is_deleted=True)
        if not self._follow(pods):
            many = "too many pods run at the same time: logs of some are printed when others have ended"
            yield from self._say_once(many)
        self.tail = None  # all lines of later pods are new
        self.streams.wait(_FIRST_SECONDS)
        yield from self._shown(self.streams.parts())
        error = self.streams.error
        self._has_read |= bool(pods) and error is None
        if error is not None and self.error is None:
            self._failing_since = self.target.kubectl.runner.clock()
            yield f"{error}; it continues when the log can be read"
        elif error is None and self.error is not None:
            yield "the log can be read again"
        self.error = error

    def finish(self) -> Iterator[Part]:
        """Yield the rest of the logs, and set `error` if it cannot be read."""
        yield from self._shown(self.streams.finish())
        self.error = self.streams.error

    def _say_once(self, text: str) -> Iterator[str]:
        if text not in self._has_said:
            self._has_said.add(text)
            yield text

    def raise_if_hopeless(self) -> None:
        """Raise the error of the last reading if waiting would not help."""
        refused = REFUSED_SECONDS if self._has_read else 0.0
        patience = UNANSWERED_SECONDS if isinstance(self.error, UnreachableError) else refused
        if self.error is not None and self.target.kubectl.runner.clock() - self._failing_since >= patience:
            raise self.error

    def _shown(self, parts: Iterable[LogPart]) -> Iterator[Part]:
        for part in parts:
            content = part.content
            yield content if isinstance(content, str) else self.prefixed(name(part.log.pod), content)

    def prefixed(self, pod: str, data: bytes) -> bytes:
        """Return lines with the name of their pod, if there may be several."""
        self.has_written = True
        return self._prefixes.put(pod, data, has_name=self._is_of_all)


def logs(feed: Feed) -> Iterator[Part]:
    """Yield the logs that the pods of `feed` have written until now."""
    target = feed.target
    snapshot = target.observe(events=False)
    if snapshot is None:
        raise ClusterError(f"{target.shown} not found", hint=target.command("deploy"))
    pods = feed.select(snapshot)
    yield from feed.missing(pods)
    logs = [ContainerLog(target.kubectl, pod, feed.selection.container, feed.tail) for pod in pods]
    problem: ClusterError | None = None
    for log in logs:
        try:
            for block in read_once(log):
                yield feed.prefixed(name(log.pod), block)
        except ClusterError as error:
            problem = problem or error
        yield from log.notes
    if problem is None and not feed.has_written and feed.tail is None:
        problem = _nothing_written(target, logs)
    if problem:
        raise problem


def _nothing_written(target: Target, logs: Sequence[ContainerLog]) -> ClusterError:
    """Return the error for logs that were read without an error and are empty."""
    message = f"{target.shown} has written nothing yet"
    if gone := next((log for log in logs if log.is_gone), None):
        message = f"{gone.shown} was deleted, and its log with it"
    elif any(log.is_terminated for log in logs):
        message += ", or its node has already removed the log"
    return ClusterError(message, hint=target.command("status"))


def follow(feed: Feed) -> Iterator[Part]:
    """Yield the logs of the pods of `feed` as they are written, until the workload has ended."""
    target, lost = feed.target, ""
    with feed.streams:
        for update in follow_one(target, keep_following=True, watch=feed.watch):
            if update.silence:
                is_unreachable = isinstance(update.error, UnreachableError)
                trouble = "does not answer" if is_unreachable else "does not report the state"
                if trouble != lost:
                    why = "" if is_unreachable else f": {update.error}"
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
            if update.is_last:
                yield from feed.finish()
            if update.is_last and not update.verdict.phase.is_over and not feed.has_written:
                message = f"{target.shown} cannot run: {update.verdict.summary}"
                raise ClusterError(message, hint=target.command("status"))
    if feed.error:
        raise feed.error


def command_for_log(target: Target, verdict: Verdict) -> str:
    """Return the command line that prints the log of the pod that made the workload fail, main pod or not."""
    kind, name = target.manifests.kind, target.manifests.name
    finding = verdict.findings[0] if verdict.findings else None
    pod = finding.subject.removeprefix("pod/") if finding else ""
    groups = groups_of(Manifest(target.manifests.workload))
    init = {str(mapping(one).get("name")) for group in groups for one in listing(group.spec.get("initContainers"))}
    container = ("--container", str(finding.container)) if finding and finding.container in init else ()
    return target.command("logs", *(("--all",) if kind.role(name, pod) == "worker" else ()), *container)


class NewestLine:
    """The newest line of the main pod's log, for displays that show a single line, until the block ends."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.streams = LogStreams(target.kubectl)
        self._pod = ""
        self._line = b""
        self._newest: str | None = None

    def read(self, update: Update) -> str | None:
        """Return the newest line; None if there is none or the log cannot be read."""
        pod = self.target.manifests.kind.main(update.snapshot.pods) if update.snapshot else None
        if pod is None or update.silence:
            return self._newest
        self._pod = uid(pod)
        self.streams.follow(pod, None, 1)
        self.streams.wait(_FIRST_SECONDS)
        for part in self.streams.parts():
            if isinstance(part.content, bytes) and uid(part.log.pod) == self._pod:
                lines = (self._line + part.content)[-_LINE_BYTES:].splitlines(keepends=True)
                shown = [after_carriage_return(line.decode(errors="replace")) for line in lines]
                self._newest = next((line for line in reversed(shown) if line), self._newest)
                self._line = b"" if part.content.endswith(b"\n") else lines[-1]
        return self._newest

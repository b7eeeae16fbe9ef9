"""Reads the logs of a deployed package's pods as they are written."""

import shlex
from collections.abc import Iterable, Iterator, Sequence

from packager.base.errors import ClusterError, UnreachableError
from packager.cluster.logreader import ContainerLog, LogPart, LogStreams, Prefixes, read_once
from packager.cluster.podwatch import Begin, PodWatch
from packager.cluster.target import Target, pods_by_index
from packager.cluster.workload_watch import follow_one
from packager.kubernetes.manifest import Manifest, listing, mapping
from packager.kubernetes.objects import Object, created, name, uid
from packager.kubernetes.snapshot import Snapshot
from packager.kubernetes.verdict import Verdict
from packager.workloads.structures import pods as groups_of

REFUSED_SECONDS = 15.0
"""Seconds after which a refusal counts as permanent: a restarting API server may forbid everything for a moment."""

UNANSWERED_SECONDS = 300.0
"""Seconds without an answer after which a log is given up."""

_FIRST_SECONDS = 1.0
"""Seconds in which the first lines of a new log arrive; others are shown with the next look at the pods."""

Part = bytes | str
"""Bytes of a log, or a remark for a person on what comes before or after them."""


class Feed:
    """Reads the new parts of logs: of one worker, of all pods, or of the main pod (of all pods if there is none).

    Each line of several pods begins with the name of its pod. `tail` is the number of last lines, of pods of the first
    reading; None for all. `also` receives the living pods that the watch has seen.
    """

    def __init__(
        self,
        target: Target,
        *,
        worker: int | None = None,
        all_pods: bool = False,
        tail: int | None = None,
        also: Begin | None = None,
    ) -> None:
        self.has_written = False  # whether any byte has been read
        self.error: ClusterError | None = None  # the error of the last reading; None if everything could be read
        self.target = target
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
        self._worker = worker
        self._is_of_all = all_pods or (worker is None and has_indexes)

    def select(self, snapshot: Snapshot) -> list[Object]:
        """Return the pods whose logs are read. Raises UsageError if there is no such worker."""
        self._workload = snapshot.workload
        return self._selected(snapshot.workload, snapshot.pods, self._worker)

    def _selected(self, workload: Object, pods: Sequence[Object], wanted: int | None = None) -> list[Object]:
        """Return those pods of an attempt whose logs are read, as far as they exist; `wanted` is required to exist."""
        kind, worker = self.target.manifests.kind, self._worker
        if self._is_of_all:
            return kind.listed(pods)
        pod = kind.main(pods) if worker is None else pods_by_index(kind, workload, pods, wanted).get(worker)
        return [pod] if pod else []

    def _begin(self, pods: Sequence[Object]) -> None:
        """Begin with the logs of pods that the watch has seen, all since the workload was created."""
        workload = self._workload
        if self._also:
            self._also(pods)
        if workload is not None:
            self._follow(self._selected(workload, [pod for pod in pods if created(pod) >= created(workload)]))

    def _follow(self, pods: Iterable[Object]) -> bool:
        followed = [self.streams.follow(pod, None, self.tail) for pod in pods]
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
        if self._worker is None:
            for pod in self.watch.pods_since(created(snapshot.workload)):
                if uid(pod) not in living and self._selected(snapshot.workload, [pod]):
                    self.streams.follow(pod, None, self.tail, is_deleted=True)
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
    logs = [ContainerLog(target.kubectl, pod, tail=feed.tail) for pod in pods]
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
    target, is_lost = feed.target, False
    with feed.streams:
        for update in follow_one(target, keep_following=True, watch=feed.watch):
            if update.silence:
                is_unreachable = isinstance(update.error, UnreachableError)
                trouble = "does not answer" if is_unreachable else f"does not report the state: {update.error}"
                if not is_lost:
                    yield f"the cluster {trouble}; the log continues when it does"
                is_lost = True
                continue
            if is_lost:
                yield "the cluster is reachable again"
                is_lost = False
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
    if finding and finding.container in init:
        return shlex.join(target.kubectl.argv("logs", pod, f"--container={finding.container}"))
    return target.command("logs", *(("--all",) if kind.role(name, pod) == "worker" else ()))

"""Follows a workload through snapshots until its state is final or a deadline is reached.

The state is polled, not watched: a poll has no state to lose when the connection breaks or the API server restarts.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from packager.base.errors import ClusterError, TimedOutError, UnreachableError
from packager.cluster.observe import absent
from packager.cluster.ownership import DEPLOYED_BY, RENDERED
from packager.cluster.podwatch import LogKeeper, PodWatch, ReadSnapshot
from packager.cluster.target import Target
from packager.diagnosis.diagnose import NOTICE, diagnose
from packager.diagnosis.past import Memory, Past
from packager.kubernetes.objects import Object, annotation, is_being_deleted, is_running, shown, uid
from packager.kubernetes.snapshot import Snapshot
from packager.kubernetes.verdict import Finding, Phase, Verdict, grouped
from packager.workloads.kinds import Workload

INTERVAL = 2.0
"""Seconds from one poll to the next, unless a poll takes more than a quarter of that."""

LONGEST_PAUSE = 4.0
"""The longest pause between two polls in seconds, so that the return of a cluster is noticed soon."""

MAX_SILENCE = 300.0
"""Seconds without an answer after which the wait ends with an error."""


@dataclass(frozen=True, slots=True)
class Update:
    """The result of one poll."""

    verdict: Verdict  # the verdict on the workload
    snapshot: Snapshot | None  # the snapshot that the verdict is about; while the cluster does not answer, the last one
    silence: float = 0  # seconds for which the cluster has not answered; 0 after an answer
    error: ClusterError | None = None  # the reason why the cluster did not answer
    is_last: bool = False  # whether the wait is over: the state is final, or only a user can fix it
    # the newest update of each of several workloads; this update is that of the worst one
    per_workload: "tuple[Update, ...]" = ()

    @property
    def index(self) -> int:
        """The index of the workload that the update is about, among several."""
        return next((index for index, update in enumerate(self.per_workload) if update.verdict is self.verdict), 0)

    @property
    def why_silent(self) -> str:
        """The message of the error in place of an answer; empty after an answer."""
        return self.error.why if isinstance(self.error, UnreachableError) else str(self.error or "")

    @property
    def main(self) -> "Update":
        """The result of the poll for the main workload."""
        return self.per_workload[0] if self.per_workload else self


_NOT_SEEN_YET = Update(Verdict(Phase.PENDING, "it has not been found yet"), None)
"""The state of a new deployment while the cluster has not answered yet."""


def poll(  # noqa: PLR0913 - two parameters are the time, which tests simulate
    read: ReadSnapshot,
    kind: Workload,
    *,
    rendered: str | None = None,
    deadline: float | None = None,
    patience: float = NOTICE,
    keep_following: bool = False,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> Iterator[Update]:
    """Yield the state of a workload about every two seconds, until it is final or the deadline is reached.

    Args:
        read: The function that takes a snapshot.
        kind: The workload's kind.
        rendered: The expected value of the annotation RENDERED; another value means another deploy.
        deadline: The time, by `clock`, at which the wait ends; None for never.
        patience: Seconds in which the workload's operator may still notice its end.
        keep_following: Whether to continue while the workload serves.
        clock: A monotonic clock, in seconds.
        sleep: The function that waits for a number of seconds.
    """
    updates = _Updates(kind, rendered, patience, keep_following=keep_following)
    last: Update | None = None
    answered_at = clock()
    while True:
        begin = clock()
        events = updates.wants_events(last)
        try:
            snapshot = read(events=events)
            update = updates.update_of(snapshot, clock())
            if not events and updates.lacks_events(update):
                update = updates.update_of(read(events=True), clock())
        except ClusterError as error:
            now = clock()
            silence = now - answered_at
            if deadline is not None and now >= deadline:
                return
            if last is None and not (rendered and isinstance(error, UnreachableError)):
                raise
            if silence > MAX_SILENCE:
                raise _silence_error(error, silence) from error
            # A restarted API server may forbid everything until it has read its roles, so a refusal counts only when
            # it lasts.
            yield replace(last or _NOT_SEEN_YET, silence=max(silence, INTERVAL), error=error)
        else:
            answered_at = clock()
            last = update
            yield last
            if last.is_last:
                return
        now = clock()
        seconds = now - begin
        # A slow poll means a busy machine or cluster, so polls take at most a quarter of the time.
        pause = max(INTERVAL - seconds, min(3 * seconds, LONGEST_PAUSE))
        sleep(pause if deadline is None else max(0.0, min(pause, deadline - now)))
        if deadline is not None and clock() >= deadline:
            return


_WORST_FIRST = (
    Phase.FAILED,
    Phase.ABSENT,
    Phase.STUCK,
    Phase.PENDING,
    Phase.RUNNING,
    Phase.SERVING,
    Phase.SUCCEEDED,
)


def combined(followed: Sequence[Iterator[Update]]) -> Iterator[Update]:
    """Yield the state of the worst of several workloads, with the states of all.

    No update of a workload is read after its last one.
    """
    if len(followed) == 1:
        yield from followed[0]
        return
    newest: list[Update] = []
    while True:
        for index, updates in enumerate(followed):
            if index < len(newest) and newest[index].is_last:
                continue
            update = next(updates, None)
            if update is None:
                return
            newest[index : index + 1] = [update]
        failed = [update for update in newest if update.is_last and not update.verdict.phase.is_good]
        worst = min(failed or newest, key=lambda update: _WORST_FIRST.index(update.verdict.phase))
        is_last = bool(failed) or all(update.is_last for update in newest)
        yield replace(worst, is_last=is_last, per_workload=tuple(newest))
        if is_last:
            return


def _silence_error(error: ClusterError, silence: float) -> ClusterError:
    if isinstance(error, UnreachableError):
        return UnreachableError(f"the cluster has not answered for {silence:.0f} s: {error.why}", hint=error.hint)
    return ClusterError(f"the cluster has refused for {silence:.0f} s to report its state: {error}", hint=error.hint)


class _Updates:
    """Turns snapshots into updates, and remembers facts that later snapshots no longer contain."""

    def __init__(self, kind: Workload, rendered: str | None, patience: float, *, keep_following: bool) -> None:
        self._kind = kind
        self._patience = patience
        self._keep_following = keep_following
        self._rendered = rendered
        self._memory = Memory(kind)
        self._since: dict[str, float] = {}
        self._workload: Object | None = None
        self._past = Past()
        self._looks = 0

    def wants_events(self, last: Update | None) -> bool:
        """Whether to read events: in every poll while the main pod does not run, otherwise in every tenth."""
        self._looks += 1
        is_well = last is not None and last.verdict.phase in (Phase.RUNNING, Phase.SERVING)
        if last is None or last.snapshot is None or not is_well or self._looks % 10 == 0:
            return True
        main = self._kind.main(last.snapshot.pods)
        return main is None or not is_running(main) or any(map(is_being_deleted, last.snapshot.pods))

    def lacks_events(self, update: Update) -> bool:
        """Whether the wait is over, and only events can still explain the end of the main pod."""
        if update.snapshot is None or not update.is_last or update.verdict.phase is Phase.SERVING:
            return False
        main = self._kind.main(update.snapshot.pods)
        return update.verdict.phase is Phase.FAILED or main is None or is_being_deleted(main)

    def update_of(self, snapshot: Snapshot | None, now: float) -> Update:
        """Return the update for a snapshot taken at `now`; None for a workload that does not exist."""
        if snapshot is None:
            return Update(self._end(), None, is_last=True)
        workload = snapshot.workload
        self._workload = self._workload or workload
        is_other = uid(workload) != uid(self._workload)
        if is_other or (self._rendered and annotation(workload, RENDERED) not in (None, self._rendered)):
            what = "deleted it and deployed it again" if is_other else "deployed something else over it"
            message = f"{annotation(workload, DEPLOYED_BY) or 'another user'} {what}"
            finding = Finding("Replaced", shown(workload), message)
            return Update(Verdict(Phase.ABSENT, message, (finding,)), snapshot, is_last=True)
        self._past = self._memory.add(snapshot, now)
        verdict = diagnose(self._kind, snapshot, self._past, patience=self._patience)
        # A blocking finding is final when it has lasted longer than its time limit.
        blocking = {finding.reason: finding for finding in verdict.findings if finding.blocks}
        self._since = {reason: self._since.get(reason, now) for reason in blocking}
        is_final = any(now - self._since[reason] >= finding.final_after for reason, finding in blocking.items())
        is_last = is_final and verdict.phase is not Phase.SERVING
        is_last |= verdict.phase.is_over if self._keep_following else verdict.phase.is_reached
        return Update(verdict, snapshot, is_last=is_last)

    def _end(self) -> Verdict:
        """Return the verdict on a workload that does not exist: its observed end, or the cause of its stop."""
        if self._workload is None:
            return Verdict(Phase.ABSENT, "not found")
        for finding in self._past.losses or ():
            if finding.subject == shown(self._workload):
                return Verdict(Phase.FAILED, finding.message, (finding,))
        return Verdict(Phase.ABSENT, "it was deleted", grouped(self._past.failures))


def follow_one(
    target: Target,
    *,
    rendered: str | None = None,
    patience: float | None = None,
    keep_following: bool = False,
    watch: PodWatch | None = None,
) -> Iterator[Update]:
    """Yield updates on the main workload; see `poll`.

    An operator gets half a minute to report the end, or `patience` if that is less. `watch` keeps the logs of pods
    until the last update; without it, a watch keeps only their states.
    """
    kubectl, kind = target.kubectl, target.manifests.kind
    with watch or PodWatch(kubectl) as watching:
        yield from poll(
            LogKeeper(target.observe, kubectl, kind, watching),
            kind,
            rendered=rendered,
            deadline=kubectl.deadline,
            clock=kubectl.runner.clock,
            sleep=kubectl.runner.sleep,
            patience=NOTICE if patience is None else min(NOTICE, patience),
            keep_following=keep_following,
        )


def follow_all(
    target: Target, *, rendered: str | None = None, patience: float | None = None, watch: PodWatch | None = None
) -> Iterator[Update]:
    """Yield updates on all workloads, until all have reached their goals or one can no longer reach it.

    `watch` keeps the logs of the main one's pods.
    """
    watches = (watch, *([None] * len(target.per_workload)))
    targets = zip(target.per_workload, watches, strict=False)
    return combined([follow_one(one, rendered=rendered, patience=patience, watch=own) for one, own in targets])


def follow(
    target: Target,
    *,
    rendered: str | None = None,
    timeout: float | None = None,
    patience: float | None = None,
    watch: PodWatch | None = None,
) -> Iterator[Update]:
    """Yield updates on the workloads; after the last one, their state changes only if a person acts.

    Args:
        target: The overlay, and the cluster.
        rendered: The digest of the applied manifests; a workload with another digest belongs to another deploy.
        timeout: The longest wait in seconds; None for no limit.
        patience: The longest wait in seconds for a temporary obstacle to pass; None for no limit. The operator gets
            half a minute at most to notice the end of the workload.
        watch: Keeps the logs of the main workload's pods; None for no log.
    """
    target = replace(target, kubectl=target.kubectl.within(timeout))
    stuck_since: float | None = None
    update: Update | None = None
    for update in follow_all(target, rendered=rendered, patience=patience, watch=watch):
        yield update
        now = target.kubectl.runner.clock()
        stuck_since = (now if stuck_since is None else stuck_since) if update.verdict.phase is Phase.STUCK else None
        has_waited = stuck_since is not None and patience is not None and now - stuck_since > patience
        if update.is_last or has_waited:
            return
    one = target.per_workload[update.index] if update else target
    if update is None:
        message = f"{one.shown}: the cluster did not report the state within {timeout or 0:g} s"
    elif update.silence:
        message = f"{one.shown} was {update.verdict.phase} when last seen, {update.silence:.0f} s ago"
    else:
        message = f"{one.shown} is still {update.verdict.phase} after {timeout or 0:g} s: {update.verdict.summary}"
    raise TimedOutError(message, hint=f"it continues in the cluster; follow it with `{one.command('status')}`")


def verdicts(target: Target, last: Update) -> tuple[tuple[Target, Verdict], ...]:
    """Return the verdict of the last update on each workload; if one has failed, only on this one."""
    if last.per_workload and last.verdict.phase.is_good:
        return tuple((one, update.verdict) for one, update in zip(target.per_workload, last.per_workload, strict=True))
    one, verdict = target.per_workload[last.index], last.verdict
    if verdict.phase is Phase.ABSENT and last.snapshot is None:  # its namespace may be deleted, too
        verdict = absent(target.kubectl, verdict)
    return ((one, verdict),)

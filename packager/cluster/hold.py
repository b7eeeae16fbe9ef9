"""Holds pods after their programs have ended, where results would be deleted with them, until these are copied."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from packager.base.errors import ClusterError, DeniedError, HungError, MlpackError, TimedOutError
from packager.cluster.manifests import Manifests
from packager.cluster.ownership import HOLD, RENDERED, Key, key
from packager.cluster.results import Results, ResultsCopy, lost_with_pods
from packager.cluster.supervisor import ALL, STATE, mode_of, with_hold
from packager.kubernetes.kubectl.client import Kubectl
from packager.kubernetes.kubectl.refusals import error_from
from packager.kubernetes.manifest import at, mapping
from packager.kubernetes.objects import Object, annotation, is_running, main_container, name, uid
from packager.kubernetes.snapshot import Snapshot
from packager.workloads.program import INDEX_ANNOTATION as INDEX

_SECONDS = 20.0
"""The timeout of a command in a held container."""

_EVERY = 5.0
"""Seconds between two questions to a pod whether its program has ended."""

_TRIES = 3
"""The number of attempts to copy, after which a pod is let go without its results."""


def held(manifests: Manifests, live: Mapping[Key, Object], seconds: float) -> Manifests:
    """Return manifests whose pods are held where their results would be deleted with them.

    A workload that is there already, and has not ended, is held as it was deployed, others for at most `seconds`.
    """
    for one in manifests.per_workload:
        existing = live.get(key(one.workload))
        is_same = existing is not None and annotation(existing, RENDERED) == one.digest
        if existing is not None and is_same and one.kind.ending(Snapshot(existing)) is None:
            longest = hold_of(existing)
        else:
            longest = int(seconds)
        if longest and lost_with_pods(one):
            current = next(other for other in manifests.per_workload if other.workload is one.workload)
            manifests = replace(with_hold(current, longest), index=manifests.index)
    return manifests


def hold_of(workload: Object) -> int:
    """Return the most seconds that the pods of a workload are held; 0 if they are not."""
    text = annotation(workload, HOLD) or ""
    return int(text) if text.isdecimal() and len(text) < 9 else 0


def _is_held(pod: Object) -> bool:
    """Whether a running pod is held once its program has ended."""
    mode = mode_of(mapping(at(pod, ("spec", "containers", 0))))
    is_first = mode[3:4] == (ALL,) or (annotation(pod, INDEX) or "0") == "0"
    return is_running(pod) and mode[:1] == ("hold",) and is_first


def _exec(kubectl: Kubectl, pod: Object, script: str, path: str) -> str:
    """Run a script in the main container of a pod, and return its stdout; empty if it failed. Raises DeniedError."""
    arguments = ["exec", name(pod), f"--container={main_container(pod)}", "--", "/bin/sh", "-c", script, "sh", path]
    try:
        done = kubectl.run(*arguments, timeout=_SECONDS)
    except HungError:
        return ""
    if done.returncode != 0 and isinstance(error := error_from(done.stderr), DeniedError):
        raise error
    return done.stdout if done.returncode == 0 else ""


class HeldResults:
    """The results of a run whose pods are held, which are copied when their programs have ended."""

    def __init__(self, copy: ResultsCopy) -> None:
        # the copied results, by folder; those of a later attempt replace earlier ones
        self.copies: dict[str, Results] = {}
        self.error: MlpackError | None = None  # the reason why the last copy failed; None if it succeeded
        self._copy = copy
        self._asked: dict[str, float] = {}
        self._failures: Counter[str] = Counter()
        self._released: set[str] = set()

    def read(self, snapshot: Snapshot) -> None:
        """Copy the results of each held pod whose program has ended, and let it end."""
        kubectl, kind = self._copy.target.kubectl, self._copy.target.manifests.kind
        for pod in filter(_is_held, kind.listed(snapshot.pods)):
            key, now = uid(pod), kubectl.runner.clock()
            if key in self._released or now - self._asked.get(key, now - _EVERY) < _EVERY:
                continue
            self._asked[key] = now
            try:
                code = _exec(kubectl, pod, 'read -r code <"$1" && echo "$code"', f"{STATE}/ended")
                if code.strip().isdecimal() and self._has_copied(snapshot, pod):
                    _exec(kubectl, pod, ': >"$1"', f"{STATE}/released")
                    self._released.add(key)
            except DeniedError as error:
                self.error = error

    def _has_copied(self, snapshot: Snapshot, pod: Object) -> bool:
        """Copy the results of a held pod, and return whether it may end: they are copied, or cannot be."""
        try:
            results = self._copy.of_held(snapshot, pod)
        except (ClusterError, TimedOutError) as error:
            self.error = error
            self._failures[uid(pod)] += 1
            return self._failures[uid(pod)] == _TRIES
        if results is not None:
            self.copies[results.folder] = results
        self.error = None
        return True

"""Holds pods after their programs have ended, where results would be deleted with them, until these are copied."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from packager.base.errors import ClusterError, DeniedError, HungError, TimedOutError
from packager.cluster.ownership import HOLD, RENDERED, key
from packager.cluster.results import copied_from_held, lost_with_pods
from packager.cluster.supervisor import ALL, STATE, mode_of, with_hold
from packager.kubernetes.kubectl.refusals import error_from
from packager.kubernetes.manifest import at, mapping
from packager.kubernetes.objects import annotation, is_running, main_container, name, uid
from packager.kubernetes.snapshot import Snapshot
from packager.workloads.launchers import INDEX_ANNOTATION as INDEX

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from packager.base.errors import MlpackError
    from packager.base.runner import Tell
    from packager.cluster.manifests import Manifests
    from packager.cluster.ownership import Key
    from packager.cluster.results import Results
    from packager.cluster.target import Target
    from packager.kubernetes.kubectl.client import Kubectl
    from packager.kubernetes.objects import Object

_SECONDS = 20.0
"""The timeout of a command in a held container."""

_EVERY = 5.0
"""Seconds between two questions to a pod whether its program has ended."""

_TRIES = 3
"""The number of attempts to copy, after which a pod is let go without its results."""


def held(manifests: Manifests, live: Mapping[Key, Object], seconds: float) -> Manifests:
    """Return manifests whose pods are held where their results would be deleted with them.

    A workload that is there already, and has not ended, is held as it was deployed.

    Args:
        manifests: The manifests of an overlay.
        live: The existing objects with their names.
        seconds: The longest hold; 0 for none.
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
    """The results of a run whose pods are held, which are copied when their programs have ended.

    Args:
        target: The overlay as it was deployed.
        folder: The folder to copy to.
        patience: The longest wait in seconds for data; 0 for no limit.
        tell: Receives messages for the user.
    """

    def __init__(self, target: Target, folder: Path, patience: float, tell: Tell) -> None:
        # the copied results, by folder; those of a later attempt replace earlier ones
        self.copies: dict[str, Results] = {}
        self.error: MlpackError | None = None  # the reason why the last copy failed; None if it succeeded
        self._target = target
        self._folder = folder
        self._patience = patience
        self._tell = tell
        self._asked: dict[str, float] = {}
        self._failures: Counter[str] = Counter()
        self._released: set[str] = set()

    def read(self, snapshot: Snapshot) -> None:
        """Copy the results of each held pod whose program has ended, and let it end.

        Raises:
            ToolError: The folder cannot be written.
        """
        kubectl, kind = self._target.kubectl, self._target.manifests.kind
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
        patience, tell = self._patience, self._tell
        try:
            results = copied_from_held(self._target, snapshot, pod, self._folder, patience=patience, tell=tell)
        except (ClusterError, TimedOutError) as error:
            self.error = error
            self._failures[uid(pod)] += 1
            return self._failures[uid(pod)] == _TRIES
        if results is not None:
            self.copies[results.folder] = results
        self.error = None
        return True

"""Holds the pods of a run until its results are copied, where these would be deleted with the pods.

Tests: cluster/test_hold_use.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.errors import ClusterError, DeniedError, TimedOutError
from packager.cluster.hold import has_ended, held_pods, release
from packager.cluster.results import copied_from_held
from packager.kubernetes.objects import uid

if TYPE_CHECKING:
    from pathlib import Path

    from packager.base.errors import MlpackError
    from packager.base.progress import Tell
    from packager.cluster.results import Results
    from packager.cluster.target import Target
    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot

_EVERY = 5.0
"""Seconds between two questions to a pod whether its program has ended."""

_TRIES = 3
"""The number of attempts to copy, after which a pod is let go without its results."""


class HeldResults:
    """The results of a run whose pods are held, which are copied when their programs have ended.

    Args:
        target: The overlay as it was deployed.
        folder: The folder to copy to.
        patience: The longest wait in seconds for data; 0 for no limit.
        tell: Receives messages for the user.

    Attributes:
        copies: The copied results, by folder; those of a later attempt replace earlier ones.
        error: The reason why the last copy failed; None if it succeeded.
    """

    def __init__(self, target: Target, folder: Path, patience: float, tell: Tell) -> None:
        self.copies: dict[str, Results] = {}
        self.error: MlpackError | None = None
        self._target = target
        self._folder = folder
        self._patience = patience
        self._tell = tell
        self._asked: dict[str, float] = {}
        self._failures: dict[str, int] = {}
        self._released: set[str] = set()

    def read(self, snapshot: Snapshot) -> None:
        """Copy the results of each held pod whose program has ended, and let it end.

        Raises:
            ToolError: The folder cannot be written.
        """
        kubectl, kind = self._target.kubectl, self._target.manifests.kind
        for pod in held_pods(kind.listed(snapshot.pods)):
            key, now = uid(pod), kubectl.runner.clock()
            if key in self._released or now - self._asked.get(key, now - _EVERY) < _EVERY:
                continue
            self._asked[key] = now
            try:
                if has_ended(kubectl, pod) and self._has_copied(snapshot, pod):
                    release(kubectl, pod)
                    self._released.add(key)
            except DeniedError as error:
                self.error = error

    def _has_copied(self, snapshot: Snapshot, pod: Object) -> bool:
        """Copy the results of a held pod, and return whether it may end: they are copied, or cannot be."""
        try:
            results = copied_from_held(
                self._target, snapshot, pod, self._folder, patience=self._patience, tell=self._tell
            )
        except (ClusterError, TimedOutError) as error:
            self.error = error
            self._failures[uid(pod)] = self._failures.get(uid(pod), 0) + 1
            return self._failures[uid(pod)] == _TRIES
        if results is not None:
            self.copies[str(results.folder)] = results
        self.error = None
        return True

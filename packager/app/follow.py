"""Follows workloads until their state is final. Tests: cli/test_deploy.py."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from packager.base.errors import TimedOutError
from packager.cluster.observe import absent
from packager.kubernetes.verdict import Phase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.app.target import Target
    from packager.cluster.follow import Update
    from packager.cluster.podwatch import PodWatch
    from packager.kubernetes.verdict import Verdict


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

    Raises:
        TimedOutError: The timeout has passed.
        ClusterError: The cluster does not answer for a long time.
    """
    target = replace(target, kubectl=target.kubectl.within(timeout))
    stuck_since: float | None = None
    update: Update | None = None
    for update in target.follow_all(rendered=rendered, patience=patience, watch=watch):
        yield update
        now = target.kubectl.runner.clock()
        stuck_since = (now if stuck_since is None else stuck_since) if update.verdict.phase is Phase.STUCK else None
        has_waited = stuck_since is not None and patience is not None and now - stuck_since > patience
        if update.is_last or has_waited:
            return
    raise _timed_out(target, update, timeout or 0)


def verdict(target: Target, last: Update) -> Verdict:
    """Return the verdict of the last update; for a deleted workload, it includes whether its namespace is deleted.

    Raises:
        UnreachableError: The workload was deleted, and the cluster does not answer.
    """
    is_gone = last.verdict.phase is Phase.ABSENT and last.snapshot is None
    return absent(target.kubectl, last.verdict) if is_gone else last.verdict


def verdicts(target: Target, last: Update) -> tuple[tuple[Target, Verdict], ...]:
    """Return the verdict of the last update on each workload; if one has failed, only on this one.

    Raises:
        UnreachableError: A workload was deleted, and the cluster does not answer.
    """
    if last.per_workload and last.verdict.phase.is_good:
        return tuple((one, update.verdict) for one, update in zip(target.per_workload, last.per_workload, strict=True))
    one = target.per_workload[last.index]
    return ((one, verdict(one, last)),)


def _timed_out(target: Target, last: Update | None, timeout: float) -> TimedOutError:
    target = target.per_workload[last.index] if last else target
    if last is None:
        message = f"{target.shown}: the cluster did not report the state within {timeout:g} s"
    elif last.silence:
        message = f"{target.shown} was {last.verdict.phase} when last seen, {timeout:g} s ago"
    else:
        message = f"{target.shown} is still {last.verdict.phase} after {timeout:g} s: {last.verdict.summary}"
    return TimedOutError(message, hint=f"it continues in the cluster; follow it with `{target.command('status')}`")

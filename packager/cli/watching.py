"""Follows a workload to its end, shows it, and turns what became of it into words and an exit code."""

from __future__ import annotations

import math
import sys
import time
from typing import TYPE_CHECKING

from packager.cli.console import emit, say
from packager.cli.views import Lines, Live, told
from packager.cluster.logs import LogReader, last_words
from packager.cluster.objects import uid
from packager.cluster.results import output_of
from packager.cluster.verdict import Finding, Phase
from packager.errors import ClusterError, TimedOutError

if TYPE_CHECKING:
    from packager.cli.target import Target
    from packager.cli.views import View
    from packager.cluster.follow import Update
    from packager.cluster.verdict import Verdict


def watch(
    target: Target,
    *,
    rendered: str | None = None,
    timeout: float | None = None,
    patience: float = math.inf,
    follow_log: bool = False,
) -> Verdict:
    """Follow the workload until nothing more will happen by itself, and return the verdict.

    Args:
        target: Whose workload.
        rendered: The digest of what was applied; a workload with another one is somebody else's.
        timeout: Seconds to wait at most; None for as long as it takes.
        patience: Seconds for which something may keep the workload from running that could pass by itself.
        follow_log: Whether the log goes to stdout.

    Raises:
        TimedOutError: The timeout has passed.
        ClusterError: The cluster does not answer for so long that waiting makes no sense.
    """
    begin = time.monotonic()
    stuck_since: float | None = None
    log = _MainLog(target)
    is_drawn = sys.stderr.isatty() and not follow_log
    view: View = Live(target) if is_drawn else Lines()
    with view:
        for update in target.follow(rendered=rendered):
            lines = log.read(update) if is_drawn or follow_log else []
            if follow_log:
                for line in lines:
                    emit(line)
            view.show(update, lines[-1] if lines else None)
            now, verdict = time.monotonic(), update.verdict
            stuck_since = (stuck_since or now) if verdict.phase is Phase.STUCK else None
            if update.is_last or (stuck_since is not None and now - stuck_since > patience):
                break
            if timeout is not None and now - begin > timeout:
                raise TimedOutError(
                    f"{target.shown} is still {verdict.phase} after {timeout:g} s: {verdict.summary}",
                    hint=f"it goes on in the cluster; come back with `{target.command('status')}`",
                )
    return verdict


def conclude(target: Target, verdict: Verdict) -> None:
    """Say how it ended and what comes next.

    Raises:
        ClusterError: It has not ended well.
    """
    if verdict.phase is Phase.SUCCEEDED:
        say(f"{target.shown} has succeeded")
        say(f"  its log:     {target.command('logs')}")
        if has_lasting_results(target):
            say(f"  its results: {target.command('results', 'DIR')}")
        say(f"  remove it:   {target.command('delete')}")
        return
    for finding in verdict.findings:
        explain(last_words(target.kubectl, finding))
    if verdict.phase is Phase.FAILED:
        raise ClusterError(
            f"{target.shown} has failed: {verdict.summary}", hint=f"the whole log: {target.command('logs')}"
        )
    if verdict.phase is Phase.ABSENT:
        raise ClusterError(f"{target.shown}: {verdict.summary}", hint=target.command("status"))
    raise ClusterError(
        f"{target.shown} cannot run: {verdict.findings[0].reason}; it was left as it is",
        hint=f"mend it and deploy again (--replace), or remove it: {target.command('delete')}",
    )


def has_lasting_results(target: Target) -> bool:
    """Whether what the workload writes is still there when its pods are gone."""
    manifests = target.manifests
    try:
        output = output_of(manifests.engine.pod_template(manifests.workload), manifests.objects)
    except ClusterError:
        return False
    return output.outlives_pods


def explain(finding: Finding) -> None:
    """Say a finding with all that belongs to it."""
    first, *rest = told(finding)
    say(first)
    for line in finding.log:
        say(f"  | {line}")
    for line in rest:
        say(line)


class _MainLog:
    """The log of the main pod, and of the next one when there are several attempts."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._pod = ""
        self._reader: LogReader | None = None

    def read(self, update: Update) -> list[str]:
        if update.snapshot is None or update.silence:
            return []
        pod = self._target.manifests.engine.main(update.snapshot.pods)
        if pod is None:
            return []
        if uid(pod) != self._pod or self._reader is None:
            self._pod, self._reader = uid(pod), LogReader(self._target.kubectl, pod)
        return self._reader.read(pod)

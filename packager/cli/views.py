"""How a wait is shown: lines that stay, or one picture that changes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol, Self

from packager.cli.console import say
from packager.cluster.objects import name, restarts
from packager.cluster.observe import pods_of
from packager.cluster.pods import state

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from packager.cli.target import Target
    from packager.cluster.follow import Update
    from packager.cluster.verdict import Finding

MOST_PODS = 12
"""A job may have thousands; those in trouble are told of in findings."""


class View(Protocol):
    """Shows updates for as long as its block lasts."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End."""

    def show(self, update: Update, newest: str | None) -> None:
        """Show what was seen, and the newest line of the main pod's log, where there is one."""


class Lines:
    """A line for each thing that has changed, with the time since the beginning."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._last = ""
        self._told: set[str] = set()
        self._is_lost = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    def show(self, update: Update, newest: str | None) -> None:  # noqa: ARG002 - a line that stays is no place for it
        """Say what has changed since the last update."""
        if update.silence:
            if not self._is_lost:
                why = str(update.error).removeprefix("the cluster does not answer: ")
                self._say(f"the cluster does not answer ({why}); asking again until it does")
            self._is_lost = True
            return
        if self._is_lost:
            self._say("the cluster answers again")
            self._is_lost = False
        verdict = update.verdict
        now = f"{verdict.phase}: {verdict.summary}"
        if now != self._last and not verdict.phase.is_over:
            self._say(now)
        self._last = now
        if update.is_last:
            return
        for finding in verdict.findings:
            if finding.message != verdict.summary and str(finding) not in self._told:
                self._say(str(finding))
            if finding.hint and finding.hint not in self._told:
                self._say(f"hint: {finding.hint}")
            self._told |= {str(finding), finding.hint or ""}

    def _say(self, text: str) -> None:
        passed = int(time.monotonic() - self._begin)
        say(f"{passed // 60:02}:{passed % 60:02}  {text}")


class Live:
    """A picture of the pods, redrawn once in a second."""

    def __init__(self, target: Target) -> None:
        from rich.console import Console
        from rich.live import Live as RichLive

        self._target = target
        self._begin = time.monotonic()
        self._newest = ""
        self._live = RichLive(console=Console(stderr=True, highlight=False), transient=True, refresh_per_second=4)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def show(self, update: Update, newest: str | None) -> None:
        """Draw what was seen."""
        self._newest = newest or self._newest
        self._live.update(self._picture(update), refresh=True)

    def _picture(self, update: Update) -> Any:
        from rich.console import Group
        from rich.text import Text

        passed = int(time.monotonic() - self._begin)
        head = f"{self._target.shown}  {update.verdict.phase}  {passed // 60:02}:{passed % 60:02}"
        parts: list[Any] = [Text(head, style="bold")]
        pods = pods_of(self._target.manifests.engine, update.snapshot.pods) if update.snapshot else []
        if pods:
            parts.append(_table(pods))
        if update.silence:
            lost = f"the cluster has not answered for {update.silence:.0f} s; asking again until it does"
            parts.append(Text(lost, style="yellow"))
        parts.extend(Text(line, style="yellow") for finding in update.verdict.findings for line in told(finding))
        if self._newest:
            parts.append(Text(f"log: {self._newest}", style="dim", no_wrap=True, overflow="ellipsis"))
        parts.append(Text("Ctrl-C leaves it running", style="dim"))
        return Group(*parts)


def told(finding: Finding) -> list[str]:
    """Return a finding as lines for a person, without its log."""
    return [str(finding), *([f"  hint: {finding.hint}"] if finding.hint else [])]


def rows(pods: Sequence[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Return name, state and restarts of each pod, of as many as a person wants to see."""
    listed = [(name(pod), state(pod), str(restarts(pod))) for pod in pods[:MOST_PODS]]
    if len(pods) > MOST_PODS:
        listed.append((f"and {len(pods) - MOST_PODS} more", "", ""))
    return listed


def _table(pods: Sequence[dict[str, Any]]) -> Any:
    from rich.table import Table

    table = Table(box=None, padding=(0, 3, 0, 0))
    for heading in ("POD", "STATE", "RESTARTS"):
        table.add_column(heading, no_wrap=True)
    for row in rows(pods):
        table.add_row(*row)
    return table

"""Shows progress while a verb waits: as lines, or as one picture that is redrawn. Tests: cli/test_status.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

from packager.base.errors import UnreachableError
from packager.cli.console import say
from packager.cluster.status import pods as pods_in

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from packager.cli.drawing import Columns, TextLine
    from packager.cluster.follow import Update
    from packager.cluster.status import PodStatus
    from packager.cluster.target import Target
    from packager.kubernetes.verdict import Finding

MAX_PODS = 12
"""The most pods that a view lists; a job may have thousands. Findings report failed pods beyond these."""


class View(Protocol):
    """Shows updates while its block runs."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End."""

    def show(self, update: Update, newest: str | None) -> None:
        """Show an update, and the newest line of the main pod's log, if there is one."""


class Lines:
    """Prints a line for each change, with the time since the start."""

    def __init__(self, target: Target) -> None:
        self._names = [one.shown for one in target.per_workload]
        self._clock = target.kubectl.runner.clock
        self._begin = self._clock()
        self._last = ""
        self._shown: set[str] = set()
        self._lost = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    def show(self, update: Update, newest: str | None) -> None:  # noqa: ARG002 - the newest log line belongs only in a picture that is redrawn
        """Print the changes since the last update."""
        if update.silence:
            lost, why = _missing_answer(update)
            if lost != self._lost:
                self._say(f"{lost} ({why}); retrying until it does")
            self._lost = lost
            return
        if self._lost:
            self._say("the cluster is reachable again")
            self._lost = ""
        verdict = update.verdict
        about = f"{self._names[update.index]} " if update.per_workload else ""
        now = f"{about}{verdict.phase}: {verdict.summary}"
        if now != self._last and not verdict.phase.is_reached:
            self._say(now)
        self._last = now
        if update.is_last:
            return
        for finding in verdict.findings:
            if finding.message == verdict.summary:
                self._shown.add(str(finding))
            self._say_news(finding)

    def _say_news(self, finding: Finding) -> None:
        """Print a finding with its log and its hint, except the parts that are printed already."""
        if self._is_new(str(finding)):
            self._say(str(finding))
        logged = _logged(finding)
        if self._is_new("\n".join(logged)):
            for line in logged:
                say(line)
        if self._is_new(finding.hint or ""):
            self._say(f"hint: {finding.hint}")
        again = f"{finding.subject}: {_next_try(finding)}" if finding.next_try else ""
        if self._is_new(again):
            self._say(again)

    def _is_new(self, text: str) -> bool:
        """Whether there is a text that has not been shown; from now on it counts as shown."""
        is_new = text not in self._shown and text != ""
        self._shown.add(text)
        return is_new

    def _say(self, text: str) -> None:
        elapsed = int(self._clock() - self._begin)
        say(f"{elapsed // 60:02}:{elapsed % 60:02}  {text}")


class Live:
    """Draws a picture of the pods, once a second."""

    def __init__(self, target: Target) -> None:
        from packager.cli.drawing import Picture

        self._target = target
        self._clock = target.kubectl.runner.clock
        self._begin = self._clock()
        self._newest = ""
        self._picture = Picture()

    def __enter__(self) -> Self:
        self._picture.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._picture.__exit__(kind, error, trace)

    def show(self, update: Update, newest: str | None) -> None:
        """Draw the update."""
        self._newest = newest or self._newest
        self._picture.draw(self._parts(update))

    def _parts(self, update: Update) -> list[TextLine | Columns]:
        from packager.cli.drawing import Columns, TextLine

        elapsed = int(self._clock() - self._begin)
        target = self._target.per_workload[update.index]
        head = f"{target.shown}  {update.verdict.phase}  {elapsed // 60:02}:{elapsed % 60:02}"
        parts: list[TextLine | Columns] = [TextLine(head, "bold")]
        pods = pods_in(target, update.snapshot) if update.snapshot else ()
        if pods:
            parts.append(Columns(("POD", "STATE", "RESTARTS"), rows(pods)))
        if update.silence:
            parts.append(TextLine(f"{_silence(update)}; retrying until it does", "yellow"))
        parts.extend(
            TextLine(line, "yellow") for finding in update.verdict.findings for line in lines(finding, log=False)
        )
        if self._newest:
            parts.append(TextLine(f"log: {self._newest}", "dim", is_cut=True))
        parts.append(TextLine("Ctrl-C leaves it running", "dim"))
        return parts


def _missing_answer(update: Update) -> tuple[str, str]:
    """Return the sentence about the missing answer of the cluster, and the reason."""
    what = "answer" if isinstance(update.error, UnreachableError) else "report the state"
    return f"the cluster does not {what}", update.why_silent


def _silence(update: Update) -> str:
    if isinstance(update.error, UnreachableError):
        return f"the cluster has not answered for {update.silence:.0f} s"
    return f"the cluster has not reported the state for {update.silence:.0f} s ({update.error})"


def lines(finding: Finding, *, log: bool = True) -> list[str]:
    """Return a finding as lines for a person, with or without its log."""
    logged = _logged(finding) if log else []
    again = [f"  {_next_try(finding)}"] if finding.next_try else []
    return [str(finding), *logged, *again, *([f"  hint: {finding.hint}"] if finding.hint else [])]


def _logged(finding: Finding) -> list[str]:
    return [f"  | {line}" for line in finding.log]


def _next_try(finding: Finding) -> str:
    return f"next try: not before {finding.next_try:%H:%M:%S} UTC"


def rows(pods: Sequence[PodStatus]) -> list[tuple[str, str, str]]:
    """Return name, state and restarts of at most MAX_PODS pods."""
    listed = [(pod.name, pod.state, str(pod.restarts)) for pod in pods[:MAX_PODS]]
    if len(pods) > MAX_PODS:
        listed.append((f"and {len(pods) - MAX_PODS} more", "", ""))
    return listed

"""Answers of verbs, and whether their claims about parts of the cluster are true."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.faults.injector import Fault

_SETTLE_SECONDS = 20.0
"""Seconds after a fault in which a part that is up again may yet refuse: an API server has to read its roles, say."""

_MAX_CHARACTERS = 300
"""Characters of an answer that the page shows."""

_API = frozenset(("kube-apiserver", "etcd"))
_EXCUSES = (
    ("the cluster does not answer: ", _API),
    ("the cluster's response was cut off", _API),
    ("the kubelet of the pod's node does not answer: ", frozenset(("kubelet",))),
    ("the copy was interrupted: ", _API | {"kubelet"}),
    ("failed calling webhook", _API),
    # A kubelet tells the API server late of the pods that it has started.
    (" is not running yet", _API | {"kubelet"}),
)
"""The outcomes of a verb that ends with 7 because of the cluster, and the parts one of which must have been away."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a verb.

    Attributes:
        verb: The verb.
        code: The exit code.
        outcome_line: The line about the outcome, without names of this trial.
        begin: The time of its start, in seconds of the monotonic clock.
        end: The time of its end.
        stderr: The whole stderr; of `status`, the JSON.
        wrong: The error in the answer; None for a true one.
        is_last: Whether it did what it was asked for.
        claims: Whether it says that a part of the cluster kept it from that.
    """

    verb: str
    code: int = 0
    outcome_line: str = ""
    begin: float = 0
    end: float = 0
    stderr: str = ""
    wrong: str | None = None
    is_last: bool = False
    claims: bool = False

    def wrong_if(self, is_wrong: bool, why: str) -> Answer:  # noqa: FBT001 - it is the condition
        """Return the answer with `why` as its error if `is_wrong`; an earlier error is kept."""
        return replace(self, wrong=why) if is_wrong and not self.wrong else self

    def judged_by(self, faults: Iterable[Fault]) -> Answer:
        """Return the answer with an error if it blames a part of the cluster that was up."""
        if not self.claims or self.code != 7:
            return self
        away = next((parts for excuse, parts in _EXCUSES if excuse in self.outcome_line), None)
        if away is None:
            return self.wrong_if(True, "gives no fault of the cluster as its reason")
        missing = {fault.component for fault in faults if self.overlaps_with(fault, _SETTLE_SECONDS)}
        return self.wrong_if(not away & missing, f"says so of {' or '.join(sorted(away))}, which was up")

    def overlaps_with(self, fault: Fault, settle_seconds: float = 0) -> bool:
        """Whether the fault, and what it takes to settle, and this answer were at the same time."""
        return fault.begin < self.end and self.begin < fault.end + settle_seconds


def outcome_line(text: str, names: Mapping[str, str]) -> str:
    """Return the error, or else the last word of a wait, without what differs from trial to trial.

    Args:
        text: A verb's stderr.
        names: The replacements, in this order.
    """
    lines = [line for line in text.splitlines() if line.startswith("error:")] or [
        line
        for line in text.splitlines()
        if re.search(r" has succeeded| is deleted| is deployed|^copied \d+ files?, ", line)
    ]
    shown = lines[-1].removeprefix("error: ") if lines else ""
    for name, replacement in names.items():
        shown = shown.replace(name, replacement)
    shown = re.sub(r"deployed by \S+@[^\s,]+", "deployed by USER@HOST", shown)
    shown = re.sub(r"(https?://)?\d+\.\d+\.\d+\.\d+(:\d+)?", "SERVER", shown)
    shown = re.sub(r"(SERVER/\w+)[^\s\"]*", r"\1…", shown)
    shown = re.sub(r"\b\d+(\.\d+)? s\b", "N s", shown)
    return shown if len(shown) <= _MAX_CHARACTERS else f"{shown[:_MAX_CHARACTERS]}…"

"""One trial: a package deployed, copied and deleted while parts of the cluster go away, and each answer judged."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from tests.e2e.faults import Faulty, Ran, faulty
from tests.e2e.site import ENDS
from tests.faults import cluster
from tests.faults.answers import Answer, outcome_line
from tests.faults.calm import BEAR_SECONDS, RECOVERY_SECONDS, pause_faults

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.e2e.site import Site

DEPLOY, RESULTS, DELETE, STATUS = 120, 60, 90, 180
"""Seconds that each verb is given: by its --timeout or, where it has none, by how long kubectl may hang."""

_SLACK_SECONDS = 15.0
"""Seconds for the start and the end of a Python on a machine that is busy with a cluster that starts over and over."""

_RETRY_SECONDS = 1.0
"""Seconds until somebody whom the cluster has kept from something tries again."""

_NEVER_DONE = f"in {BEAR_SECONDS + RECOVERY_SECONDS:g} s it never did what it was asked for"

_COPIES = 2
"""How often the results of a package are copied."""

_FILES, _SIZE = 20, 2_000_000
"""The number and size of a rank's results; see the fault spec."""

_NEVER_STARTED = " could not be started"
"""The message of mlpack about a container whose kubelet failed while it started the container."""

_RESULTS = "many-results-until-told"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A package whose end is known.

    Attributes:
        fault: The name of its script's behaviour; see the fault spec.
        overlay: The name of the overlay.
        ends: The expected end.
    """

    fault: str
    overlay: str
    ends: str


SCENARIOS = tuple(
    Scenario(fault, overlay, ends)
    for fault, ends in (
        ("sleep:8", "Succeeded"),
        (_RESULTS, "Succeeded"),
        ("exit:3", "Failed"),
        ("sleep:25", "Succeeded"),
        (_RESULTS, "Succeeded"),
        ("none", "Succeeded"),
    )
    for overlay in ("single-node", "multi-node")
)


def run(site: Site, scenario: Scenario) -> list[Answer]:
    """Run the trial in `site`, and return every answer that was given, in order."""
    cluster.put_foreign_objects(site)
    package = faulty(site, scenario.fault, overlay=scenario.overlay)
    answers = []
    if scenario.fault == _RESULTS:
        answers += _run_until_good(package, "deploy", "--no-wait", f"--timeout={DEPLOY}s", limit=DEPLOY)
        answers.append(_results(package, site.folder / "early", is_written=False))
        if cluster.is_written(package):
            for number in range(_COPIES):
                copied = site.folder / f"copied-{number}"
                answers += _retried(partial(_results, package, copied, is_written=True))
            cluster.release(package)
    answers += _retried(lambda: _deploy(package, scenario), may_be_late=True)
    if answers[-1].code == 8 and not answers[-1].is_last:
        # Controllers that start over and over see no end either; the verdict was that it goes on.
        answers[-1] = answers[-1].wrong_if(not cluster.is_running(package), _NEVER_DONE)
    if answers[-1].code == _RAN_ALREADY:
        answers += _retried(lambda: _status(package, scenario))
    answers += _delete(package)
    if lost := [name for name in cluster.THEIRS if name not in cluster.names(site)]:
        answers.append(Answer("all", wrong=f"took what is not the package's: {', '.join(lost)}"))
    return answers


_RAN_ALREADY = 9
"""The exit code of a deploy that meets a job that has ended."""


def _retried(ask: Callable[[], Answer], *, may_be_late: bool = False) -> list[Answer]:
    """Ask until there is an answer that was not put off by a fault, or a wrong one; `may_be_late`: or for so long."""
    answers = []
    for _ in _attempts():
        answers.append(ask())
        if answers[-1].is_last or answers[-1].wrong:
            return answers
    return [*answers[:-1], answers[-1].wrong_if(not (may_be_late and answers[-1].code == 8), _NEVER_DONE)]


def _attempts() -> Iterator[None]:
    """Go on for as long as faults may keep a verb from its work."""
    yield from _for(BEAR_SECONDS)
    with pause_faults():
        yield from _for(RECOVERY_SECONDS)


def _for(seconds: float) -> Iterator[None]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield
        time.sleep(_RETRY_SECONDS)


def _deploy(package: Faulty, scenario: Scenario) -> Answer:
    """Deploy; the verdict is what the workload has come to.

    A deploy whose connection breaks may have applied everything; the next one then finds a job that runs, or that has
    ended meanwhile. Of the latter it says that it has run already, and nothing of how it ended: `status` does.
    """
    answer, done = _run_verb(package, "deploy", f"--timeout={DEPLOY}s", limit=DEPLOY)
    if done.code == _RAN_ALREADY and " has already run, and a finished job does not run again" in answer.outcome_line:
        truth = cluster.actual_phase(package)
        return replace(answer, is_last=True).wrong_if(truth not in ENDS, f"it has not run: it is {truth}")
    if done.code == 8 and _NEVER_STARTED in done.err:
        # A job that lacks a worker waits for it, and nobody starts that one again.
        return replace(answer, is_last=True).wrong_if(not cluster.has_lost_pods(package), "no pod has failed")
    if done.code == 0 or " has failed: " in answer.outcome_line:
        return _verdict(answer, "Succeeded" if done.code == 0 else "Failed", package, scenario)
    return _as_claim(answer)


def _status(package: Faulty, scenario: Scenario) -> Answer:
    answer, done = _run_verb(package, "status", "--output=json", limit=STATUS)
    content = json.loads(done.out) if done.code in (0, 7) and done.out else {}
    if "phase" not in content:  # an error, in JSON too
        return _as_claim(answer)
    answer = replace(
        answer, outcome_line=f"{content['workload']}  {content['phase']}: {content['summary']}", stderr=done.out
    )
    return _verdict(answer, content["phase"].capitalize(), package, scenario)


def _verdict(answer: Answer, claimed: str, package: Faulty, scenario: Scenario) -> Answer:
    """Judge a verdict. A kubelet that ends while it starts a container leaves a pod that has failed: so the verdict."""
    truth = cluster.actual_phase(package)
    answer = replace(answer, is_last=True).wrong_if(truth != claimed, f"said {claimed}, and the workload is {truth}")
    is_as_written = truth == scenario.ends or (truth == "Failed" and _NEVER_STARTED in answer.stderr)
    return answer.wrong_if(not is_as_written, f"ended as {truth}, and should have as {scenario.ends}")


def _results(package: Faulty, folder: Path, *, is_written: bool) -> Answer:
    """Copy the results; `is_written` says that they are there, and that the workload waits to be told to end.

    Until then it is the truth that nothing runs yet, that some files are not there, and that one changes.
    """
    answer, done = _run_verb(package, "results", str(folder), f"--timeout={RESULTS}s", limit=RESULTS)
    if done.code == 0:
        lacking = ", ".join(_missing_files(folder)) if is_written else ""
        return replace(answer, is_last=True).wrong_if(bool(lacking), f"ended with 0; missing or torn: {lacking}")
    if not is_written and (
        " is not running yet" in answer.outcome_line or "the copy differs from the results" in answer.outcome_line
    ):
        return answer
    return _as_claim(answer)


def _missing_files(folder: Path) -> Iterator[str]:
    """Yield the files that are not in `folder`, or not as rank 0 has written them."""
    content = (b"rank 0\n" * (_SIZE // len(b"rank 0\n") + 1))[:_SIZE]
    for number in range(_FILES):
        file = folder / f"deep/{number}.txt"
        if not file.exists():
            yield f"{file.name} is not there"
        elif file.read_bytes() != content:
            yield f"{file.name} has {file.stat().st_size} bytes"


def _delete(package: Faulty) -> list[Answer]:
    answers = _run_until_good(package, "delete", f"--timeout={DELETE}s", limit=DELETE)
    left = sorted(set(cluster.names(package.site)) - set(cluster.THEIRS))
    is_wrong = answers[-1].code == 0 and bool(left)
    return [*answers[:-1], answers[-1].wrong_if(is_wrong, f"ended with 0, and left {', '.join(left)}")]


def _run_until_good(package: Faulty, verb: str, *arguments: str, limit: float) -> list[Answer]:
    def ask() -> Answer:
        answer, done = _run_verb(package, verb, *arguments, limit=limit)
        return replace(answer, is_last=True) if done.code == 0 else _as_claim(answer)

    return _retried(ask)


def _as_claim(answer: Answer) -> Answer:
    """Return an answer that is none; what it says of the cluster is judged when all faults are known."""
    return replace(answer, claims=True)


def _run_verb(package: Faulty, verb: str, *arguments: str, limit: float) -> tuple[Answer, Ran]:
    begin = time.monotonic()
    try:
        done = package.run(verb, *arguments, timeout=limit + 60)
    except subprocess.TimeoutExpired:
        done = Ran(-9, "", "", time.monotonic() - begin)
    names = {str(package.folder): "PACKAGE", str(package.site.folder): "FOLDER", package.site.namespace: "NAMESPACE"}
    text = outcome_line(done.err, names)
    answer = Answer(verb, done.code, text, begin, begin + done.seconds, done.err)
    codes = (0, 7, 8, _RAN_ALREADY) if verb == "deploy" else (0, 7, 8)
    return (
        answer.wrong_if(done.seconds > limit + _SLACK_SECONDS, f"took {done.seconds:.1f} s, and was given {limit:g} s")
        .wrong_if("Traceback" in done.err or done.code not in codes, f"ended with {done.code}")
        .wrong_if(done.code == 8 and done.seconds < limit, f"timed out after {done.seconds:.1f} s of {limit:g} s"),
        done,
    )

"""The page of a run: the answers of verbs, and the parts that were away at the time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.faults.injector import COMPONENTS, LONGEST, SHORTEST, How

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.faults.answers import Answer
    from tests.faults.injector import Fault

_PAGE = """\
# What mlpack reports while a cluster fails

`{command} --write docs/faults.md` wrote this page on {date}.

Parts of a real cluster failed at random moments, alone and together, while packages were deployed, their results
copied, and they were deleted. *Killed*: by SIGKILL, and started again at once. *Down*: by SIGKILL, and started again
after {shortest} to {longest} s. *Frozen*: by SIGSTOP, for as long; connections are accepted then, and nothing answers.
Each answer was compared with what the cluster reported once all its parts were up again, each copy with what the script
had written, and each "does not answer" with what was down at that time. New faults were held back while a trial had not
made any progress for 90 s: controllers that restart every few seconds make neither pods nor their addresses.

- {faults} faults during {trials} trials; until everything was up again, a fault took {median} s (median; at most
  {most} s)
- {answers} answers; {wrong} were false, came too late, or removed objects of others
{wrongs}
| fault | {hows} |
|---|{rules}
{kinds}
| verb | answers | of these, during a fault |
|---|---|---|
{verbs}
## Answers

A command that a fault interrupted was run again. A deploy whose connection broke may have applied everything, so that
the next one finds a job that has ended: exit code 9, and `status` reports how it ended. The columns of the parts count
the answers during which each was down. Seconds, addresses and names are left out.

| verb | exit code | times | {parts} | none | message |
|---|---|---|{part_rules}---|---|
{rows}"""


@dataclass(frozen=True, slots=True)
class Run:
    """A run that is over.

    Attributes:
        seed: The seed of everything random.
        faults: All faults.
        trials: The answers of each trial.
    """

    seed: str
    faults: Sequence[Fault]
    trials: Sequence[Sequence[Answer]]

    @property
    def answers(self) -> list[Answer]:
        """Every answer."""
        return [answer for trial in self.trials for answer in trial]

    @property
    def wrong(self) -> list[Answer]:
        """The answers that were not the truth, came too late, or cost others something."""
        return [answer for answer in self.answers if answer.wrong]

    def away_during(self, answer: Answer) -> set[str]:
        """Return the components that were away before a verb ended."""
        return {fault.component for fault in self.faults if answer.overlaps_with(fault)}


def transcript(answers: Sequence[Answer]) -> str:
    """Return all answers of a trial, to find the reason of a wrong one."""
    begin = answers[0].begin
    parts = []
    for answer in answers:
        parts.append(f"  {answer.begin - begin:.1f} to {answer.end - begin:.1f} s: {answer.verb} {answer.code}")
        parts += [f"    {line}" for line in answer.stderr.splitlines()]
        parts += [f"  WRONG: {answer.wrong}"] if answer.wrong else []
    return "\n".join([*parts, ""])


def page(run: Run, date: str) -> str:
    """Return docs/faults.md.

    Args:
        run: The run to describe.
        date: The date, as people read it.
    """
    lasted = sorted(fault.end - fault.begin for fault in run.faults) or [0.0]
    return _PAGE.format(
        command=f"python -m tests.faults --faults {len(run.faults)} --trials {len(run.trials)} --seed {run.seed}",
        date=date,
        shortest=SHORTEST,
        longest=LONGEST,
        faults=len(run.faults),
        trials=len(run.trials),
        median=f"{lasted[len(lasted) // 2]:.0f}",
        most=f"{lasted[-1]:.0f}",
        answers=len(run.answers),
        wrong=len(run.wrong),
        wrongs="".join(f"- `{answer.verb}`: {_cell(str(answer.wrong))}\n" for answer in run.wrong),
        hows=" | ".join(How),
        rules="---|" * len(How),
        kinds="".join(_kinds(run)),
        verbs="".join(_verbs(run)),
        parts=" | ".join(COMPONENTS),
        part_rules="---|" * len(COMPONENTS),
        rows="".join(_rows(run)),
    )


def _kinds(run: Run) -> Iterator[str]:
    counts = Counter((fault.component, fault.how) for fault in run.faults)
    for component in COMPONENTS:
        yield _row(component, *(str(counts[component, how]) for how in How))


def _verbs(run: Run) -> Iterator[str]:
    counts = Counter(answer.verb for answer in run.answers if answer.stderr)
    disturbed = Counter(answer.verb for answer in run.answers if answer.stderr and run.away_during(answer))
    for verb, count in sorted(counts.items()):
        yield _row(f"`{verb}`", str(count), str(disturbed[verb]))


def _rows(run: Run) -> Iterator[str]:
    counts: dict[tuple[str, int, str], Counter[str]] = {}
    for answer in run.answers:
        if answer.stderr:
            count = counts.setdefault((answer.verb, answer.code, answer.outcome_line), Counter())
            count.update(["times", *(run.away_during(answer) or ["none"])])
    for (verb, code, words), count in sorted(counts.items()):
        numbers = [str(count[column] or "") for column in ("times", *COMPONENTS, "none")]
        yield _row(f"`{verb}`", str(code), *numbers, _cell(words))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", r"\|").replace("<", "&lt;").split())

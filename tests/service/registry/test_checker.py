"""The process that checks definitions, when it ends, hangs or has a bug."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from packager.base.values import convert
from packager.service.registry import checker
from packager.service.registry.bodies import DefinitionBody
from packager.service.registry.checker import Checker, CheckProcessError
from packager.service.registry.policy import Site
from tests.service import bodies

if TYPE_CHECKING:
    from pathlib import Path


def details(process: Checker) -> list[str]:
    """Return the complaints about a definition without faults."""
    checked = process.check(convert(bodies.definition(), DefinitionBody), bodies.TEMPLATE, Site())
    return [complaint.detail for complaint in (*checked.complaints, *checked.refusals)]


@pytest.mark.parametrize(
    ("end", "message"),
    [("os.kill(os.getpid(), 9)", "the process that checks definitions was killed (SIGKILL)")],
)
def test_end_of_the_process_is_reported_with_its_cause(monkeypatch: pytest.MonkeyPatch, end: str, message: str) -> None:
    program = (sys.executable, "-c", f"import os, sys; sys.stdin.readline(); {end}")
    monkeypatch.setattr(checker, "_PROGRAM", program)
    process = Checker()
    assert details(process) == details(process) == [message]
    process.close()


def test_process_without_an_answer_is_killed_and_started_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = (
        f"import sys, time, pathlib; a = pathlib.Path({str(tmp_path / 'begun')!r}); is_again = a.exists(); a.touch()"
    )
    program += "\nfor line in sys.stdin: print('{}', flush=True) if is_again else time.sleep(600)"
    monkeypatch.setattr(checker, "_PROGRAM", (sys.executable, "-c", program))
    monkeypatch.setattr(checker, "_SECONDS", 0.1)
    monkeypatch.setattr("packager.service.registry.helpers._START_SECONDS", 5.0)
    process = Checker()
    assert details(process) == ["the check of the definition takes more than 0.1 seconds"]
    monkeypatch.setattr(checker, "_SECONDS", 60.0)
    assert details(process) == []
    process.close()


def test_bug_in_a_check_is_raised_in_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    program = 'import sys; sys.stdin.readline(); print(\'{"bug": "Traceback …"}\', flush=True)'
    monkeypatch.setattr(checker, "_PROGRAM", (sys.executable, "-X", "utf8", "-c", program))
    process = Checker()
    with pytest.raises(CheckProcessError, match="Traceback …"):
        details(process)
    process.close()

"""Programs that answer line by line: started again after a failure, killed when they say nothing or too much."""

from __future__ import annotations

import sys

import pytest

from packager.base.errors import HungError, ToolError
from packager.service.registry import rendering


def helper(program: str) -> rendering.Helpers:
    return rendering.Helpers((sys.executable, "-c", program))


def test_helper_answers_line_by_line_without_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "x")
    echo = "import os, sys\nfor line in sys.stdin: print(line.strip()[::-1], os.environ.get('SECRET'), flush=True)"
    asked = helper(echo)
    assert [asked.ask(b"abc", timeout=300), asked.ask(b"de", timeout=300)] == [b"cba None", b"ed None"]
    asked.close()
    with pytest.raises(ToolError, match="was started too late"):  # a thread may still ask
        asked.ask(b"fg", timeout=300)


def test_failed_helper_is_started_again() -> None:
    asked = helper("import sys\nline = sys.stdin.readline().strip()\nif line == 'ok': print(line, flush=True)")
    with pytest.raises(ToolError, match="has ended without an answer"):
        asked.ask(b"fail", timeout=300)
    assert asked.ask(b"ok", timeout=300) == b"ok"
    asked.close()


def test_silent_or_verbose_helper_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "_START_SECONDS", 0.0)
    with pytest.raises(HungError, match="did not answer within"):
        helper("import time; time.sleep(600)").ask(b"x", timeout=0.1)
    monkeypatch.setattr(rendering, "_START_SECONDS", 300.0)
    with pytest.raises(ToolError, match="answered more than 100 bytes"):
        helper("print('x' * 1000, flush=True); import time; time.sleep(600)").ask(b"x", timeout=300, max_bytes=100)

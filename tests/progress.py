"""A plugin of pytest that shows progress in one line, in place of a dot for each test.

On a terminal the line moves; elsewhere, a line is printed for each tenth of the tests.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter


class Progress:
    """Counts the tests that have ended, in the process that prints."""

    def __init__(self, terminal: TerminalReporter) -> None:
        self._terminal = terminal
        self._total = self._ended = self._failed = 0
        self._start = time.monotonic()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Note the number of tests that this process runs itself."""
        self._total = len(items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Note the number of tests that a worker process has collected: the same in each."""
        self._total = len(ids)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: Any) -> tuple[str, str, str] | None:
        """Print no letter for a test that has passed."""
        return ("passed" if report.when == "call" else "", "", "") if report.passed else None

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Print the line."""
        self._failed += report.failed
        if report.when != "teardown":
            return
        self._ended += 1
        line = f"{self._ended} of {self._total} tests, {self._failed} failed, {time.monotonic() - self._start:.0f} s "
        if self._terminal.isatty:
            self._terminal.rewrite(line)
        elif self._ended * 10 // max(self._total, 1) > (self._ended - 1) * 10 // max(self._total, 1):
            self._terminal.write_line(line)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Show progress, unless each test is to be named."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and config.get_verbosity() <= 0 and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(terminal), "progress-line")

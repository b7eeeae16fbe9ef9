"""A real browser for tests: the system's chromium, driven by Playwright, and axe-core, which checks its pages."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import sync_playwright

from tests import tools

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

PICTURES = Path(__file__).resolve().parents[1] / "docs/pictures"
"""The folder with the pictures of docs/service/page.md."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser, and end it. Raises MissingToolError."""
    program = tools.require("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


def axe() -> str:
    """Return the text of axe-core."""
    return (resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


def barriers(page: Page, program: str) -> list[str]:
    """Return the problems of a view that axe-core reports.

    Args:
        page: The view. Its Content-Security-Policy keeps scripts out, so axe-core is started by the debugger.
        program: The text of axe-core.
    """
    debugger = page.context.new_cdp_session(page)
    debugger.send("Runtime.evaluate", {"expression": program})
    run = "axe.run().then(result => JSON.stringify(result.violations))"
    answer = debugger.send("Runtime.evaluate", {"expression": run, "awaitPromise": True})
    debugger.detach()
    violations: list[dict[str, Any]] = json.loads(answer["result"]["value"])
    return [f"{item['id']}: {node['html']}: {node['failureSummary']}" for item in violations for node in item["nodes"]]


def picture(page: Page, name: str) -> None:
    """Write a picture for the documentation if `make pictures` asks for it."""
    if os.environ.get("MLPACK_PICTURES"):
        PICTURES.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=PICTURES / f"{name}.png")

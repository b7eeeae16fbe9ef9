"""A real browser for tests: the chromium of the system, driven by Playwright; and axe-core, which checks what it shows.

axe-core comes from the npm registry, by its digest, and stays in the user's cache. It is not a part of the project.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import sync_playwright

from tests.kubectls import CACHE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

AXE = "axe-core-4.14.1"
AXE_SHA256 = "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745"

PICTURES = Path(__file__).resolve().parents[1] / "docs/pictures"
"""The pictures of docs/service.md."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser, and end it."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert program, "chromium not found: `apt-get install chromium`"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


def axe() -> str:
    """Return the text of axe-core, downloaded when the cache does not have it."""
    path = CACHE.parent / "axe" / f"{AXE}.tgz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            name, _, version = AXE.rpartition("-")
            argv = ["npm", "pack", f"{name}@{version}", "--silent", "--pack-destination", folder]
            assert shutil.which("npm"), "npm not found: `apt-get install npm`"
            subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, cwd=folder, timeout=300)
            (Path(folder) / f"{AXE}.tgz").replace(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert digest == AXE_SHA256, f"{path} is not the {AXE} that the tests expect: remove it"
    with tarfile.open(path) as archive:
        file = archive.extractfile("package/axe.min.js")
        assert file
        return file.read().decode()


def barriers(page: Page, program: str) -> list[str]:
    """Return what axe-core finds wrong with a view.

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
    """Write a picture for the documentation, where that is asked for (`make pictures`)."""
    if os.environ.get("MLPACK_PICTURES"):
        PICTURES.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=PICTURES / f"{name}.png")

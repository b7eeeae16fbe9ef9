"""Packages that fail on purpose, and commands of `mlpack` on them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.e2e.site import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.site import Site

SPEC = CHECKOUT / "tests/e2e/specs/fault"


@dataclass(frozen=True)
class Ran:
    """The result of a finished command."""

    code: int
    out: str
    err: str
    seconds: float

    def seen_after(self, words: str) -> int:
        """Return the second of the wait at which a line with `words` was first printed."""
        for line in self.err.splitlines():
            if words in line and (match := re.match(r"(\d\d):(\d\d)  ", line)):
                return int(match[1]) * 60 + int(match[2])
        raise AssertionError(f"nothing said {words!r}:\n{self.err}")


@dataclass(frozen=True)
class Faulty:
    """A package that fails on purpose, unpacked in a site's folder."""

    site: Site
    folder: Path
    overlay: str

    @property
    def workload(self) -> str:
        kind = {"multi-node": "mpijob", "one-job": "job", "nodes": "jobset", "servers": "jobset"}.get(
            self.overlay, "pod"
        )
        return f"{kind}/{self.folder.name}-{self.overlay}"

    def command(self, verb: str, *arguments: str) -> list[str]:
        return ["mlpack", verb, str(self.folder), f"--overlay={self.overlay}", *arguments]

    def run(self, verb: str, *arguments: str, timeout: float = 300) -> Ran:
        begin = time.monotonic()
        done = subprocess.run(
            self.command(verb, *arguments),
            env=self.site.environment,
            cwd=self.site.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr, time.monotonic() - begin)

    @contextmanager
    def running(self, verb: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Start a verb, and kill it at the end of the block if it still runs."""
        argv = self.command(verb, *arguments)
        with subprocess.Popen(
            argv,
            env=self.site.environment,
            cwd=self.site.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as started:
            try:
                yield started
            finally:
                if started.poll() is None:
                    os.killpg(started.pid, signal.SIGKILL)

    def edit(self, file: str, before: str, after: str) -> None:
        """Replace a regular expression in a file of the overlay."""
        path = self.folder / "quickstart/k8s/mlops" / self.overlay / file
        text, count = re.subn(before, after, path.read_text(encoding="utf-8"))
        assert count, text
        path.write_text(text, encoding="utf-8")

    def until_running(self) -> None:
        """Wait until the main pod runs."""
        if self.overlay == "multi-node":
            job = f"{self.folder.name}-multi-node"
            pod = f"pods --selector=training.kubeflow.org/job-name={job},training.kubeflow.org/job-role=launcher"
        elif self.overlay == "one-job":
            pod = f"pods --selector=job-name={self.folder.name}-one-job"
        else:
            pod = self.workload
        wait = f"kubectl wait {pod} --for=condition=Ready --timeout=60s"
        self.site.until(lambda: self.site.shell(wait).returncode == 0, f"{self.workload} to run", 60)

    def until_logged(self, text: str, selector: str = "") -> None:
        """Wait until a pod of the workload has written `text`; `mlpack logs` would start several kubectls each time.

        Without a selector, pods of a copy under another name count, too: it has the same labels.
        """
        selector = selector or f"app.kubernetes.io/instance={self.workload.partition('/')[2]}"
        logs = f"kubectl logs --selector={selector} --tail=-1"
        self.site.until(lambda: text in self.site.shell(logs).stdout, f"{text!r} in a log", 600)

    def until_workers_run(self) -> None:
        """Wait until the launcher and both workers run: the launcher can be the first of them."""
        self.until_running()
        pods = [f"pod/{self.folder.name}-multi-node-worker-{index}" for index in (0, 1)]
        wait = f"kubectl wait {' '.join(pods)} --for=condition=Ready --timeout=60s"
        self.site.until(lambda: self.site.shell(wait).returncode == 0, "the workers to run", 60)

    def delete(self) -> None:
        """Delete the package's objects, and assert that none is left."""
        assert self.run("delete").code == 0
        assert self.site.left() == []

    def let_end(self) -> None:
        """Create the file that lets waiting ranks end."""
        name = f"{self.folder.name}-{self.overlay}"
        pods = [f"{name}-worker-{index}" for index in (0, 1)] if self.overlay == "multi-node" else [name]
        for pod in pods:
            self.site.let_end(pod, "$OUTPUT_DIR/enough")


def faulty(site: Site, fault: str, *settings: str, overlay: str = "multi-node") -> Faulty:
    """Build a package whose ranks have a fault; fault.sh lists the faults."""
    options = " ".join(f"--set {setting}" for setting in (f"environment.FAULT={fault}", *settings))
    site.run(f"mlpack build {SPEC} {options} --format dir")
    return Faulty(site, site.folder / "fault", overlay)


def component(verb: str, name: str) -> None:
    """Stop or start a part of the cluster of `tests/testbed`."""
    subprocess.run([sys.executable, "-m", "tests.testbed", verb, name], cwd=CHECKOUT, check=True, capture_output=True)

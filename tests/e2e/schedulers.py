"""Gang schedulers that run beside the cluster's own while their tests do: on this machine, as its administrator."""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.e2e.site import Site
from tests.testbed import builds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.testbed.builds import Build

_VOLCANO = """\
actions: "enqueue, allocate, backfill"
tiers:
  - plugins:
      - name: priority
      - name: gang
      - name: predicates
      - name: proportion
      - name: nodeorder
"""


@contextmanager
def coscheduling(kubeconfig: Path, folder: Path) -> Iterator[None]:
    """Run the scheduler of scheduler-plugins."""
    plugins: dict[str, Any] = {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}}
    plugins["queueSort"] = {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]}
    waiting = {"name": "Coscheduling", "args": {"permitWaitingTimeSeconds": 5}}
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "profiles": [{"schedulerName": "scheduler-plugins-scheduler", "plugins": plugins, "pluginConfig": [waiting]}],
    }
    (folder / "scheduler.json").write_text(json.dumps(configuration))
    flags = (f"--config={folder / 'scheduler.json'}", "--secure-port=0")
    with _running(kubeconfig, folder, builds.SCHEDULING, "scheduling.x-k8s.io_podgroups.yaml", flags):
        yield


@contextmanager
def volcano(kubeconfig: Path, folder: Path) -> Iterator[None]:
    """Run the scheduler of Volcano, and open the queue that it creates, which is otherwise done by its controller."""
    (folder / "scheduler.yaml").write_text(_VOLCANO)
    flags = (f"--kubeconfig={kubeconfig}", f"--scheduler-conf={folder / 'scheduler.yaml'}", "--leader-elect=false")
    with _running(kubeconfig, folder, builds.VOLCANO, "bases", (*flags, "--cache-dumper=false")):
        queue = "queues.scheduling.volcano.sh/default"
        _kubectl(kubeconfig, "wait", "--for=create", "--timeout=60s", queue)
        is_open = json.dumps({"status": {"state": "Open"}})
        _kubectl(kubeconfig, "patch", queue, "--subresource=status", "--type=merge", f"--patch={is_open}")
        yield


@contextmanager
def _running(kubeconfig: Path, folder: Path, build: Build, crds: str, flags: Sequence[str]) -> Iterator[None]:
    """Build a scheduler, apply its CRDs, run it, and delete the CRDs; fail if the scheduler ended by itself."""
    builds.build_all((build,))
    path = build.entry / crds
    _kubectl(kubeconfig, "apply", "--server-side", f"--filename={path}")
    _kubectl(kubeconfig, "wait", "--for=condition=Established", "--timeout=60s", f"--filename={path}")
    argv = [str(build.entry / "scheduler"), *flags]
    with (folder / "log").open("wb") as log, subprocess.Popen(argv, stdout=log, stderr=log, cwd=folder) as scheduler:
        try:
            yield
            ended = scheduler.poll()
        finally:
            scheduler.terminate()  # leaving the block waits for its end
    _kubectl(kubeconfig, "delete", f"--filename={path}")
    assert ended is None, (folder / "log").read_text()


def _kubectl(kubeconfig: Path, *arguments: str) -> None:
    subprocess.run([Site.kubectl(), f"--kubeconfig={kubeconfig}", *arguments], check=True)

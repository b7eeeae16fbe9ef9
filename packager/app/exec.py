"""Returns the arguments of kubectl that run a command in a pod of a deployed package. Tests: cli/test_exec.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.app.numbered_pod import pod_of_index
from packager.base.errors import ClusterError, UsageError
from packager.kubernetes.objects import is_running, main_container, name
from packager.kubernetes.pods import state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.app.target import Target
    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot


def command_in_pod(target: Target, command: Sequence[str], *, worker: int | None, terminal: bool) -> list[str]:
    """Return the arguments of kubectl that run `command` in a pod of the workload.

    Args:
        target: The opened overlay of the workload.
        command: A program and its arguments.
        worker: The index of the worker; None for the main pod.
        terminal: Whether the command gets a terminal.

    Raises:
        UsageError: There is no such worker.
        ClusterError: The workload does not exist, or has no pod that can run a command.
    """
    snapshot = target.observe(events=False)
    if snapshot is None:
        raise ClusterError(f"{target.shown} not found", hint=target.command("deploy"))
    kind = target.manifests.kind
    pod = kind.main(snapshot.pods) if worker is None else _numbered(target, snapshot, worker)
    if pod is None:
        raise ClusterError(f"no pod of {target.shown} is ready to run a command", hint=target.command("status"))
    if not is_running(pod):
        raise ClusterError(
            f"{name(pod)} cannot run a command: it is {state(pod).lower()}", hint=target.command("status")
        )
    streams = ["--stdin", *(["--tty"] if terminal else [])]
    return ["exec", *streams, name(pod), f"--container={main_container(pod)}", "--", *command]


def _numbered(target: Target, snapshot: Snapshot, worker: int) -> Object | None:
    kind = target.manifests.kind
    if kind.indexes(snapshot.workload):
        return pod_of_index(kind, snapshot, worker)
    workers = kind.workers(snapshot.pods)
    if not 0 <= worker < len(workers):
        hint = f"there are 0 to {len(workers) - 1}" if workers else "it has none now"
        raise UsageError(f"{target.shown} has no worker {worker}", hint=hint)
    return workers[worker]

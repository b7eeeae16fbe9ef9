"""Holds containers after the ends of their programs, until their results are copied.

A deploy changes the manifests in memory, never the package: the container's command becomes an argument of a script,
which runs it, keeps its exit code, and waits for a file. The files are on the volume `run` of every pod of a package.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from packager.base.errors import DeniedError, HungError
from packager.cluster.labels import HOLD, RENDERED
from packager.cluster.ownership import key
from packager.cluster.results import lost_with_pods
from packager.kubernetes.kubectl.refusals import error_from
from packager.kubernetes.manifest import Manifest, at, listing, mapping
from packager.kubernetes.objects import annotation, is_running, main_container, name
from packager.kubernetes.snapshot import Snapshot
from packager.workloads.indexed import ANNOTATION as INDEX
from packager.workloads.structures import pods

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.cluster.manifests import Manifests
    from packager.cluster.ownership import Key
    from packager.kubernetes.kubectl.client import Kubectl
    from packager.kubernetes.objects import Object

_MARK = "mlpack-hold"
"""The name of the script, by which a held container is recognized."""

_RUN = "/run/mlpack"
_HELD, _RELEASED, _ALIVE = f"{_RUN}/held", f"{_RUN}/released", f"{_RUN}/alive"
_FIRST, _ALL = "first", "all"

_LAST_SECONDS = 30
"""Seconds before a deadline in which nothing is held: the workload would count as failed."""

_SECONDS = 20.0
"""The timeout of a command in a held container."""

# A signal interrupts `wait` while the program still ends. A container that is told to end is not held.
# Until the child is `alive`, it has the trap of this shell, and a signal to it would be lost.
_SCRIPT = f"""held={_HELD} released={_RELEASED} alive={_ALIVE} seconds=$1 deadline=$2 which=$3
shift 3
stopped='' program=''
stop() {{
  stopped=yes tries=5
  [ -n "$program" ] || return 0
  until [ -e "$alive" ] || [ "$tries" -le 0 ]; do
    tries=$((tries - 1))
    sleep 1
  done
  kill -TERM "$program" 2>/dev/null
}}
trap stop TERM INT
rm -f "$held" "$released" "$alive"
read -r begun rest </proc/uptime
{{ command : >"$alive"; exec "$@"; }} &
program=$!
[ -z "$stopped" ] || stop
while :; do
  code=0
  wait "$program" || code=$?
  kill -0 "$program" 2>/dev/null || break
done
[ -z "$stopped" ] || exit "$code"
[ "$which" = {_ALL} ] || [ "${{JOB_COMPLETION_INDEX:-0}}" = 0 ] || exit "$code"
trap 'exit "$code"' TERM INT
read -r now rest </proc/uptime
if [ "$deadline" -gt 0 ]; then
  left=$((deadline - {_LAST_SECONDS} - ${{now%%.*}} + ${{begun%%.*}}))
  [ "$left" -ge "$seconds" ] || seconds=$left
fi
echo "$code" >"$held.new" && mv "$held.new" "$held" || exit "$code"
while [ "$seconds" -gt 0 ] && [ ! -e "$released" ]; do
  sleep 1 &
  wait $!
  seconds=$((seconds - 1))
done
exit "$code"
"""


def with_hold(manifests: Manifests, seconds: int) -> Manifests:
    """Return manifests in which the selected workload's pods are held after their programs have ended.

    Manifests whose pods cannot be held are returned unchanged: those of a service, and of containers without a command
    or without the volume on which the script keeps its files.
    """
    workload = deepcopy(manifests.workload)
    groups = [group for group in pods(Manifest(workload)) if group.main]
    containers = [mapping(item) for group in groups for item in listing(group.spec.get("containers"))[:1]]
    if manifests.kind.serves or not containers or not all(map(_may_be_held, containers)):
        return manifests
    which = _ALL if manifests.kind.indexes(workload) else _FIRST
    deadline = min(_deadlines(workload), default=0)
    for container in containers:
        program = [*container["command"], *listing(container.pop("args", None))]
        arguments = (str(seconds), str(deadline), which, *program)
        container["command"] = ["/bin/sh", "-c", _SCRIPT, _MARK, *arguments]
    metadata = workload["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), HOLD: str(seconds)}
    objects, workloads = (
        tuple(workload if item is manifests.workload else item for item in items)
        for items in (manifests.objects, manifests.workloads)
    )
    return replace(manifests, objects=objects, workloads=workloads)


def held(manifests: Manifests, live: Mapping[Key, Object], seconds: float) -> Manifests:
    """Return manifests whose pods are held where their results would be deleted with them.

    A workload that is there already, and has not ended, is held as it was deployed.

    Args:
        manifests: The manifests of an overlay.
        live: The existing objects with their names.
        seconds: The longest hold; 0 for none.
    """
    for one in manifests.per_workload:
        existing = live.get(key(one.workload))
        is_same = existing is not None and annotation(existing, RENDERED) == one.digest
        if existing is not None and is_same and one.kind.ending(Snapshot(existing)) is None:
            longest = hold_of(existing)
        else:
            longest = int(seconds)
        if longest and lost_with_pods(one):
            current = next(other for other in manifests.per_workload if other.workload is one.workload)
            manifests = replace(with_hold(current, longest), index=manifests.index)
    return manifests


def hold_of(workload: Object) -> int:
    """Return the most seconds that the pods of a workload are held; 0 if they are not."""
    text = annotation(workload, HOLD) or ""
    return int(text) if text.isdecimal() and len(text) < 9 else 0


def held_pods(candidates: list[Object]) -> list[Object]:
    """Return the running pods that are held once their programs have ended."""
    return [pod for pod in candidates if is_running(pod) and _is_wrapped(pod)]


def has_ended(kubectl: Kubectl, pod: Object) -> bool:
    """Return whether a pod's program has ended, so that it only waits for its results to be copied.

    Raises:
        DeniedError: The user may not run commands in pods.
    """
    done = _exec(kubectl, pod, 'read -r code <"$1" && echo "$code"', _HELD)
    return done is not None and done.strip().isdecimal()


def release(kubectl: Kubectl, pod: Object) -> None:
    """Let a held pod end. Raises the errors of `has_ended`."""
    _exec(kubectl, pod, ': >"$1"', _RELEASED)


def _exec(kubectl: Kubectl, pod: Object, script: str, path: str) -> str | None:
    """Run a script in the main container of a pod, and return its stdout; None if it failed."""
    arguments = ["exec", name(pod), f"--container={main_container(pod)}", "--", "/bin/sh", "-c", script, "sh", path]
    try:
        done = kubectl.run(*arguments, timeout=_SECONDS)
    except HungError:
        return None
    if done.returncode == 0:
        return done.stdout
    error = error_from(done.stderr)
    if isinstance(error, DeniedError):
        raise error
    return None


def _may_be_held(container: Object) -> bool:
    mounts = [mapping(mount) for mount in listing(container.get("volumeMounts"))]
    is_mounted = any(mount.get("mountPath") == _RUN and not mount.get("readOnly") for mount in mounts)
    return is_mounted and bool(container.get("command"))


def _is_wrapped(pod: Object) -> bool:
    """Whether the script runs in a pod, and holds it."""
    command = listing(at(pod, ("spec", "containers", 0, "command")))
    if command[3:4] != [_MARK]:
        return False
    return command[6:7] == [_ALL] or (annotation(pod, INDEX) or "0") == "0"


def _deadlines(value: Any) -> Iterator[int]:
    """Yield the deadlines of a workload and of its pods, in seconds."""
    if isinstance(value, dict):
        deadline = value.get("activeDeadlineSeconds")
        if isinstance(deadline, int):
            yield deadline
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _deadlines(item)

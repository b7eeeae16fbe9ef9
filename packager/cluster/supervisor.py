"""Wraps the programs of pods in a script that supervises them: it holds a pod after its program, or starts it again.

The manifests are changed in memory, never the package: the command of a container becomes the arguments of the script.
For `hold`, the program runs once, and the container waits until its results are copied. For `dev`, the program is
started when it is asked for, and the container stays when it has ended; the code is in an empty folder.
The script's files are on the volume `run` of every pod of a package.
"""

from __future__ import annotations

import hashlib
import json
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from packager.base.errors import UsageError
from packager.cluster.ownership import DEV, HOLD
from packager.kubernetes.manifest import Manifest, at, listing, mapping, text
from packager.kubernetes.objects import name, shown
from packager.workloads.structures import pods

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.cluster.manifests import Manifests
    from packager.kubernetes.objects import Object
    from packager.workloads.pods import Pods

MARK = "mlpack-supervisor"
"""The name of the script, by which a container with it is recognized, and of the volume with the code."""

STATE = "/run/mlpack/program"
"""The folder of the script's files in a container."""

FIRST, ALL = "first", "all"

_RUN = "/run/mlpack"
_DEADLINE = "activeDeadlineSeconds"
_CODE = "scripts"

_LAST_SECONDS = 30
"""Seconds before a deadline in which nothing is held: the workload would count as failed."""

# A signal interrupts `wait` while the program still ends; until a child is `alive`, it has the trap of this shell, and
# a signal to it would be lost. A container that is told to end is not held. Some `sleep` take whole seconds only.
SCRIPT = f"""state={STATE} mode=$1 seconds=$2 deadline=$3 which=$4
shift 4
mkdir -p "$state" || exit 1
rm -f "$state/alive" "$state/ended" "$state/released" "$state/program" "$state/stopping"
stopped='' child='' session='' code=0
stop() {{
  stopped=yes tries=5
  [ -n "$child" ] || return 0
  until [ -e "$state/alive" ] || [ "$tries" -le 0 ]; do
    tries=$((tries - 1))
    sleep 1
  done
  kill -TERM "$child" 2>/dev/null
}}
trap stop TERM INT
run() {{
  rm -f "$state/alive"
  {{ : >"$state/alive"; exec $session "$@"; }} &
  child=$!
  echo "$child" >"$state/new" && mv "$state/new" "$state/program"
  [ -z "$stopped" ] || stop
  while :; do
    code=0
    wait "$child" || code=$?
    kill -0 "$child" 2>/dev/null || break
  done
  child=''
  rm -f "$state/program"
  [ -z "$stopped" ] || exit "$code"
}}
read -r begun rest </proc/uptime
if [ "$mode" = hold ]; then
  run "$@"
  [ "$which" = {ALL} ] || [ "${{JOB_COMPLETION_INDEX:-0}}" = 0 ] || exit "$code"
  trap 'exit "$code"' TERM INT
  read -r now rest </proc/uptime
  if [ "$deadline" -gt 0 ]; then
    left=$((deadline - {_LAST_SECONDS} - ${{now%%.*}} + ${{begun%%.*}}))
    [ "$left" -ge "$seconds" ] || seconds=$left
  fi
  echo "$code" >"$state/new" && mv "$state/new" "$state/ended" || exit "$code"
  while [ "$seconds" -gt 0 ] && [ ! -e "$state/released" ]; do
    sleep 1 &
    wait $!
    seconds=$((seconds - 1))
  done
  exit "$code"
fi
! command -v setsid >/dev/null || session=setsid
[ ! -e "$state/code" ] || : >"$state/go"
while [ -z "$stopped" ]; do
  until [ -e "$state/go" ] || [ -n "$stopped" ]; do
    sleep 0.2 2>/dev/null &
    wait $! || [ -n "$stopped" ] || sleep 1
  done
  [ -z "$stopped" ] || break
  rm -f "$state/go"
  run "$@"
  [ -e "$state/stopping" ] || echo "mlpack: the program has ended with exit code $code" >&2
  rm -f "$state/stopping"
done
"""


def with_hold(manifests: Manifests, seconds: int) -> Manifests:
    """Return manifests in which the selected workload's pods are held after their programs have ended.

    Manifests whose pods cannot be held are returned unchanged: those of a service, and of containers without a command
    or without the volume on which the script keeps its files.
    """
    workload = deepcopy(manifests.workload)
    mains = [mapping(at(group.spec, ("containers", 0))) for group in pods(Manifest(workload)) if group.main]
    if manifests.kind.serves or not mains or any(map(_obstacle, mains)):
        return manifests
    which = ALL if manifests.kind.indexes(workload) else FIRST
    deadline = min((part[_DEADLINE] for part in _with_deadlines(workload)), default=0)
    for container in mains:
        _wrap(container, "hold", str(seconds), str(deadline), which)
    _annotate(workload, HOLD, str(seconds))
    objects, workloads = (
        tuple(workload if item is manifests.workload else item for item in items)
        for items in (manifests.objects, manifests.workloads)
    )
    return replace(manifests, objects=objects, workloads=workloads)


def for_dev(manifests: Manifests) -> Manifests:
    """Return manifests whose programs are started and stopped by the script, without deadlines.

    The annotation DEV of each workload has the digest of everything but the code.
    """
    config_maps: set[str] = set()
    changed: dict[int, Object] = {}
    has_code = False
    for item in manifests.workloads:
        workload = changed[id(item)] = deepcopy(item)
        for group in pods(Manifest(workload)):
            container = mapping(at(group.spec, ("containers", 0)))
            config_maps |= _put_code(workload, group, container)
            has_code |= code_folder(container) is not None
            if group.port is not None:  # where ranks are started by sshd, their launcher starts them again
                continue
            if why := _obstacle(container):
                subject = f"{shown(workload)}: the container {container.get('name')}"
                hint = "`script` or `command` in the spec says what it runs"
                raise UsageError(f"{subject} {why}, so it cannot be started again", hint=hint)
            _wrap(container, "dev", "0", "0", ALL)
        for part in _with_deadlines(workload):  # a person works with them as long as they like
            del part[_DEADLINE]
    if not has_code:
        raise UsageError("no pod has code that could be changed: the model's spec has no `files`")
    objects = tuple(changed.get(id(item), item) for item in manifests.objects)
    others = [item for item in objects if item["kind"] != "ConfigMap" or name(item) not in config_maps]
    content = json.dumps(others, ensure_ascii=False, sort_keys=True)
    for config_map in config_maps:  # whose name may be made from its content
        content = content.replace(json.dumps(config_map), "")
    digest = f"sha256:{hashlib.sha256(content.encode()).hexdigest()}"
    for workload in changed.values():
        _annotate(workload, DEV, digest)
    return replace(manifests, objects=objects, workloads=tuple(changed[id(item)] for item in manifests.workloads))


def mode_of(container: Object) -> tuple[str, ...]:
    """Return the mode of the script in a container and its arguments; empty if the container is not supervised."""
    command = listing(container.get("command"))
    return tuple(map(str, command[4:8])) if command[3:4] == [MARK] else ()


def code_folder(container: Object) -> str | None:
    """Return the folder of a container that the code is copied to; None if it has none."""
    mounts = map(mapping, listing(container.get("volumeMounts")))
    return next((text(mount.get("mountPath")) for mount in mounts if mount.get("name") == MARK), None)


def _annotate(workload: Object, key: str, value: str) -> None:
    metadata = workload["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), key: value}


def _wrap(container: Object, *arguments: str) -> None:
    program = [*container["command"], *listing(container.pop("args", None))]
    container["command"] = ["/bin/sh", "-c", SCRIPT, MARK, *arguments, *program]


def _obstacle(container: Object) -> str | None:
    """Return why a container cannot be supervised; None if it can."""
    mounts = [mapping(mount) for mount in listing(container.get("volumeMounts"))]
    if not any(mount.get("mountPath") == _RUN and not mount.get("readOnly") for mount in mounts):
        return f"has no folder {_RUN}"
    return None if container.get("command") else "has no command"


def _put_code(workload: Object, group: Pods, container: Object) -> set[str]:
    """Replace the code's ConfigMaps by an empty folder in the main container; an init container still has them.

    Returns:
        The names of these ConfigMaps.
    """
    mounts = [mapping(mount) for mount in listing(container.get("volumeMounts"))]
    mount = next((mount for mount in mounts if mount.get("name") == _CODE), None)
    if mount is None:
        return set()
    volume = next((mapping(one) for _, one in group.volumes() if mapping(one).get("name") == _CODE), {})
    if not {"configMap", "projected"} & set(volume):
        message = f"{shown(workload)}: its code does not come from ConfigMaps, so it cannot be changed in its pods"
        raise UsageError(message, hint="switch the option package-volume off")
    mount["name"] = MARK
    mount.pop("readOnly", None)
    group.spec["volumes"].append({"name": MARK, "emptyDir": {}})
    sources = [volume, *map(mapping, listing(at(volume, ("projected", "sources"))))]
    return {str(mapping(source["configMap"]).get("name")) for source in sources if "configMap" in source}


def _with_deadlines(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the parts of a workload and of its pods that have a deadline in seconds."""
    if isinstance(value, dict) and isinstance(value.get(_DEADLINE), int):
        yield value
    for item in list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _with_deadlines(item)

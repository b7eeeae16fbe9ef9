"""Changes the pods of a package so that their programs can be started again, with other code, in the same containers.

The manifests are changed in memory, never the package: the command of a container becomes the arguments of a script,
which starts it when it is asked to, and stays when it has ended. The code is in an empty folder in place of the
ConfigMaps, and `packager.cluster.devpods` fills it. The script's files are on the volume `run` of every pod.
"""

from __future__ import annotations

import hashlib
import json
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from packager.base.errors import UsageError
from packager.cluster.labels import DEV
from packager.kubernetes.manifest import Manifest, at, listing, mapping, text
from packager.kubernetes.objects import name, shown
from packager.workloads.structures import pods

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.cluster.manifests import Manifests
    from packager.kubernetes.objects import Object
    from packager.workloads.pods import Pods

MARK = "mlpack-dev"
"""The name of the script, by which a container with it is recognized, and of the volume with the code."""

STATE = "/run/mlpack/dev"
"""The folder of the script's files in a container."""

_RUN = "/run/mlpack"
_CODE = "scripts"

# A signal interrupts `wait` while the program still ends. `cat` waits for a line in the pipe, so that nothing polls.
# Until a child is `alive`, it has the trap of this shell, and a signal to it would be lost.
SCRIPT = f"""state={STATE}
mkdir -p "$state" || exit 1
rm -rf "$state/lock" "$state/program" "$state/stopping"
stopped='' child='' session='' again=''
[ ! -e "$state/started" ] || again=yes
[ -p "$state/go" ] || mkfifo "$state/go" || exit 1
! command -v setsid >/dev/null || session=setsid
trap 'stopped=yes; stop' TERM INT
begin() {{
  rm -f "$state/alive"
  {{ : >"$state/alive"; exec "$@"; }} &
}}
stop() {{
  [ -n "$child" ] || return 0
  tries=5
  until [ -e "$state/alive" ] || [ "$tries" -le 0 ]; do
    tries=$((tries - 1))
    sleep 1
  done
  kill -TERM "$child" 2>/dev/null
}}
until_end() {{
  child=$!
  [ -z "$stopped" ] || stop
  while :; do
    code=0
    wait "$child" || code=$?
    kill -0 "$child" 2>/dev/null || break
  done
  child=''
}}
while [ -z "$stopped" ]; do
  if [ -z "$again" ]; then
    begin cat "$state/go" >/dev/null
    until_end
    [ -z "$stopped" ] || break
  fi
  again=''
  begin $session "$@"
  echo "$!" >"$state/program" && : >"$state/begun"
  until_end
  rm -f "$state/program"
  [ -z "$stopped" ] || exit "$code"
  [ -e "$state/stopping" ] || echo "{MARK}: the program has ended with exit code $code" >&2
  rm -f "$state/stopping"
done
"""


def supervised(manifests: Manifests) -> Manifests:
    """Return manifests whose programs are started and stopped by the script, without deadlines.

    The annotation DEV of each workload has the digest of everything but the code.

    Raises:
        UsageError: A container has no command, its code does not come from ConfigMaps, or no pod has any code.
    """
    changed = {id(item): _supervised(item) for item in manifests.workloads}
    if not any(code_folder(container) for item in changed.values() for container in _containers(item)):
        raise UsageError("no pod has code that could be changed: the model's spec has no `files`")
    objects = tuple(changed.get(id(item), item) for item in manifests.objects)
    digest = _digest(manifests, objects)
    for workload in changed.values():
        metadata = workload["metadata"]
        metadata["annotations"] = {**(metadata.get("annotations") or {}), DEV: digest}
    return replace(manifests, objects=objects, workloads=tuple(changed[id(item)] for item in manifests.workloads))


def is_supervised(container: Object) -> bool:
    """Whether the script runs in a container of a pod."""
    return listing(container.get("command"))[3:4] == [MARK]


def code_folder(container: Object) -> str | None:
    """Return the folder of a container that the code is copied to; None if it has none."""
    mounts = map(mapping, listing(container.get("volumeMounts")))
    return next((text(mount.get("mountPath")) for mount in mounts if mount.get("name") == MARK), None)


def _supervised(workload: Object) -> Object:
    workload = deepcopy(workload)
    for group in pods(Manifest(workload)):
        container = mapping(at(group.spec, ("containers", 0)))
        _put_code(workload, group, container)
        if group.port is None:  # where ranks are started by sshd, their launcher starts them again
            _wrap(workload, container)
    _remove_deadlines(workload)
    return workload


def _put_code(workload: Object, group: Pods, container: Object) -> None:
    """Replace the code's ConfigMaps by an empty folder in the main container; an init container still has them."""
    volume = next((mapping(one) for _, one in group.volumes() if mapping(one).get("name") == _CODE), {})
    mounts = [mapping(mount) for mount in listing(container.get("volumeMounts"))]
    mount = next((mount for mount in mounts if mount.get("name") == _CODE), None)
    if mount is None:
        return
    if not {"configMap", "projected"} & set(volume):
        message = f"{shown(workload)}: its code does not come from ConfigMaps, so it cannot be changed in its pods"
        raise UsageError(message, hint="switch the option package-volume off")
    mount["name"] = MARK
    mount.pop("readOnly", None)
    group.spec["volumes"].append({"name": MARK, "emptyDir": {}})


def _wrap(workload: Object, container: Object) -> None:
    mounts = [mapping(mount) for mount in listing(container.get("volumeMounts"))]
    has_place = any(mount.get("mountPath") == _RUN and not mount.get("readOnly") for mount in mounts)
    if not has_place or not container.get("command"):
        what = "has no command" if has_place else f"has no folder {_RUN}"
        message = f"{shown(workload)}: the container {container.get('name')} {what}, so it cannot be started again"
        raise UsageError(message, hint="`script` or `command` in the spec says what it runs")
    program = [*container["command"], *listing(container.pop("args", None))]
    container["command"] = ["/bin/sh", "-c", SCRIPT, MARK, *program]


def _remove_deadlines(value: Any) -> None:
    """Remove the deadlines of a workload and of its pods: a person works with them as long as they like."""
    if isinstance(value, dict):
        value.pop("activeDeadlineSeconds", None)
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _remove_deadlines(item)


def _containers(workload: Object) -> Iterator[Object]:
    for group in pods(Manifest(workload)):
        yield mapping(at(group.spec, ("containers", 0)))


def _digest(manifests: Manifests, objects: tuple[Object, ...]) -> str:
    """Return the digest of objects without the ConfigMaps of the code, whose names may be made from its content."""
    code: set[str] = set()
    for workload in manifests.workloads:
        for group in pods(Manifest(workload)):
            code.update(_config_maps(next((one for _, one in group.volumes() if one.get("name") == _CODE), {})))
    rest = [item for item in objects if item["kind"] != "ConfigMap" or name(item) not in code]
    content = json.dumps([_without_code(item) for item in rest], ensure_ascii=False, sort_keys=True)
    return f"sha256:{hashlib.sha256(content.encode()).hexdigest()}"


def _config_maps(volume: Object) -> Iterator[str]:
    sources = [volume, *map(mapping, listing(at(volume, ("projected", "sources"))))]
    yield from (str(mapping(source.get("configMap")).get("name")) for source in sources if "configMap" in source)


def _without_code(value: Any) -> Any:
    """Return a value without the volumes of the code."""
    if isinstance(value, dict):
        return {key: _without_code(item) for key, item in value.items()}
    if isinstance(value, list):
        is_code = [isinstance(item, dict) and item.get("name") == _CODE and "mountPath" not in item for item in value]
        return [_without_code(item) for item, leave_out in zip(value, is_code, strict=True) if not leave_out]
    return value

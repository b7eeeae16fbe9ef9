"""A fake pod, which is a folder of this machine, and a fake kubectl that runs the pod's commands on this machine."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packager.cluster.file_lists import RemoteFolder
from packager.cluster.shell import ContainerShell
from packager.kubernetes.kubectl.client import Kubectl
from tests import tools

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.cluster.target import Target

# For root, who may write everything, commands run as another user.
_SOMEBODY = f"{shutil.which('setpriv')} --reuid=54321 --clear-groups" if os.geteuid() == 0 else ""

RESET = "error: error reading from error stream: read tcp 10.0.0.1:443: connection reset by peer"

# The first line of `cuts` applies to the next command: `in 100` and `out 100` cut its input or output after 100 bytes,
# `no` refuses it, and after `stuck 100` kubectl hangs once it has passed 100 bytes on.
_KUBECTL = f"""#!/bin/bash
state=${{0%/*}}
case " $* " in
*" create "*)
    for word; do case $word in --filename=*) cat "${{word#--filename=}}" >>"$state/created" ;; esac; done
    echo >>"$state/created" ;;
*" delete "*) echo "$*" >>"$state/deleted" ;;
*" --selector="*) cat "$state/ended" 2>/dev/null || echo '{{"kind": "List", "items": []}}' ;;
*" get "*) echo '{{"kind": "Pod", "metadata": {{"name": "p"}}, "status": {{"phase": "Running"}}}}' ;;
*" exec "*)
    while [ "$1" != -- ]; do shift; done; shift
    cd /
    exec 3<&0
    read -r way bytes 2>/dev/null <"$state/cuts" && sed -i 1d "$state/cuts"
    [ ! -d "$state/tools" ] || export PATH=$state/tools
    case $way in
    in) {_SOMEBODY} "$@" >/dev/null < <(head -c "$bytes" <&3) ;;
    out) head -c "$bytes" < <(exec {_SOMEBODY} "$@" <&3) ;;
    stuck) {_SOMEBODY} "$@" < <(head -c "$bytes" <&3; exec /bin/sleep 60); exec /bin/sleep 60 ;;
    no) echo 'Error from server (Forbidden): pods "p" is forbidden: User "x" cannot create resource "pods/exec"' >&2
        exit 1 ;;
    *) exec {_SOMEBODY} "$@" ;;
    esac
    echo '{RESET}' >&2
    exit 1 ;;
esac
"""


@dataclass(frozen=True)
class LocalPod:
    """A fake pod.

    Attributes:
        home: A folder that other users may enter, unlike pytest's folders.
    """

    home: Path

    @property
    def claim(self) -> Path:
        """The folder that the pod mounts as its claim."""
        return self.home / "claim"

    @property
    def kubectl(self) -> Kubectl:
        return Kubectl(str(self.home / "kubectl"))

    @property
    def remote(self) -> RemoteFolder:
        """The folder `data` of the claim."""
        return RemoteFolder(self.shell(), str(self.claim), self.data, "the claim c")

    @property
    def data(self) -> str:
        return str(self.claim / "data")

    def shell(self) -> ContainerShell:
        return ContainerShell(self.kubectl, "p", "files", 30)

    def cut(self, *how: str) -> None:
        """Cut off the next commands, one for each value: `in 100`, `out 100`, `stuck 100` or `no`; `-` cuts nothing."""
        (self.home / "cuts").write_text("".join(f"{line}\n" for line in how), encoding="utf-8")

    def use_busybox(self) -> None:
        """Replace the pod's programs by those of busybox."""
        busybox = tools.require("busybox")
        (self.home / "tools").mkdir()
        for name in (
            "sh",
            "cat",
            "tar",
            "head",
            "tail",
            "tr",
            "xargs",
            "find",
            "stat",
            "sha256sum",
            "mkdir",
            "mv",
            "rm",
            "rmdir",
            "chmod",
        ):
            (self.home / "tools" / name).symlink_to(busybox)

    def put(self, files: dict[str, bytes]) -> None:
        """Write files into the folder `data`."""
        write(Path(self.data), files)

    def files(self) -> dict[str, bytes]:
        """Return the content of all files on the claim, by path."""
        return read(self.claim)

    def created(self) -> list[dict[str, Any]]:
        """Return the manifests that kubectl has created."""
        lines = (self.home / "created").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line]

    def deleted(self) -> list[str]:
        """Return the commands that delete objects."""
        path = self.home / "deleted"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def of(self, target: Target) -> Target:
        """Return a target whose pods mount the claim at OUTPUT_DIR."""
        objects = json.loads(json.dumps(target.manifests.objects).replace("ROOT/hello-mpi/output", str(self.claim)))
        text = json.dumps(target.manifests.workloads).replace("ROOT/hello-mpi/output", str(self.claim))
        workloads = json.loads(text)
        for workload in workloads:
            volumes = target.manifests.kind.pod_template(workload)["volumes"]
            output = next(volume for volume in volumes if volume["name"] == "output")
            del output["emptyDir"]
            output["persistentVolumeClaim"] = {"claimName": "disk"}
        manifests = replace(target.manifests, objects=tuple(objects), workloads=tuple(workloads))
        return replace(target, manifests=manifests, kubectl=self.kubectl)


@contextmanager
def local_pod() -> Iterator[LocalPod]:
    """Give a pod with an empty claim, to which every user may write."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        home.chmod(0o755)
        (home / "kubectl").write_text(_KUBECTL, encoding="utf-8")
        (home / "kubectl").chmod(0o755)
        (home / "cuts").touch()
        (home / "claim").mkdir()
        (home / "claim").chmod(0o777)
        yield LocalPod(home)


def write(folder: Path, files: dict[str, bytes]) -> Path:
    """Write files into a folder, and return it."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    folder.mkdir(parents=True, exist_ok=True)
    for step in (folder, *folder.rglob("*")):
        if step.is_dir() and not step.is_symlink():
            step.chmod(0o777)
    return folder


def read(folder: Path) -> dict[str, bytes]:
    """Return the content of all files in a folder, by path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

"""Finds volumes that a node cannot mount, from the events of a pod. Tests: diagnosis/test_diagnose.py."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.kubernetes.objects import last_seen, moment, sentence
from packager.kubernetes.remedy import Action, Remedy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.kubernetes.objects import Object

# What a kubelet says of a mount that failed (k8s.io/mount-utils, mount_linux.go), its lines made one. Where there is
# systemd, that says something of its own first; mount(8) begins with its name and, often, with the place in the pod.
_FAILED = re.compile(
    r"Mounting arguments: .*?-t (?P<kind>\S+) (?:-o \S+ )?(?P<source>.+) /\S+ "
    r"Output: (?:Running (?:scope )?as unit: \S+ )?(?:mount[.\w]*: )?(?:/\S+: )?(?P<why>.+)"
)

RETRY_SECONDS = 150.0
"""A kubelet tries again after at most two minutes: a volume without an event for longer is mounted."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A volume that mount(8) does not mount on the pod's node."""

    source: str  # the source of the volume, such as `server:/path`
    kind: str  # the type of its file system
    why: str  # the last error message

    @property
    def remedy(self) -> Remedy | None:
        """The fix, if it is known."""
        if not self.kind.startswith("nfs"):
            return None
        if "unknown filesystem type" in self.why or "helper program" in self.why:
            return Remedy.of(Action.INSTALL_NFS_CLIENT)
        if re.search(r"denied|reason given by server|not a directory", self.why):
            return Remedy.of(Action.EXPORT_FOLDER)
        return Remedy.of(Action.REACH_NFS_SERVER)


def refused(events: Sequence[Object]) -> list[Refused]:
    """Return the volumes that are not mounted, in order, from the events about a pod, the newest last."""
    if not events or events[-1]["reason"] != "FailedMount":
        return []  # the mounts succeeded before a later failure, such as of a sandbox
    newest = moment(last_seen(events[-1]))
    refused_volumes = {}
    for event in events:
        failed = _FAILED.search(sentence(event))
        if failed and (newest - moment(last_seen(event))).total_seconds() < RETRY_SECONDS:
            source, why = failed["source"], failed["why"]
            refused_volumes[source] = Refused(source, failed["kind"], why.removesuffix(f" while mounting {source}"))
    return [refused_volumes[source] for source in sorted(refused_volumes)]

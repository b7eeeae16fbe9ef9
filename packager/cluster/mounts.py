"""What the events of a pod say of the volumes that its node cannot mount."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.cluster.objects import last_seen, moment, sentence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.cluster.objects import Object

# What a kubelet says of a mount that failed (k8s.io/mount-utils, mount_linux.go), its lines made one. Where there is
# systemd, that says something of its own first; mount(8) begins with its name and, often, with the place in the pod.
_FAILED = re.compile(
    r"Mounting arguments: .*?-t (?P<kind>\S+) (?:-o \S+ )?(?P<source>.+) /\S+ "
    r"Output: (?:Running (?:scope )?as unit: \S+ )?(?:mount[.\w]*: )?(?:/\S+: )?(?P<why>.+)"
)

AGAIN = 150.0
"""A kubelet tries again after two minutes at most: a volume of which it has said nothing for longer is there by now."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A volume that mount(8) does not mount on the pod's node.

    Attributes:
        source: What is to be mounted: `server:/path`, say.
        kind: The type of its file system.
        why: What was said of it last.
    """

    source: str
    kind: str
    why: str

    @property
    def hint(self) -> str | None:
        """What mends it, where that can be known."""
        if not self.kind.startswith("nfs"):
            return None
        if "unknown filesystem type" in self.why or "helper program" in self.why:
            return "its node has no NFS client: install one on all nodes (nfs-common, say)"
        if re.search(r"denied|reason given by server|not a directory", self.why):
            return "the folder has to be on the server, which has to export it to the nodes"
        return "does its node know and reach the server? With the option nfs, it is NFS_SERVER in site.env"


def refused(told: Sequence[Object]) -> list[Refused]:
    """Return what is not mounted, in order, by the events that tell why a pod is not ready, the newest last."""
    if not told or told[-1]["reason"] != "FailedMount":
        return []  # what comes after the mounts, a sandbox say, fails when they are there
    newest = moment(last_seen(told[-1]))
    found = {}
    for event in told:
        failed = _FAILED.search(sentence(event))
        if failed and (newest - moment(last_seen(event))).total_seconds() < AGAIN:
            source, why = failed["source"], failed["why"]
            found[source] = Refused(source, failed["kind"], why.removesuffix(f" while mounting {source}"))
    return [found[source] for source in sorted(found)]

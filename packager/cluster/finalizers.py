"""Finds the finalizers that keep deleted objects in the cluster.

The garbage collector deletes an object last, after its dependents: its own finalizer `foregroundDeletion` only says
that one of these still exists, such as a pod that its controller no longer finds.

Tests: cli/test_delete.py.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.errors import ClusterError
from packager.cluster.ownership import resource
from packager.kubernetes.objects import is_being_deleted, owners, shown, uid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.kubernetes.kubectl.client import Kubectl
    from packager.kubernetes.objects import Object

_FOREGROUND = "foregroundDeletion"
_DEPENDENTS = ("jobs.batch", "replicasets.apps", "pods")
_MOST = 3


@dataclass(frozen=True, slots=True)
class Held:
    """Objects that only their finalizers keep."""

    objects: tuple[Object, ...]  # the objects, at least one

    @property
    def message(self) -> str:
        """The first objects and their finalizers, as a clause."""
        parts = [f"{shown(item)} is held by {', '.join(_finalizers(item))}" for item in self.objects[:_MOST]]
        more = len(self.objects) - len(parts)
        return "; ".join([*parts, *([f"{more} more objects are held"] if more else [])])

    @property
    def hint(self) -> str:
        """The next step, with the command that removes the first object's finalizers."""
        first = self.objects[0]
        patch = shlex.quote('{"metadata":{"finalizers":null}}')
        namespace = first["metadata"].get("namespace")
        where = f" -n {shlex.quote(namespace)}" if namespace else ""
        command = f"kubectl patch {resource(first)}{where} --type=merge -p {patch}"
        return f"run it again to continue waiting; if nothing will remove the finalizer any more: {command}"


def held(kubectl: Kubectl, items: Sequence[Object]) -> Held | None:
    """Return the objects that keep deleted `items` in the cluster by finalizers; None if there are none.

    Objects that the user may not list are left out.
    """
    try:
        living = kubectl.items(*(resource(item) for item in items))
        uids = set(map(uid, items))
        roots = [item for item in living if uid(item) in uids]
        are_waiting = any(_FOREGROUND in (item["metadata"].get("finalizers") or ()) for item in roots)
        candidates = [item for kind in _DEPENDENTS for item in kubectl.items(kind)] if are_waiting else []
        dependents = _dependents(candidates, uids)
    except ClusterError:
        return None
    objects = [item for item in (*dependents, *roots) if is_being_deleted(item) and _finalizers(item)]
    return Held(tuple(objects)) if objects else None


def _dependents(candidates: Sequence[Object], uids: set[str]) -> list[Object]:
    """Return those of `candidates` that belong to objects with these uids, directly or through each other."""
    dependents: list[Object] = []
    while new := [item for item in candidates if owners(item) & uids and uid(item) not in uids]:
        dependents += new
        uids = uids | set(map(uid, new))
    return dependents


def _finalizers(item: Object) -> list[str]:
    return [str(entry) for entry in item["metadata"].get("finalizers") or () if entry != _FOREGROUND]

"""Determines the owner of an object in the cluster, by the labels that a package's overlays give to all objects.

Other owners of an object's fields are read from its managed fields
(https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.errors import ClusterError, NotServedError
from packager.kubernetes.objects import annotation, labels, name, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from packager.kubernetes.kubectl.client import Kubectl
    from packager.kubernetes.objects import Object

FIELD_MANAGER = "mlpack"

DIGEST = "mlpack/digest"
"""Label, by the first 16 digits, and annotation, in full: the digest of the package that the object comes from."""

VERSION = "mlpack/version"
"""Annotation: the version of that package, if it has one."""

RENDERED = "mlpack/rendered"
"""Annotation: the digest of everything that was applied together, edits of the package included."""

DEPLOYED_BY = "mlpack/deployed-by"
"""Annotation: who deployed it, user@machine."""

HOLD = "mlpack/hold"
"""Annotation of a workload: the most seconds that its pods wait, after their programs, until results are copied."""

DEV = "mlpack/dev"
"""Annotation of a workload that `mlpack dev` has deployed: the digest of everything but its code."""

MANAGED_BY = "app.kubernetes.io/managed-by"
PACKAGE = "app.kubernetes.io/name"

_APPLIERS = (FIELD_MANAGER, "kubectl-client-side-apply", "kubectl", "kubectl-last-applied")
"""The field managers of a package's own applies: mlpack and kubectl."""

Key = tuple[str, str]
"""An object's kind and name."""

# The API server's name for the manager of fields that had none before the first server-side apply (apimachinery,
# managedfields/internal/skipnonapplied.go).
_NO_MANAGER = "before-first-apply"


@dataclass(frozen=True, slots=True)
class Identity:
    """The user, and the build of the package."""

    package: str  # the package's name
    digest: str  # the digest of this build
    user: str  # the user, as user@machine

    def owns(self, item: Object) -> bool:
        """Whether an object belongs to this package, regardless of its build and deployer."""
        if not {MANAGED_BY, PACKAGE} & set(labels(item)):  # an edited overlay may have no labels
            return annotation(item, DIGEST) is not None
        return labels(item).get(MANAGED_BY) == "mlpack" and labels(item).get(PACKAGE) == self.package

    def differs(self, item: Object) -> str | None:
        """Return the difference between an object's deploy and ours: `deployed by …, from another build (…)`."""
        user, digest = annotation(item, DEPLOYED_BY), annotation(item, DIGEST)
        parts = [f"deployed by {user}"] if user not in (None, self.user) else []
        if digest is not None and digest != self.digest:
            parts.append(f"{'' if parts else 'deployed '}from another build ({digest.removeprefix('sha256:')[:12]})")
        return ", ".join(parts) or None

    def remark(self, item: Object) -> str | None:
        """Return a sentence about an object of another package, build or user; None for an object of this identity."""
        if not self.owns(item):
            return f"{shown(item)} does not belong to the package {self.package}"
        how = self.differs(item)
        return f"{shown(item)} was {how}" if how else None


def key(item: Object) -> Key:
    """Return the object's kind and name."""
    return str(item["kind"]), name(item)


def resource(item: Object) -> str:
    """Return an object's name for kubectl: `kind.group/name`."""
    group, slash, _ = item["apiVersion"].partition("/")
    kind = item["kind"].lower()
    return f"{kind}.{group}/{name(item)}" if slash else f"{kind}/{name(item)}"


def look_up(kubectl: Kubectl, manifests: Iterable[Object]) -> dict[Key, Object]:
    """Return the existing objects with the kinds and names of `manifests`, including managed fields.

    Raises:
        ClusterError: The cluster does not answer, or refuses to.
    """
    names = [resource(item) for item in manifests]
    while names:
        try:
            return {key(item): item for item in kubectl.items(*names, "--show-managed-fields")}
        except NotServedError as error:
            names = [entry for entry in names if entry.partition("/")[0] != error.resource]
    return {}


def owner(item: Object) -> str:
    """Return the owner of an object in words, as far as it is known."""
    if labels(item).get(MANAGED_BY) == "mlpack":
        return f"of the package {labels(item).get(PACKAGE)}"
    others = sorted(managers(item) - {FIELD_MANAGER})
    return f"managed by {', '.join(others) or 'an unknown owner'}"


def managers(item: Object) -> set[str]:
    """Return the managers of an object's fields, except those that only write its status."""
    return {entry["manager"] for entry in _entries(item)} - {_NO_MANAGER}


def sets(item: Object, field: str) -> bool:
    """Whether mlpack's last deploy has set a field of an object's spec."""
    ours = (entry for entry in _entries(item) if entry["manager"] == FIELD_MANAGER)
    return any(f"f:{field}" in ((entry.get("fieldsV1") or {}).get("f:spec") or {}) for entry in ours)


def described(items: Sequence[tuple[Object, str]]) -> str:
    """Return objects and their owners as a list in a sentence."""
    return ", ".join(f"{shown(item)} ({whose})" for item, whose in items)


def refuse_taken(live: Mapping[Key, Object], identity: Identity) -> None:
    """Refuse to overwrite objects of others."""
    taken = [(item, owner(item)) for item in live.values() if not identity.owns(item)]
    if taken:
        raise _taken_error(described(taken))


def foreign_objects(items: Iterable[Object], known: Mapping[Key, Object]) -> list[Object]:
    """Return the applied objects that others have created since `known` was looked up.

    An object that this deploy has created has no other manager yet. On an object that others created from the same
    package, they manage the labels.
    """
    return [item for item in items if key(item) not in known and _is_only_labelled_by_us(item)]


def refuse_foreign(items: Iterable[Object]) -> None:
    """Refuse to continue if others have just created some of the objects."""
    taken = [(item, owner({**item, "metadata": {**item["metadata"], "labels": {}}})) for item in items]
    if taken:
        raise _taken_error(described(taken))


def foreign_data(item: Object, manifest: Object) -> list[str]:
    """Return the managers who have added data to an object of the package: `bob has set data.KEY`."""
    keys_by_manager: dict[str, set[str]] = {}
    for part in ("data", "binaryData"):
        extra = set(item.get(part) or ()) - set(manifest.get(part) or ())
        for entry in _entries(item):
            fields = (entry.get("fieldsV1") or {}).get(f"f:{part}") or {}
            keys_by_manager.setdefault(entry["manager"], set()).update(
                f"{part}.{name}" for name in extra if f"f:{name}" in fields
            )
    ours: set[str] = set().union(*(keys_by_manager.pop(manager, set()) for manager in _APPLIERS))
    return [
        f"{manager} has set {', '.join(sorted(keys - ours))}"
        for manager, keys in keys_by_manager.items()
        if keys - ours
    ]


def _taken_error(listed: str) -> ClusterError:
    return ClusterError(
        f"objects with these names already exist and belong to others: {listed}; nothing was applied",
        hint="use another namespace (-n), or another nameSuffix in the overlay's kustomization.yaml",
    )


def _is_only_labelled_by_us(item: Object) -> bool:
    others = [entry for entry in _entries(item) if entry["manager"] != FIELD_MANAGER]
    return bool(others) and not any(f"f:{MANAGED_BY}" in _labels_of(entry) for entry in others)


def _labels_of(entry: Object) -> Object:
    metadata = (entry.get("fieldsV1") or {}).get("f:metadata") or {}
    return metadata.get("f:labels") or {}


def _entries(item: Object) -> list[Object]:
    """Return the object's managed fields, except those that controllers write in its status."""
    entries = item["metadata"].get("managedFields") or ()
    return [entry for entry in entries if not entry.get("subresource") and entry.get("manager")]

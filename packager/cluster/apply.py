"""Applies manifests with server-side apply, or refuses before anything is created. Tests: cli/test_deploy.py."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from packager.base import workfolder
from packager.base.errors import UnreachableError
from packager.base.process import Finished
from packager.cluster.manifests import Manifests, as_list
from packager.cluster.observe import if_allowed
from packager.cluster.ownership import (
    DEPLOYED_BY,
    FIELD_MANAGER,
    RENDERED,
    Key,
    foreign_objects,
    key,
    refuse_foreign,
    sets,
)
from packager.cluster.removal import remove
from packager.kubernetes.kubectl.client import Kubectl
from packager.kubernetes.kubectl.messages import NO_KIND
from packager.kubernetes.kubectl.refusals import explained_error
from packager.kubernetes.objects import Object, annotation, is_being_deleted
from packager.kubernetes.snapshot import Snapshot
from packager.workloads.kinds import kinds

_CREATE_SECONDS = 60.0
_SURPLUS_SECONDS = 60

_KEPT = f"{FIELD_MANAGER}-replicas"
"""The field manager of the number of replicas after a deploy adds an autoscaler, until the autoscaler sets it."""

_AS_JSON = ("--output=json", "--show-managed-fields")


class DeployState(StrEnum):
    """The state of the workload in the cluster; an outdated one accepts changes while it runs."""

    ABSENT = "absent"
    SAME = "same"
    CHANGED = "changed"
    OUTDATED = "outdated"
    ENDED = "ended"
    GOING = "going"


@dataclass(frozen=True, slots=True)
class Situation:
    """The state of a workload in the cluster before a deploy."""

    state: DeployState
    live: Object | None = None  # the existing workload
    deployed_by: str | None = None  # the user who deployed the existing workload, if known


def situation(kubectl: Kubectl, manifests: Manifests, live: Mapping[Key, Object], stamped: str) -> Situation:
    """Compare the selected workload and its objects with the existing ones, `live`, by a dry run of the server.

    `stamped` are all objects, with the labels and annotations of the deploy. A workload is the same if the apply would
    change nothing, so that changes which the cluster's policies make at each deploy do not count.
    """
    workload = live.get(key(manifests.workload))
    if workload is None:
        return Situation(DeployState.ABSENT)
    who = annotation(workload, DEPLOYED_BY)
    if is_being_deleted(workload):
        return Situation(DeployState.GOING, workload, who)
    if manifests.kind.ending(Snapshot(workload)):
        return Situation(DeployState.ENDED, workload, who)
    others = set(map(key, manifests.others))
    items = [item for item in json.loads(stamped)["items"] if key(item) not in others]
    # The server may refuse them, for example because an applied field cannot be changed.
    stored = if_allowed(lambda: planned(kubectl, as_list(items), force_conflicts=True), [])
    is_same = (
        annotation(workload, RENDERED) == manifests.digest
        if not stored
        else all(_content(item) == _content(live.get(key(item), {})) for item in stored)
    )
    changed = DeployState.OUTDATED if manifests.kind.serves else DeployState.CHANGED
    return Situation(DeployState.SAME if is_same else changed, workload, who)


def _content(item: Object) -> Object:
    return {name: value for name, value in item.items() if name not in ("metadata", "status")}


def create(kubectl: Kubectl, item: Any, *arguments: str) -> Finished:
    """Run `kubectl create` for an object, and return the finished process. Raises the errors of `Kubectl.run`."""
    with workfolder.temporary() as folder:
        file = folder / "object.json"
        file.write_text(json.dumps(item), encoding="utf-8")
        return kubectl.run("create", f"--filename={file}", *arguments, timeout=_CREATE_SECONDS)


def apply(  # noqa: PLR0913 - an option of kubectl each, and the warnings
    kubectl: Kubectl,
    manifests: str,
    *,
    dry_run: str | None = None,
    force_conflicts: bool = False,
    flags: Sequence[str] = (),
    warnings: list[str] | None = None,
) -> str:
    """Apply objects with server-side apply, unless the dry run is on the client side.

    Returns:
        kubectl's stdout.
    """
    with workfolder.temporary() as folder:
        file = folder / "manifests.json"
        file.write_text(manifests, encoding="utf-8")
        arguments = ["apply", f"--filename={file}"]
        if dry_run != "client":  # kubectl has no client-side dry run of a server-side apply
            arguments += ["--server-side", f"--field-manager={FIELD_MANAGER}"]
            arguments += ["--force-conflicts"] if force_conflicts else []
        arguments += [f"--dry-run={dry_run}"] if dry_run else []
        done = kubectl.run(*arguments, *flags)
    if done.returncode == 0:
        lines = [line for line in done.stderr.splitlines() if line.startswith("Warning: ")]
        if warnings is not None:
            warnings += [line.removeprefix("Warning: ") for line in lines]
        return str(done.stdout)
    error = kubectl.unready_or(explained_error(done.stderr))
    unknown = NO_KIND.search(done.stderr)
    unserved = kinds().get(unknown[1]) if unknown else None
    if unserved and unserved.operator:
        error.hint = error.hint or unserved.operator.installation(kubectl.installer)
    raise error


def apply_all(  # noqa: PLR0913 - the existing, the applied and the deleted objects
    kubectl: Kubectl,
    manifests: Manifests,
    stamped: str,
    live: Mapping[Key, Object],
    *,
    surplus: Sequence[Object] = (),
    force_conflicts: bool = False,
) -> tuple[str, ...]:
    """Apply all objects, or none if a dry run is refused; never overwrite objects of others.

    `stamped` are the objects with the labels and annotations of the deploy; `live` existed under their names before.
    `surplus` is deleted before: an autoscaler among these objects would change the workload again.

    Returns:
        The server's warnings.
    """
    # Without the dry run, a quota or a policy that refuses the last object would leave the others applied.
    objects = planned(kubectl, stamped, force_conflicts=force_conflicts)
    refuse_foreign(foreign_objects(objects, live))
    if surplus:
        remove(kubectl, surplus, timeout=_SURPLUS_SECONDS)
    if kept := list(_handed_over(manifests, live)):
        # The later of two such flags counts; and kubectl's validation would report the missing fields.
        apply(kubectl, as_list(kept), flags=(f"--field-manager={_KEPT}", "--validate=false"))
    try:
        warnings: list[str] = []
        printed = apply(kubectl, stamped, flags=_AS_JSON, force_conflicts=force_conflicts, warnings=warnings)
        applied = _objects(printed)
    except UnreachableError as error:
        message = f"{error}; it is not known whether it was applied"
        raise UnreachableError(message, hint="deploy again to complete it") from None
    if taken := foreign_objects(applied, live):
        # An apply that contains no fields removes the applied ones from objects of others.
        apply(kubectl, as_list([_bare(item) for item in taken]))
        refuse_foreign(taken)
    return tuple(dict.fromkeys(warnings))


def planned(kubectl: Kubectl, manifests: str, *, force_conflicts: bool = False) -> list[Object]:
    """Return the objects of `manifests`, which are JSON, as the server would store them."""
    return _objects(apply(kubectl, manifests, dry_run="server", force_conflicts=force_conflicts, flags=_AS_JSON))


def _handed_over(manifests: Manifests, live: Mapping[Key, Object]) -> Iterator[Object]:
    """Yield objects to apply, with the current number of replicas of the workloads that an autoscaler now controls.

    A field without a manager gets its default, which is 1: a serving workload would be scaled down to it
    (https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#migrating-deployments-and-statefulsets-to-horizontal-autoscaling).
    """
    targets = [
        item["spec"]["scaleTargetRef"] for item in manifests.objects if item["kind"] == "HorizontalPodAutoscaler"
    ]
    for workload in manifests.workloads:
        before = live.get(key(workload))
        is_target = any((target.get("kind"), target.get("name")) == key(workload) for target in targets)
        if before is None or not is_target or "replicas" in workload["spec"] or not sets(before, "replicas"):
            continue
        yield {**_bare(workload), "spec": {"replicas": before["spec"]["replicas"]}}


def _bare(item: Object) -> Object:
    return {"apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": {"name": item["metadata"]["name"]}}


def _objects(printed: str) -> list[Object]:
    try:
        answer = json.loads(printed)
    except (ValueError, RecursionError):
        raise UnreachableError("the cluster's response was cut off") from None
    return list(answer["items"]) if answer["kind"] == "List" else [answer]

"""Manifests -> objects in the cluster: applied on the server's side, or refused before anything was made."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from packager.cluster.client import failed
from packager.cluster.differences import Difference, differences
from packager.cluster.manifests import DEPLOYED_BY, RENDERED
from packager.cluster.objects import annotation, is_going, name
from packager.cluster.refusals import refusal
from packager.cluster.snapshot import Snapshot
from packager.errors import ClusterError, MlpackError, TimedOutError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.cluster.client import Kubectl
    from packager.cluster.manifests import Manifests
    from packager.cluster.objects import Object

FIELD_MANAGER = "mlpack"


class State(StrEnum):
    """What is in the cluster under the workload's name."""

    ABSENT = "absent"
    SAME = "same"
    CHANGED = "changed"
    ENDED = "ended"
    GOING = "going"


@dataclass(frozen=True, slots=True)
class Situation:
    """What a deploy meets.

    Attributes:
        state: In a word.
        live: The workload that is there.
        differences: What would have to change, object by object, as a person reads it.
        deployed_by: Who deployed what is there, as far as it is known.
    """

    state: State
    live: Object | None = None
    differences: tuple[tuple[str, Difference], ...] = ()
    deployed_by: str | None = None


def meet(kubectl: Kubectl, manifests: Manifests) -> Situation:
    """Return what is in the cluster where `manifests` would go.

    Raises:
        ClusterError: The cluster cannot say, or does not know workloads of this kind.
    """
    live = kubectl.get(manifests.shown)
    if live is None:
        return Situation(State.ABSENT)
    who = annotation(live, DEPLOYED_BY)
    if is_going(live):
        return Situation(State.GOING, live, deployed_by=who)
    if annotation(live, RENDERED) == manifests.digest:
        changed: tuple[tuple[str, Difference], ...] = ()
        is_same = True
    else:
        changed = tuple(_changes(kubectl, manifests))
        # What was applied by kubectl itself carries no digest: there, it is what can be seen that counts.
        is_same = not changed and annotation(live, RENDERED) is None
    ended = manifests.engine.ending(Snapshot(live))
    state = State.ENDED if ended else State.SAME if is_same else State.CHANGED
    return Situation(state, live, changed, who)


def apply(
    kubectl: Kubectl,
    manifests: str,
    *,
    dry_run: str | None = None,
    force_conflicts: bool = False,
    output: str | None = None,
) -> str:
    """Apply objects on the server's side, all of them or, as far as the server can tell beforehand, none.

    Args:
        kubectl: The user's.
        manifests: JSON or YAML.
        dry_run: `server` or `client` to apply nothing.
        force_conflicts: Whether to take over the fields that somebody else has set otherwise.
        output: As kubectl's `-o`.

    Returns:
        What kubectl printed.

    Raises:
        ClusterError: The server refused something; nothing was made.
    """
    with tempfile.TemporaryDirectory(prefix="mlpack-") as folder:
        file = Path(folder) / "manifests.json"
        file.write_text(manifests, encoding="utf-8")
        arguments = ["apply", f"--filename={file}"]
        if dry_run != "client":  # kubectl knows no server-side apply on the client
            arguments += ["--server-side", f"--field-manager={FIELD_MANAGER}"]
            arguments += ["--force-conflicts"] if force_conflicts else []
        if dry_run is None:
            # A quota or a policy that refuses the last object would leave the others behind.
            _run(kubectl, [*arguments, "--dry-run=server"])
        else:
            arguments.append(f"--dry-run={dry_run}")
        return _run(kubectl, [*arguments, *([f"--output={output}"] if output else [])])


def remove(kubectl: Kubectl, what: Sequence[str], *, timeout: float | None) -> None:
    """Delete objects, and all that controllers made for them, and wait until they are gone.

    Args:
        kubectl: The user's.
        what: `resource/name` each.
        timeout: Seconds to wait; None not to wait.

    Raises:
        TimedOutError: They are not gone yet.
        ClusterError: The server refused.
    """
    arguments = ["delete", *what, "--ignore-not-found", "--cascade=foreground"]
    if timeout is None:
        _run(kubectl, [*arguments, "--wait=false"])
        return
    done = kubectl.run(*arguments, "--wait", f"--timeout={timeout:g}s", timeout=timeout + 30)
    if done.returncode != 0:
        if "timed out waiting" in done.stderr:
            raise TimedOutError(f"{', '.join(what)}: not gone after {timeout:g} s", hint="run it again to wait on")
        raise explained(done.stderr)


def remove_all(kubectl: Kubectl, manifests: Manifests, *, keep_claims: bool, timeout: float | None) -> list[str]:
    """Delete everything that an overlay applies.

    Args:
        kubectl: The user's.
        manifests: What the overlay applies.
        keep_claims: Whether PersistentVolumeClaims stay.
        timeout: Seconds to wait until all is gone; None not to wait.

    Returns:
        What was kept, as `resource/name`.

    Raises:
        TimedOutError: Something is not gone yet.
        ClusterError: The server refused.
    """
    kept = [each for each in manifests.objects if keep_claims and each["kind"] == "PersistentVolumeClaim"]
    # The workload first: its pods must not lose their ConfigMaps while they run.
    rest = [_resource(each) for each in manifests.objects if each not in kept and each is not manifests.workload]
    try:
        remove(kubectl, [manifests.shown], timeout=timeout)
    except ClusterError as error:
        if "the server doesn't have a resource type" not in str(error):
            raise  # without the operator's CRD there is no workload
    if rest:
        remove(kubectl, rest, timeout=timeout)
    return [_resource(each) for each in kept]


def _run(kubectl: Kubectl, arguments: list[str], *, timeout: float | None = None) -> str:
    done = kubectl.run(*arguments, timeout=timeout)
    if done.returncode != 0:
        raise explained(done.stderr)
    return str(done.stdout)


def explained(stderr: str) -> MlpackError:
    """Return the error that kubectl's words on stderr mean, with what mends it."""
    said = " ".join(stderr.split())
    conflicts = re.findall(r'conflicts? with "([^"]+)"[^:]*:((?:\s+-?\s*\.\S+)+)', stderr)
    if conflicts:
        fields = "; ".join(
            f"{manager} has set {', '.join(paths.replace('- ', ' ').split())}" for manager, paths in conflicts
        )
        return ClusterError(
            f"somebody else has changed what is there: {fields}",
            hint="--force-conflicts sets these fields as the package says",
        )
    if found := refusal("", said):
        return ClusterError(f"the cluster refuses it: {found.message}", hint=found.hint)
    if kind := re.search(r'no matches for kind "(\w+)" in version "([^"]+)"', said):
        hint = "mlpack operator install mpi" if kind[1] == "MPIJob" else None
        return ClusterError(f"the cluster knows no {kind[1]} ({kind[2]}): its operator is not installed", hint=hint)
    if namespace := re.search(r'namespaces "([^"]+)" not found', said):
        return ClusterError(f"there is no namespace {namespace[1]}", hint=f"kubectl create namespace {namespace[1]}")
    return failed(stderr)


def _changes(kubectl: Kubectl, manifests: Manifests) -> Iterator[tuple[str, Difference]]:
    names = [_resource(each) for each in manifests.objects]
    there = {(item["kind"], name(item)): item for item in kubectl.items(*names)}
    for each in manifests.objects:
        live = there.get((each["kind"], name(each)))
        subject = f"{each['kind'].lower()}/{name(each)}"
        if live is None:
            yield subject, Difference("", None, each)
            continue
        for difference in differences(each, live):
            yield subject, difference


def _resource(item: Object) -> str:
    group, slash, _ = item["apiVersion"].partition("/")
    kind = item["kind"].lower()
    return f"{kind}.{group}/{name(item)}" if slash else f"{kind}/{name(item)}"

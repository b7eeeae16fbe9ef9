"""Opens a target of the verbs: a rendered overlay and a cluster. Tests: cluster/test_status.py."""

import hashlib
import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from packager.base.errors import ClusterError, RenderError, UsageError, VerificationError
from packager.base.paths import argument
from packager.base.process import Runner, Tell
from packager.cluster.manifests import Manifests, load
from packager.cluster.observe import observe, selector_flag
from packager.cluster.ownership import MANAGED_BY, PACKAGE, Identity
from packager.kubernetes.kubectl.client import Connection, Kubectl, pod_namespace
from packager.kubernetes.manifest import Manifest
from packager.kubernetes.objects import Object, owners
from packager.kubernetes.snapshot import Snapshot
from packager.package import layout
from packager.package.opened import Package, chosen_overlays, opened
from packager.rendering import render
from packager.rendering.overlay import RenderedOverlay as Rendered
from packager.rendering.sources import Sources
from packager.workloads.kinds import Workload, kinds
from packager.workloads.structures import structures

_INSTANCE = "app.kubernetes.io/instance"

_SINGLE_WORKLOAD_VERBS = ("logs", "results")
"""The verbs that use one workload; the other verbs use all workloads of the overlay."""


@dataclass(frozen=True, slots=True)
class Target:
    """One overlay of a package, and a cluster."""

    package: Package  # the package
    overlay: str  # the overlay's name
    manifests: Manifests  # the manifests that it applies
    kubectl: Kubectl  # the user's kubectl
    sources: Sources | None  # the files of the overlay; None if it could not be read
    person: str  # the user, to record in the cluster: user@machine
    render: str  # the digest of kubectl's output for the overlay

    def observe(self, *, events: bool = True) -> Snapshot | None:
        """Return a snapshot of the workload. Raises ClusterError."""
        return observe(self.kubectl, self.manifests.kind, self.manifests.name, events=events)

    @property
    def per_workload(self) -> "tuple[Target, ...]":
        """A target for each workload of the overlay, the main one first."""
        return tuple(replace(self, manifests=manifests) for manifests in self.manifests.per_workload)

    @property
    def rendered(self) -> Rendered:
        """The manifests of the overlay, as the input of the checks of `packager.verify`."""
        assert self.sources is not None, "only a rendered overlay is verified"
        return Rendered(self.overlay, tuple(Manifest(item) for item in self.manifests.objects), self.sources)

    @property
    def shown(self) -> str:
        """The main workload's name for kubectl: `mpijob/name`."""
        return f"{self.manifests.kind.name.lower()}/{self.manifests.name}"

    @property
    def shown_all(self) -> str:
        """The names of all workloads for kubectl."""
        return ", ".join(one.shown for one in self.per_workload)

    @property
    def identity(self) -> Identity:
        """The user, the package and its digest."""
        return Identity(self.package.name, self.package.digest, self.person)

    def stamped(self, person: str) -> str:
        """Return all objects as a deploy by `person` applies them, as one JSON List."""
        return self.manifests.stamped(self.package.digest, person, self.package.version)

    def command(self, verb: str, *arguments: str, source: Path | None = None) -> str:
        """Return the command line of another verb on the same target, or on what it was built from."""
        options = [*self.kubectl.cluster, *(["-n", self.kubectl.namespace] if self.kubectl.namespace else [])]
        if self.overlay != self.package.overlays[0]:
            options += ["--overlay", self.overlay]
        if verb in _SINGLE_WORKLOAD_VERBS and self.manifests.index:
            options += ["--workload", self.manifests.words[self.manifests.index]]
        return shlex.join(["mlpack", verb, argument(source or self.package.source), *arguments, *options])


def reach(  # noqa: PLR0913 - an option each
    program: str,
    namespace: str | None,
    context: str | None,
    kubeconfig: Path | None,
    *,
    environment: Mapping[str, str],
    show: Callable[[list[str]], None],
    runner: Runner,
) -> Kubectl:
    """Return a client of one cluster, which stays the same if the current context changes; see `kubectl.client`."""
    explicit = str(kubeconfig) if kubeconfig else None
    connection = Connection(pod_namespace(environment))
    return Kubectl(program, namespace, context, explicit, show, runner=runner, connection=connection)


@contextmanager
def open_target(  # noqa: PLR0913 - two of them say who works here, and where
    path: Path,
    overlay: str | None,
    kubectl: Kubectl,
    *,
    workload: str | None = None,
    to_delete: bool = False,
    person: str,
    tell: Tell,
) -> Iterator[Target]:
    """Open the package at `path` and render its overlay.

    Args:
        path: The package.
        overlay: The overlay; None for the default one.
        kubectl: The user's kubectl.
        workload: The workload to select, for commands that work on one; None for the main one.
        to_delete: Whether the objects in the cluster take the place of an overlay that cannot be rendered.
        person: The user, to record in the cluster.
        tell: Receives warnings.
    """
    with opened(path) as package:
        chosen = chosen_overlays(package, overlay)[0]
        try:
            target = rendered_target(package, chosen, kubectl, person=person, tell=tell)
        except (RenderError, VerificationError) as error:
            instance = f"{package.name}-{chosen}"
            labels = {MANAGED_BY: "mlpack", PACKAGE: package.name, _INSTANCE: instance}
            items = _labelled(kubectl, labels) if to_delete else []
            if not any(item["kind"] in kinds() for item in items):
                raise
            tell(f"{path}: the overlay {chosen} cannot be rendered, so its objects are found by their labels: {error}")
            documents = "".join(f"---\n{json.dumps(item)}\n" for item in items)
            target = Target(package, chosen, load(documents, instance), kubectl, None, person, "")
        yield replace(target, manifests=target.manifests.about(workload)) if workload else target


def rendered_target(package: Package, overlay: str, kubectl: Kubectl, *, person: str, tell: Tell) -> Target:
    """Render an overlay of an open package; see `open_target` for the arguments and errors."""
    sources = render.read(package, overlay)
    kubectl.show([kubectl.program, "kustomize", package.shown(layout.overlay(overlay))])
    rendered = render.kubectl(package, overlay, sources, kubectl.program, kubectl.runner)
    for warning in rendered.warnings:
        tell(warning)
    manifests = load(rendered.manifests, f"{package.source}, {overlay}", f"{package.name}-{overlay}")
    render_digest = f"sha256:{hashlib.sha256(rendered.manifests.encode()).hexdigest()}"
    return Target(package, overlay, manifests, kubectl, sources, person, render_digest)


def _labelled(kubectl: Kubectl, labels: Mapping[str, str]) -> list[Object]:
    """Return the objects with these labels that no controller has made, of all kinds that a deploy may create."""
    companions = {
        f"{kind}.{api.rpartition('/')[0]}".rstrip(".").lower()
        for structure in structures().values()
        for api, kind in structure.companion_kinds
    }
    items: list[Object] = []
    for resource in (*(kind.resource for kind in kinds().values()), "configmaps", *sorted(companions)):
        with suppress(ClusterError):  # nothing is found then, and the overlay's error is raised
            items += [item for item in kubectl.items(resource, selector_flag(labels)) if not owners(item)]
    return items


def pods_by_index(
    kind: Workload, workload: Object, pods: Sequence[Object], wanted: int | None = None
) -> Mapping[int, Object]:
    """Return the newest pod of each index, or the workers of a kind without indexes."""
    if indexes := kind.indexes(workload):
        if wanted is not None and wanted not in indexes:
            raise UsageError(f"index {wanted} not found", hint=f"there are 0 to {indexes[-1]}")
        return kind.indexed(pods)
    workers = kind.workers(pods)
    if wanted is not None and workers and wanted >= len(workers):
        raise UsageError(f"worker {wanted} not found", hint=f"there are 0 to {len(workers) - 1}")
    return dict(enumerate(workers))

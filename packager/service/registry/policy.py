"""Decides what becomes of rendered objects: which are refused, and what is added so that they meet Pod Security.

The checks of fields, names, references and pods are those of `packager.verify`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.base.problems import Problem, similar
from packager.base.values import Value, replace
from packager.kubernetes.allowed.values import Facts
from packager.kubernetes.manifest import Manifest, at, dotted, mapping
from packager.kubernetes.podsecurity import Level
from packager.options import BY_NAME
from packager.rendering.origins import Position
from packager.rendering.overlay import RenderedOverlay
from packager.verify import (
    containers,
    environment,
    kinds,
    listed,
    names,
    objects,
    podspec,
    references,
    rights,
    schema,
    security,
)
from packager.workloads import structures
from packager.workloads.kinds import kinds as workload_kinds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from packager.workloads.pods import Pods

WORKLOADS = tuple(
    (structure.api, kind) for kind, structure in structures.structures().items() if not workload_kinds()[kind].serves
)
"""The kinds of which a task has exactly one object: those that end."""

COMPANIONS = (("v1", "ConfigMap"), ("v1", "PersistentVolumeClaim"), ("v1", "Secret"), ("v1", "Service"))
"""The other kinds that a task may create."""

JOB = "mlpack.dev/job"
SERVER = "mlpack.dev/server"
PROJECT = "mlpack.dev/project"
APPLICATION = "mlpack.dev/application"
MANAGED_BY = "app.kubernetes.io/managed-by"
"""The labels that are added to each object."""

OWN_SECRETS = ("endpoints", "package-secrets")
"""What follows the release in the names of the Secrets that the service creates."""

SECRETS_OWNER = "secrets-owner"
"""What follows the release in the name of the ConfigMap that owns the Secrets of a job."""

MANAGER = "mlpack"

_USER = 1000
_METADATA = ("name", "labels", "annotations")
_VERSION = schema.versions()[-1]


class Site(Value, frozen=True):
    """What the administrator has decided about jobs.

    Attributes:
        server: The name of this server, by which it knows its objects.
        level: The Pod Security level that pods keep within.
        storage_classes: What a template's storage class is called in this cluster.
        node_selectors: The selectors that take the place of a template's `key=value`.
        project: The project of the jobs; None for a trial of a definition that belongs to all projects.
    """

    server: str = "default"
    level: Level = Level.restricted
    storage_classes: Mapping[str, str] = {}
    node_selectors: Mapping[str, Mapping[str, str]] = {}
    project: str | None = None


class Accepted(Value, frozen=True):
    """What became of rendered objects: the objects to apply, or the problems.

    Attributes:
        objects: What is to be applied, the workload last.
        problems: Why nothing is.
        remarks: What is no problem, and may not be what the author of a definition expects.
    """

    objects: tuple[dict[str, Any], ...] = ()
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def workload(self) -> dict[str, Any]:
        """The object that runs the task."""
        return self.objects[-1]


def accept(
    rendered: Sequence[dict[str, Any]], release: str, application: str, site: Site, *, is_package: bool = False
) -> Accepted:
    """Return the objects of a job as they are applied, or everything that the policy refuses.

    Args:
        rendered: What the template made.
        release: The job's name.
        application: What the job belongs to.
        site: What the administrator has decided.
        is_package: Whether they come from a package, of whose variables mlpack knows more.
    """
    problems = [message for item in rendered for message in _refused(item, release)]
    problems += _workloads(rendered)
    if problems:
        return Accepted(problems=tuple(dict.fromkeys(problems)))
    copies = [_copied(item) for item in rendered]
    for item in copies:
        _map_to_site(item, site)
        _add_security(item, site.level)
        _add_labels(item, release, application, site)
    copies.sort(key=_is_workload)
    unlisted = list(_unlisted(rendered))
    problems = list(_verified(copies, release, site.level, is_package=is_package))
    problems += unlisted
    return Accepted(problems=tuple(dict.fromkeys(problems))) if problems else Accepted(tuple(copies))


def _copied(value: Any) -> Any:
    """Return a copy of data, several times as fast as `deepcopy`."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def secret(release: str, role: str, content: Mapping[str, str], application: str, site: Site) -> dict[str, Any]:
    """Return a Secret of a job: `endpoints` with the headers of endpoints of data, or `package-secrets`."""
    item = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"{release}-{role}"},
        "type": "Opaque",
        "stringData": dict(content),
    }
    _add_labels(item, release, application, site)
    return item


def secrets_owner(release: str, application: str, site: Site) -> dict[str, Any]:
    """Return the empty ConfigMap that owns the Secrets of a job.

    It exists before them, so each Secret has its owner from the start, and nothing has to change or delete it: when the
    ConfigMap is deleted, the cluster deletes them.
    """
    item: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{release}-{SECRETS_OWNER}"},
    }
    _add_labels(item, release, application, site)
    return item


def _identity(item: Mapping[str, Any]) -> tuple[Any, Any]:
    return item.get("apiVersion"), item.get("kind")


def _is_workload(item: Mapping[str, Any]) -> bool:
    return _identity(item) in WORKLOADS


def _refused(item: dict[str, Any], release: str) -> Iterator[str]:
    manifest = Manifest(item)
    if _identity(item) not in (*WORKLOADS, *COMPANIONS):
        known = [kind for _, kind in (*WORKLOADS, *COMPANIONS)]
        hint = similar(manifest.kind, known)
        kind = f"{manifest.kind or 'an object without a kind'} ({manifest.api or 'no apiVersion'})"
        yield f"{kind} is not a kind that a task may create: expected {', '.join(known[:-1])} or {known[-1]}" + (
            f" ({hint})" if hint and manifest.kind not in known else ""
        )
        return
    if not isinstance(item.get("metadata"), dict):
        yield f"{manifest}: expected metadata with a name"
        return
    for key in item["metadata"]:
        if key not in _METADATA:
            yield f"{manifest}: metadata.{key}: a template must not set this field"
    if item.get("status") is not None:
        yield f"{manifest}: status: a template must not set this field"
    name = item["metadata"].get("name")
    if name != release and not str(name).startswith(f"{release}-"):
        yield f"{manifest}: metadata.name: expected the release {release!r}, or a name that begins with '{release}-'"
    if name in (f"{release}-{role}" for role in OWN_SECRETS) and manifest.kind == "Secret":
        yield f"{manifest}: the service creates the Secret of this name"
    if name == f"{release}-{SECRETS_OWNER}" and manifest.kind == "ConfigMap":
        yield f"{manifest}: the service creates the ConfigMap of this name"
    yield from _refused_fields(manifest)


_NOT_SET = {
    "Service": ("externalIPs", "externalName", "loadBalancerIP", "loadBalancerSourceRanges"),
    "PersistentVolumeClaim": ("volumeName", "dataSource", "dataSourceRef", "selector"),
}
"""Fields below `spec` that a template must not set, by kind."""


def _refused_fields(manifest: Manifest) -> Iterator[str]:
    for key in _NOT_SET.get(manifest.kind, ()):
        if key in manifest.spec:
            yield f"{manifest}: spec.{key}: a template must not set this field"
    if manifest.kind == "Secret":
        if "stringData" in manifest.data:
            yield f"{manifest}: stringData: a template must not create a Secret from values"
        if manifest.data.get("type") not in (None, "Opaque"):
            yield f"{manifest}: type: expected Opaque"
    if manifest.kind == "Service":
        if manifest.spec.get("clusterIP") != "None":
            yield f"{manifest}: spec.clusterIP: expected None, because a task has headless Services only"
        if manifest.spec.get("type") not in (None, "ClusterIP"):
            yield f"{manifest}: spec.type: expected ClusterIP"


def _workloads(rendered: Sequence[dict[str, Any]]) -> Iterator[str]:
    shown = [str(Manifest(item)) for item in rendered if _is_workload(item)]
    if len(shown) != 1:
        kinds_known = [kind for _, kind in WORKLOADS]
        expected = f"expected one {', '.join(kinds_known[:-1])} or {kinds_known[-1]}"
        yield f"{expected}, found {', '.join(shown) or 'none'}"


def _map_to_site(item: dict[str, Any], site: Site) -> None:
    if item["kind"] == "PersistentVolumeClaim":
        spec = mapping(item.get("spec"))
        name = spec.get("storageClassName")
        if isinstance(name, str) and name in site.storage_classes:
            spec["storageClassName"] = site.storage_classes[name]
    for pods in _pods(item):
        selectors = pods.spec.get("nodeSelector")
        if isinstance(selectors, dict):
            mapped: dict[str, Any] = {}
            for key, value in selectors.items():
                mapped |= site.node_selectors.get(f"{key}={value}", {key: value})
            pods.spec["nodeSelector"] = mapped


def _add_security(item: dict[str, Any], level: Level) -> None:
    """Add what Pod Security asks for and the template leaves open."""
    for pods in _pods(item):
        spec = pods.spec
        if not spec:
            continue
        if item["kind"] in ("Job", "Pod"):
            spec.setdefault("restartPolicy", "Never")
        spec.setdefault("automountServiceAccountToken", False)
        if level is not Level.restricted:
            continue
        of_pod = spec.setdefault("securityContext", {})
        if isinstance(of_pod, dict):
            of_pod.setdefault("runAsNonRoot", True)
            for key in ("runAsUser", "runAsGroup", "fsGroup"):
                of_pod.setdefault(key, _USER)
            of_pod.setdefault("seccompProfile", {"type": "RuntimeDefault"})
        for _, container in pods.containers():
            context = container.setdefault("securityContext", {})
            if isinstance(context, dict):
                context.setdefault("allowPrivilegeEscalation", False)
                capabilities = context.setdefault("capabilities", {})
                if isinstance(capabilities, dict):
                    capabilities.setdefault("drop", ["ALL"])


def _add_labels(item: dict[str, Any], release: str, application: str, site: Site) -> None:
    labels = {MANAGED_BY: MANAGER, SERVER: site.server, JOB: release}
    if site.project is not None:
        labels[PROJECT] = site.project
    holders = [item["metadata"]]
    for pods in _pods(item):
        template = at(item, pods.location)
        if pods.location and isinstance(template, dict):
            holders.append(template.setdefault("metadata", {}))
    for holder in holders:
        if isinstance(holder, dict) and isinstance(holder.setdefault("labels", {}), dict):
            holder["labels"].update(labels)
            if application:
                holder["labels"][APPLICATION] = application


def _unlisted(rendered: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the fields, labels and annotations that neither a build nor a template may have."""
    overlay = RenderedOverlay("template", tuple(map(Manifest, rendered)), _Sources())  # type: ignore[arg-type]
    facts = Facts(
        frozenset(BY_NAME) - {"queue"}, None, frozenset(overlay.names("ConfigMap")), names=(), is_template=True
    )
    for manifest in overlay.manifests:
        known = replace(facts, names=tuple(mapping(manifest.data["metadata"].get("labels")).values()))
        for unlisted in listed.judged(overlay, manifest, known, (), (*WORKLOADS, *COMPANIONS)):
            message = unlisted.message
            if unlisted.missing:
                message = f"the template has no {unlisted.missing} {at(manifest.data, unlisted.location)!r}"
            yield f"{manifest}: {dotted(unlisted.location) or 'kind'}: {message}"


class _Sources:
    """The files of an overlay: a filled-in template comes from no file."""

    origins: tuple[Any, ...] = ()
    components: tuple[Any, ...] = ()
    start = Position("template", 0, 0)


def _verified(items: Sequence[dict[str, Any]], release: str, level: Level, *, is_package: bool) -> Iterator[str]:
    sources: Any = _Sources()
    overlay = RenderedOverlay("template", tuple(map(Manifest, items)), sources)
    for manifest in overlay.manifests:
        for fault in schema.faults(manifest.data, (_VERSION,)):
            yield _sentence(manifest, dotted(fault.location), fault.message, fault.hint)
    every_kind = frozenset(manifest.kind for manifest in overlay.manifests)
    for problem in (
        *objects.check(overlay, every_kind),
        *(environment.check(overlay) if is_package else ()),
        *names.check(overlay),
        *references.check(overlay),
        *containers.check(overlay),
        *podspec.check(overlay),
        *kinds.check(overlay),
        *rights.check(overlay, frozenset({"Secret"})),
        *_secrets(overlay, release),
        *security.breaches(security.exceeded(overlay), level),
    ):
        yield _message(problem)


_OTHERS = "which no build does"


def _secrets(overlay: RenderedOverlay, release: str) -> Iterator[Problem]:
    """Yield a finding for each Secret that is not the job's own."""
    for problem in rights.check(overlay, frozenset({"ServiceAccount"})):
        own = (*(f"{release}-{role}" for role in OWN_SECRETS), *overlay.names("Secret"))
        if not problem.message.endswith(
            tuple(f"reads the Secret {name!r} of the namespace, {_OTHERS}" for name in own)
        ):
            yield problem


def _message(problem: Problem) -> str:
    message = problem.message.replace("the overlay has no", "the template has no").replace(
        "a package must not", "a template must not"
    )
    message = message.removesuffix(f", {_OTHERS}")
    hint = problem.hint if problem.hint and "--allow" not in problem.hint and "option" not in problem.hint else None
    return f"{message} ({hint})" if hint else message


def _sentence(manifest: Manifest, place: str, message: str, hint: str | None) -> str:
    return f"{manifest}: {place}: {message}" + (f" ({hint})" if hint else "")


def storage_classes(items: Sequence[dict[str, Any]]) -> list[str]:
    """Return the storage classes that objects name."""
    specs = (mapping(item.get("spec")) for item in items if item.get("kind") == "PersistentVolumeClaim")
    return sorted({str(spec["storageClassName"]) for spec in specs if spec.get("storageClassName")})


def node_selectors(items: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    """Return the node selectors of all pods, without those that any node has."""
    selectors = [mapping(pods.spec.get("nodeSelector")) for item in items for pods in _pods(item)]
    return [selector for selector in selectors if selector]


def _pods(item: dict[str, Any]) -> tuple[Pods, ...]:
    return structures.pods(Manifest(item))

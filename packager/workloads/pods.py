"""Pods: finds the pods in a manifest, their number and their roles.

Everything that has to find pods in a manifest asks `packager.workloads.structures.pods`: the build, which patches them,
`verify`, which checks them, and the verbs that ask a cluster. The answer comes from the manifest alone, so two
overlays of one kind may have different roles. A kind of workload with a folder of its own answers itself (`Structure`);
those that are Kubernetes' own, or that a site brings as a component, are in the table here.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from packager.base import yamlio
from packager.base.values import Value
from packager.base.yamlio import MISREAD
from packager.kubernetes.containers import is_gpu_or_part
from packager.kubernetes.manifest import at, integer, listing, mapping, text
from packager.kubernetes.objects import DEFAULT_CONTAINER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest


BUILT_ELSEWHERE = "mlpack/image"
"""The annotation of pods whose image is not built from the package."""


class Pods(Value, frozen=True):
    """The pods of one template, which are all alike: a Pod itself, an MPIJob's workers."""

    manifest: Manifest  # the manifest of the Pod, or of the workload that makes the pods
    location: Location  # the place of `metadata` and `spec` of the Pod or the template; a step into a list is a number
    role: str = ""  # the name of the role in the manifest; empty if the manifest has only one template
    count: int = 1  # the number of pods
    computes: bool = True  # whether the model runs there; a launcher only starts what runs elsewhere
    stores: bool = True  # whether the model may write its files there: options of storage change these pods
    main: bool = True  # whether the workload ends when they do
    labels: tuple[tuple[str, str], ...] = ()  # the labels that tell these pods from the other pods of the same workload
    # the label whose value is the workload's name, by which pods that work together are spread; None for a pod by
    # itself
    workload_label: str | None = None
    port: int | None = None  # the port of their sshd; None without one
    # the place of the number of processes per pod, if that may be one for each of its GPUs
    processes: Location | None = None
    starts_torchrun: bool = False  # whether the main container starts torchrun, which connects to that of other pods

    @property
    def name(self) -> str:
        """Their name for users: worker."""
        return (self.role or self.manifest.kind).lower()

    @property
    def spec(self) -> dict[str, Any]:
        """The PodSpec."""
        return mapping(at(self.manifest.data, (*self.location, "spec")))

    @property
    def metadata(self) -> dict[str, Any]:
        """The pod's metadata."""
        return mapping(at(self.manifest.data, (*self.location, "metadata")))

    @property
    def default_container(self) -> Any:
        """The container that is annotated as kubectl's default; None if there is no annotation."""
        return mapping(self.metadata.get("annotations")).get(DEFAULT_CONTAINER)

    @property
    def container(self) -> str:
        """The name of the main container; empty without one."""
        first = mapping(at(self.spec, ("containers", 0))).get("name")
        return text(self.default_container) or text(first)

    @property
    def container_path(self) -> str:
        """The place of the main container, as the fieldPath of a kustomize replacement."""
        return f"{self.field_path}.containers.{_step({'name': self.container}, 0)}"

    @property
    def pointer(self) -> str:
        """The place of their spec, as a JSON pointer (RFC 6901), for JSON patches."""
        return _pointer((*self.location, "spec"))

    @property
    def labels_pointer(self) -> str:
        """The place of their labels, as a JSON pointer."""
        return _pointer((*self.location, "metadata", "labels"))

    def annotation_pointer(self, key: str) -> str:
        """Return the place of an annotation of theirs, as a JSON pointer."""
        return _pointer((*self.location, "metadata", "annotations", key))

    def annotation_path(self, key: str) -> str:
        """Return the place of an annotation of theirs, as the fieldPath of a kustomize replacement."""
        escaped = key.replace(".", r"\.")
        return f"{self.field_path.removesuffix('spec')}metadata.annotations.{escaped}"

    @property
    def processes_path(self) -> str | None:
        """The place of `processes`, as the fieldPath of a kustomize replacement."""
        return self._path(self.processes) if self.processes else None

    @property
    def field_path(self) -> str:
        """The place of their spec, as the fieldPath of a kustomize replacement: an item of a list by its name."""
        return self._path((*self.location, "spec"))

    def _path(self, location: Location) -> str:
        data = self.manifest.data
        return ".".join(_step(at(data, location[: index + 1]), step) for index, step in enumerate(location))

    @property
    def labels_path(self) -> str:
        """The place of their labels, as the path of a kustomize field: an item of a list as all of its items."""
        steps = ("[]" if isinstance(step, int) else f"/{step}" for step in (*self.location, "metadata", "labels"))
        return "".join(steps).removeprefix("/")

    @property
    def adds_capabilities(self) -> bool:
        """Whether the main container adds capabilities to those that it has."""
        return at(self.spec, ("containers", 0, "securityContext", "capabilities", "add")) is not None

    def mounts(self, volume: str) -> bool:
        """Whether the main container, which is the first of a package's pods, mounts a volume."""
        mounts = listing(at(self.spec, ("containers", 0, "volumeMounts")))
        return any(mapping(mount).get("name") == volume for mount in mounts)

    @property
    def has_code(self) -> bool:
        """Whether the main container mounts the package's code."""
        return self.mounts("scripts")

    @property
    def prepares(self) -> bool:
        """Whether an init container runs something of the model, as a build writes it: the second one."""
        return bool(at(self.spec, ("initContainers", 1, "name")) == "init")

    @property
    def gpus(self) -> tuple[tuple[str, str], ...]:
        """The main and the init container that have GPUs, and the place of these below it, as JSON pointers."""
        containers = [("containers", 0), *([("initContainers", 1)] if self.prepares else [])]
        return tuple(
            (_pointer(container), _pointer(("resources", part, name)))
            for container in containers
            for part in ("limits", "requests")
            for name in mapping(at(self.spec, (*container, "resources", part)))
            if self.computes and is_gpu_or_part(str(name))
        )

    @property
    def programs(self) -> tuple[ProgramFields, ...]:
        """The containers that run something of the model, as a build writes them."""
        containers = [("containers", 0), *([("initContainers", 1)] if self.prepares else [])]
        return tuple(ProgramFields.read(self, *place) for place in containers)

    def containers(self) -> Iterator[tuple[Location, dict[str, Any]]]:
        """Yield every container and where it is, the init containers first."""
        for key in ("initContainers", "containers"):
            for index, container in enumerate(listing(self.spec.get(key))):
                yield (*self.location, "spec", key, index), mapping(container)

    def volumes(self) -> Iterator[tuple[Location, dict[str, Any]]]:
        """Yield every volume and where it is."""
        for index, volume in enumerate(listing(self.spec.get("volumes"))):
            yield (*self.location, "spec", "volumes", index), mapping(volume)


class ProgramFields(Value, frozen=True):
    """The fields of a container that runs something of the model, as a build writes them."""

    path: str  # the fieldPath of the container as the target of a kustomize replacement
    source: str  # the same as a source, where kustomize compares names as they are
    starts_in_package: bool  # whether it starts in a folder below the placeholder MODEL_DIR
    has_folders: bool  # whether its own variables are the folders of mlops.env, made absolute

    @classmethod
    def read(cls, pods: Pods, key: str, index: int) -> ProgramFields:
        """Return the fields of the container at `index` of `containers` or `initContainers`."""
        container = mapping(at(pods.spec, (key, index)))
        path = f"{pods.field_path}.{key}.{_step(container, index)}"
        folder = str(container.get("workingDir"))
        first = mapping(at(container, ("env", 0)))
        source = path.replace("[name=^", "[name=").replace("$]", "]").replace(QUOTE, "")
        return cls(path, source, folder.startswith("MODEL_DIR/"), first.get("value") == "home/mlpack")

    def variable(self, key: str) -> str:
        """Return the fieldPath of the value of a variable."""
        return f"{self.path}.env.{named(key)}.value"


def _pointer(location: Location) -> str:
    steps = (str(step).replace("~", "~0").replace("/", "~1") for step in location)
    return "".join(f"/{step}" for step in steps)


def _step(value: Any, step: str | int) -> str:
    """Return a step of a field path: a key, or an item of a list by its name."""
    name = text(mapping(value).get("name"))
    return named(name) if isinstance(step, int) and name else str(step).replace(".", r"\.")


def named(name: str) -> str:
    """Return the step of a field path to the item of a list that has a name.

    Kustomize takes the name for a regular expression, and without anchors also selects longer names. It searches the
    item's name as YAML, in quotes where YAML needs them.
    """
    needs_quotes = name.lower() in MISREAD or name[0].isdigit()
    quote = QUOTE if needs_quotes else ""
    return f"[name=^{quote}{name}{quote}$]"


QUOTE = "[\"']?"
"""The part of a pattern that finds a quotation mark around a name, or none."""

_SPEC_TEMPLATE: Location = ("spec", "template")
_TEMPLATES: dict[str, Location] = {
    "PodTemplate": ("template",),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    **dict.fromkeys(("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet"), _SPEC_TEMPLATE),
}

# Kubernetes' own; each other group of its own ends with .k8s.io, and has no kind with pods.
_OWN_GROUPS = frozenset(("", "apps", "autoscaling", "batch", "policy"))


def of_kubernetes(manifest: Manifest) -> Iterator[Pods]:
    """Yield the pods of a kind of Kubernetes' own that has no folder."""
    if manifest.kind in _TEMPLATES:
        yield Pods(manifest, _TEMPLATES[manifest.kind], count=number_of_pods(manifest.spec.get("replicas")))


def is_of_kubernetes(manifest: Manifest) -> bool:
    """Whether `of_kubernetes` knows all pods that come of `manifest`."""
    if manifest.api.count("/") > 1 or not manifest.api:
        return False
    return manifest.group in _OWN_GROUPS or manifest.group.endswith(".k8s.io")


def number_of_pods(value: Any) -> int:
    """Return the number of pods, or Jobs, that a manifest's `value` asks for; 1 is the default of Kubernetes."""
    number = integer(value)
    return 1 if number is None else max(number, 0)


EPHEMERAL = frozenset(("emptyDir", "ephemeral", "configMap", "secret", "downwardAPI", "projected"))
"""The sources of volumes that are deleted with their pod (https://kubernetes.io/docs/concepts/storage/volumes)."""


def outlives_pods(volume: Mapping[str, Any]) -> bool:
    """Whether data on a volume outlives the pods that mount it."""
    return not volume.keys() & EPHEMERAL


def writes_to_claim(spec: Mapping[str, Any]) -> bool:
    """Whether the main container of a PodSpec may write to a claim."""
    volumes = map(mapping, listing(spec.get("volumes")))
    claims = {volume.get("name") for volume in volumes if "persistentVolumeClaim" in volume}
    main = mapping(next(iter(listing(spec.get("containers"))), None))
    mounts = map(mapping, listing(main.get("volumeMounts")))
    return any(mount.get("name") in claims and not mount.get("readOnly") for mount in mounts)


SITE_ANNOTATIONS = "site-annotations"
"""The name of the component's folder."""

_HEAD = """\
# Annotations of the pods, from the defaults of the site. `mlpack build` and `mlpack configure` write this file.
"""


def annotation_component(pods: Iterable[tuple[Pods, str | None]], annotations: Mapping[str, str]) -> bytes:
    """Return the kustomization of a component that adds annotations to pods."""
    patches: dict[str, dict[str, Any]] = {}
    for entry, label in pods:
        target = {"kind": entry.manifest.kind, "name": entry.manifest.name}
        if label is not None:
            target["labelSelector"] = f"mlpack/overlay={label}"
        patch = patches.setdefault(json.dumps(target), {"target": target, "operations": {}})
        for key, value in annotations.items():
            path = entry.annotation_pointer(key)
            patch["operations"][path] = {"op": "add", "path": path, "value": value}
    data = {
        "apiVersion": "kustomize.config.k8s.io/v1alpha1",
        "kind": "Component",
        "patches": [
            {"target": patch["target"], "patch": json.dumps(list(patch["operations"].values()))}
            for patch in patches.values()
        ],
    }
    return (_HEAD + yamlio.dump([data])).encode()

"""Reads the fields of a pod template that a spec or an option can represent.

Tests: modelspec/importers/test_mxjob.py.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from packager.base import envfile
from packager.base.problems import show
from packager.base.values import Value, replace
from packager.kubernetes.containers import MOUNTED, folder_complaint, refusal_reason
from packager.modelspec.environments import RESERVED
from packager.modelspec.importers.source import LOST, Given, Rule
from packager.package.options import KEYS
from packager.workloads.program import references, replaced_references

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packager.base.yamlio import Location
    from packager.modelspec.importers.draft import Draft
    from packager.modelspec.importers.source import ForeignValue, Rules

_GPU = re.compile(r"(?P<vendor>[a-z0-9.-]+)/(?:nvidia-)?gpu")
_OLD_GPU = "alpha.kubernetes.io/nvidia-gpu"
_FOLDER = r"/|(/\.?[A-Za-z0-9_+@][-A-Za-z0-9._+@]*)+"
_SHM = "/dev/shm"  # noqa: S108 - where POSIX shared memory is mounted
ABOVE = "a kustomization of your own above the overlay can add it"
ONE_CONTAINER = "is not carried over: a pod of a package has one container"
_PLACEMENT = Rule("belongs into placement/placement.yaml of the package", option="placement")
_ACCOUNT = Rule("is the option service-account of a site", option="service-account", key="SERVICE_ACCOUNT")
FIELDS: Rules = MappingProxyType(
    {
        **dict.fromkeys(("apiVersion", "kind", "status", "creationTimestamp"), Rule("")),
        **dict.fromkeys(("labels", "annotations"), Rule(hint=ABOVE)),
        **dict.fromkeys(("nodeSelector", "tolerations", "affinity"), _PLACEMENT),
        **dict.fromkeys(("serviceAccountName", "serviceAccount"), _ACCOUNT),
        "imagePullSecrets": Rule("is the option pull-secret of a site", option="pull-secret", key="PULL_SECRET"),
        "hostNetwork": Rule("is the option host-network of a site", option="host-network"),
        "initContainers": Rule(hint="do in the image, or in the command, what it prepares"),
        "schedulerName": Rule(hint="--with queue, or --with gang"),
        "terminationGracePeriodSeconds": Rule(hint="stops_within of the overlay"),
        "runAsUser": Rule(hint="mlpack configure --uid {}"),
        "runAsGroup": Rule(hint="mlpack configure --gid {}"),
        "fsGroup": Rule(hint="mlpack configure --fs-group {}"),
        **dict.fromkeys(("capabilities", "privileged"), Rule(f"{LOST}: a package sets its own", "--with rdma")),
        "hostIPC": Rule(hint="--with shared-memory"),
        "imagePullPolicy": Rule("is not carried over: Kubernetes decides by the tag"),
        "envFrom": Rule(hint="list its keys under environment, or under secrets"),
        **dict.fromkeys(("livenessProbe", "readinessProbe", "startupProbe"), Rule(f"{LOST}: a job has no probes")),
        "lifecycle": Rule(hint="do it in the program"),
    }
)
"""The reports about the fields of pods and of containers that no spec has."""


class ForeignGpus(Value, frozen=True):
    """GPUs that a container requests."""

    count: int
    vendor: str  # the prefix of the resource's name
    entry: ForeignValue


class Container(Value, frozen=True):
    """The carried-over parts of a pod template."""

    image: ForeignValue | None = None
    command: Given | None = None  # None for the image's entrypoint
    args: Given | None = None
    environment: Mapping[str, Given] = MappingProxyType({})
    resources: Mapping[Location, Given] = MappingProxyType({})  # by part and name, except GPUs
    gpus: tuple[ForeignGpus, ...] = ()
    directory: Given | None = None  # None for the image's
    port: Given | None = None  # on which the pods find each other
    options: tuple[str, ...] = ()  # those for pods that compute which stand for fields of the pod

    @property
    def program(self) -> tuple[list[str] | None, list[str] | None]:
        """The words of command and args; None for those of the image."""
        command, args = (given.value if given else None for given in (self.command, self.args))
        return command, args

    @property
    def words(self) -> list[str]:
        """The words of command and args in a row."""
        return [word for part in self.program for word in part or ()]


def read(
    template: ForeignValue, name: str, draft: Draft, port: str = "", *, is_required: bool = False
) -> Container | None:
    """Return the container of this name, else the first unless it is required; None, with a problem, without one."""
    for key in ("labels", "annotations"):
        template.at("metadata", key)
    pod = template.at("spec")
    listed = pod.items("containers") if pod else []
    containers = {entry: entry.string("name") for entry in listed if entry.is_mapping()}
    first = None if is_required else next(iter(containers), None)
    main = next((entry for entry, own in containers.items() if own == name), first)
    if pod is None or main is None:
        template.refuse(f"expected spec.containers with a container{f' {name!r}' if is_required else ''}")
        return None
    for entry, own in containers.items():
        if entry is not main:
            entry.leave(f"({show(own)}) {ONE_CONTAINER}")
    pod.child("initContainers")
    for holder in (pod, main):
        holder.child("securityContext")
    lost = _put_volumes(pod, main, draft)
    own_port = None
    for entry in main.items("ports"):
        number = entry.at("containerPort") if port and entry.string("name") == port else None
        if number:
            entry.done()
            own_port = own_port or number.given(number.whole())
        else:
            entry.leave("is not carried over: only a Deployment has ports")
    has_shm = any(mount.string("mountPath").rstrip("/") == _SHM for mount in main.items("volumeMounts"))
    needed = {"shared-memory": has_shm and _SHM not in lost, "host-network": pod.value.get("hostNetwork") is True}
    options = tuple(option for option, is_needed in needed.items() if is_needed)
    return replace(read_container(main, draft, lost), port=own_port, options=options)


def read_container(entry: ForeignValue, draft: Draft, lost: Mapping[str, str] = MappingProxyType({})) -> Container:
    """Return a container without its mounts and ports; `lost` has the folders of volumes that it lacks."""
    directory = entry.child("workingDir")
    folder = (directory.text() or "") if directory else ""
    if directory and not re.fullmatch(_FOLDER, folder):
        directory.leave("is not carried over: expected an absolute path", "set WORKDIR in the image")
        directory = None
    command, args = (_words(entry.child(key), lost) for key in ("command", "args"))
    resources, gpus = quantities(entry.child("resources"))
    environment = variables(entry.items("env"), draft)
    own_folder = directory.given(folder) if directory else None
    return Container(entry.child("image"), command, args, environment, resources, gpus, own_folder)


def _put_volumes(pod: ForeignValue, container: ForeignValue, draft: Draft) -> dict[str, str]:
    """Report the volumes; return the folders of those that are not carried over, without and with a last slash."""
    lost: dict[str, str] = {}
    for volume in pod.items("volumes"):
        name = volume.string("name")
        mounts = [mount for mount in container.items("volumeMounts") if mount.string("name") == name]
        for mount in (*mounts,) or (None,):
            path = mount.string("mountPath") if mount else ""
            if not _put_volume(volume, path.rstrip("/"), mount, draft) and path:
                lost[path.rstrip("/")] = path
        for entry in (volume, *mounts):
            entry.done()
    return lost


def _put_volume(volume: ForeignValue, path: str, mount: ForeignValue | None, draft: Draft) -> bool:
    """Report a volume, and return whether an option stands for it."""
    empty, claim = volume.child("emptyDir"), volume.child("persistentVolumeClaim")
    if empty is not None and path == _SHM:
        size = empty.string("sizeLimit")
        hint = draft.option("shared-memory", **({"SHM_SIZE": size} if size else {}))
        volume.leave("is the option shared-memory of a site", hint)
        return True
    text = claim.string("claimName") if claim else ""
    if claim and text and mount is not None and not folder_complaint(path) and mount.child("subPath") is None:
        read_only = any((entry := part.child("readOnly")) and entry.value is True for part in (mount, claim))
        key, option = ("DATASET_DIR", "DATASET_CLAIM") if read_only else ("OUTPUT_DIR", "OUTPUT_CLAIM")
        known = draft.data.get("environment", {}).get(key)
        if known in (None, path) and draft.site.get(option, text) == text and not KEYS[option].complaint(text):
            draft.put(("environment", key), path, mount.origin)
            volume.leave(f"is mounted at {key} by the option pvc of a site", draft.option("pvc", **{option: text}))
            return True
    kinds = ", ".join(entry.key for entry in volume.children() if entry.key != "name") or "emptyDir"
    message = f"({kinds} {show(volume.string('name'))}{f' at {path}' if path else ''}) is not carried over"
    volume.leave(message, "put files into the image, or into storage that an option of a site mounts")
    return False


def _words(entry: ForeignValue | None, lost: Mapping[str, str]) -> Given | None:
    """Return the words of a command; refuse each that names a path in a volume that is not carried over."""
    words = entry.words() if entry else None
    if entry is None or words is None:
        return None
    for item in entry.items():
        for path, shown in lost.items():
            if path in str(item.value) and re.search(rf"(?:^|[\s=:]){re.escape(path)}(?:/|\s|$)", str(item.value)):
                message = f"the command needs {shown}, a volume that cannot be carried over"
                item.refuse(message, "put these files into the image")
                break
    return entry.given(words)


def variables(listed: Iterable[ForeignValue], draft: Draft) -> dict[str, Given]:
    """Return the variables of a container's `env` that a package can have; add a finding for each of the others.

    A variable from a Secret becomes one of the `secrets`. A reference `$(NAME)` to an earlier variable is replaced by
    the value, as the kubelet does: mlops.env becomes a ConfigMap, in which references are not replaced.
    """
    values: dict[str, Given] = {}
    for item in listed:
        if not item.is_mapping():
            continue
        key, text, source = item.string("name"), item.string("value"), item.child("valueFrom")
        if source is not None and _put_secret(key, item, source, draft):
            continue
        if source is not None:
            item.leave(f"{show(key)} is not carried over: a package has values only", "set it in the program")
        elif complaint := complaint_about(key, text):
            item.leave(f"{show(key)} is not carried over: {complaint}")
        elif (filled := expanded(text, values)) is None:
            item.leave(f"{show(key)} is not carried over: with its references it has more than 64 KiB")
        else:
            values[key] = (item.child("value") or item).given(filled)
    return values


def _put_secret(key: str, item: ForeignValue, source: ForeignValue, draft: Draft) -> bool:
    """Put a variable that is read from a Secret, if a package can have it; return whether it can."""
    secret, secret_key = source.string("secretKeyRef", "name"), source.string("secretKeyRef", "key")
    if not secret or not secret_key or complaint_about(key, "") or key in MOUNTED:
        return False
    draft.put(("secrets", key), {}, item.origin)
    known = draft.site.get("SECRET", secret)
    is_valid = not KEYS["SECRET"].complaint(known)
    if known != secret or secret_key != key or not is_valid:
        hint = f"copy {show(secret_key)} of the Secret {show(secret)} to that key there"
        item.note(f"{show(key)} is read from the key {key} of the Secret that SECRET in site.env names", hint)
    item.done()
    if is_valid:
        draft.site["SECRET"] = known
    return True


def complaint_about(key: str, value: str) -> str | None:
    """Return the reason why a spec cannot have an environment variable; None if it can."""
    if not re.fullmatch(envfile.NAME, key) or len(key) > 100:
        return "expected a name of letters, digits and '_'"
    if reason := f"the package sets it: {RESERVED[key]}" if key in RESERVED else refusal_reason(key):
        return reason
    if not re.fullmatch(envfile.VALUE, value) or len(f"{key}={value}".encode()) > envfile.LINE_BYTES:
        return "expected one line of at most 64 KiB"
    return folder_complaint(value) if key in ("DATASET_DIR", "OUTPUT_DIR") else None


def expanded(text: str, values: Mapping[str, Given]) -> str | None:
    """Return `text` with each `$(NAME)` of `values` replaced, and `$$` by `$`; None if it would be too long."""
    sizes = (len(str(values[name].value)) for name in references(text) if name in values)
    if len(text) + sum(sizes) > envfile.LINE_BYTES:
        return None

    def replacement(name: str | None) -> str:
        if name is None:
            return "$"
        return str(values[name].value) if name in values else f"$({name})"

    return replaced_references(text, replacement)


def escaped(word: str, known: Iterable[str]) -> str:
    """Return a word of a command with escaped references to variables that no container has: Kubernetes keeps these."""

    def replacement(name: str | None) -> str:
        if name is None:
            return "$$"
        is_unknown = name not in known and name.isidentifier() and name.isupper()
        return f"$$({name})" if is_unknown else f"$({name})"

    return replaced_references(word, replacement)


def quantities(listing: ForeignValue | None) -> tuple[dict[Location, Given], tuple[ForeignGpus, ...]]:
    """Return a container's requests and limits, and its GPUs, for which `put_gpus` notes the option of a site."""
    resources: dict[Location, Given] = {}
    gpus: list[ForeignGpus] = []
    parts = [(part, entry) for part in ("requests", "limits") for entry in (listing.children(part) if listing else ())]
    for part, entry in parts:
        if entry.value is None:
            continue
        if gpu := _GPU.fullmatch(entry.key):
            if count := entry.whole():
                gpus.append(ForeignGpus(count, "nvidia.com" if entry.key == _OLD_GPU else gpu["vendor"], entry))
        elif (text := entry.text()) is not None:
            is_number = isinstance(entry.value, int) and not isinstance(entry.value, bool)
            resources[part, entry.key] = entry.given(entry.value if is_number else text)
    return resources, tuple(gpus)


def put_resources(draft: Draft, place: Location, resources: Mapping[Location, Given]) -> None:
    """Put requests and limits into the overlay or role at `place`."""
    for steps, given in resources.items():
        draft.put_given((*place, "resources", *steps), given)


def put_gpus(draft: Draft, gpus: Iterable[ForeignGpus]) -> None:
    """Note that a build needs the option for GPUs, with the number and the vendor of the last of `gpus`."""
    for one in gpus:
        site = {"GPU_COUNT": str(one.count)} | ({"GPU_VENDOR": one.vendor} if one.vendor != "nvidia.com" else {})
        one.entry.leave("is the option gpu of a site", draft.option("gpu", **site))

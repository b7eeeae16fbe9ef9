"""Reads the fields of a pod template that a spec or an option can represent.

Tests: modelspec/importers/test_mxjob.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base import envfile
from packager.base.problems import show
from packager.base.values import Value
from packager.kubernetes import mountpath
from packager.kubernetes.environment import refusal_reason
from packager.modelspec.environments import RESERVED
from packager.modelspec.importers.source import Given
from packager.package.options import KEYS
from packager.workloads.program import references, replaced_references

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packager.base.yamlio import Location
    from packager.modelspec.importers.draft import Draft
    from packager.modelspec.importers.source import ForeignValue

_GPU = re.compile(r"(?P<vendor>[a-z0-9.-]+)/(?:nvidia-)?gpu")
_OLD_GPU = "alpha.kubernetes.io/nvidia-gpu"
_FOLDER = r"/|(/\.?[A-Za-z0-9_+@][-A-Za-z0-9._+@]*)+"
_PREPARE = "do in the image, or in the command, what it prepares"
ONE_CONTAINER = "is not carried over: a pod of a package has one container"


class ForeignGpus(Value, frozen=True):
    """GPUs that a container requests."""

    count: int
    vendor: str  # the prefix of the resource's name
    entry: ForeignValue


class Container(Value, frozen=True):
    """The carried-over parts of a pod template."""

    image: ForeignValue | None
    command: Given | None  # None for the image's entrypoint
    args: Given | None
    environment: dict[str, Given]
    resources: dict[Location, Given]  # by part and name, except GPUs
    gpus: tuple[ForeignGpus, ...]
    directory: Given | None  # None for the image's
    options: tuple[str, ...]  # those of a site that stand for fields of the pod, except the option for GPUs


def read(template: ForeignValue, name: str | None, draft: Draft, ports: Iterable[str] = ()) -> Container | None:
    """Read a pod template; fields that a site decides are noted in `draft` as options.

    Returns:
        The container; None, with a problem, if there is none of this name.
    """
    for entry in template.children_at("metadata"):
        if entry.value is not None and entry.key not in ("creationTimestamp", "annotations"):
            entry.leave(hint="a kustomization of your own above the overlay can add it")
    pod = template.at("spec")
    listed = pod.child("containers") if pod else None
    if pod is None or listed is None:
        template.refuse("expected spec.containers")
        return None
    containers = [entry for entry in listed.items() if entry.is_mapping()]
    names = [entry.string("name") for entry in containers]
    if not containers or (name is not None and name not in names):
        listed.refuse(f"expected a container {name!r}", "the operator started this one only")
        return None
    main = containers[names.index(name) if name is not None else 0]
    for entry, other in zip(containers, names, strict=True):
        if entry is not main:
            entry.leave(f"({show(other)}) {ONE_CONTAINER}")
    # The draft notes an option once, even if several pods need it: so this pod's options are collected separately.
    earlier, draft.options = draft.options, []
    _put_pod(pod, draft)
    lost = _put_volumes(pod, main, draft)
    own, draft.options = draft.options, list(dict.fromkeys((*earlier, *draft.options)))
    environment = variables(main.child("env"), draft)
    for port in main.items_at("ports"):
        if port.string("name") in ports:
            port.done()
        else:
            port.leave("is not carried over: only a Deployment has ports")
    directory = main.child("workingDir")
    folder = directory.text() if directory else None
    if directory and folder is not None and not re.fullmatch(_FOLDER, folder):
        directory.leave("is not carried over: expected an absolute path", "set WORKDIR in the image")
        directory = None
    start = Given(folder, directory.origin) if directory else None
    command, args = (_words(main.child(key), lost) for key in ("command", "args"))
    resources, gpus = quantities(main.child("resources"))
    return Container(main.child("image"), command, args, environment, resources, gpus, start, tuple(own))


def _put_pod(pod: ForeignValue, draft: Draft) -> None:
    """Report the fields of a pod that a site decides, and note the options that stand for them."""
    for key in ("initContainers", "ephemeralContainers"):
        for item in pod.items_at(key):
            item.leave("is not carried over", _PREPARE)
    if (network := pod.child("hostNetwork")) and network.value is True:
        network.leave("is the option host-network of a site", draft.option("host-network"))
    for position, item in enumerate(pod.items_at("imagePullSecrets")):
        if (secret := item.string("name")) and position == 0:
            item.leave("is the option pull-secret of a site", draft.option("pull-secret", PULL_SECRET=secret))
        else:
            item.leave("is not carried over: a site has one pull secret")
    for key in ("serviceAccountName", "serviceAccount"):
        if (account := pod.child(key)) and (text := account.text()):
            hint = draft.option("service-account", SERVICE_ACCOUNT=text)
            account.leave("is the option service-account of a site", hint)
    for key in ("nodeSelector", "tolerations", "affinity"):
        if (entry := pod.child(key)) and entry.value:
            entry.leave("belongs into placement/placement.yaml of the package", draft.option("placement"))


def _put_volumes(pod: ForeignValue, container: ForeignValue, draft: Draft) -> dict[str, str]:
    """Report the volumes; return the folders of those that are not carried over, without and with a last slash."""
    mounts: dict[str, list[ForeignValue | None]] = {}
    for item in container.items_at("volumeMounts"):
        mounts.setdefault(item.string("name"), []).append(item)
    lost: dict[str, str] = {}
    for volume in pod.items_at("volumes"):
        for mount in mounts.pop(volume.string("name"), [None]):
            path = mount.string("mountPath") if mount else ""
            if not _put_volume(volume, path.rstrip("/"), mount, draft) and path:
                lost[path.rstrip("/")] = path
            if mount:
                mount.done()
        volume.done()
    for name, items in mounts.items():
        for unknown in items:
            if unknown:
                unknown.leave(f"names no volume: {show(name)}")
    return lost


def _put_volume(volume: ForeignValue, path: str, mount: ForeignValue | None, draft: Draft) -> bool:
    """Report a volume, and return whether an option stands for it."""
    empty, claim = volume.child("emptyDir"), volume.child("persistentVolumeClaim")
    name = show(volume.string("name"))
    if empty is not None and path == "/dev/shm":  # noqa: S108 - where POSIX shared memory is mounted
        size = empty.string("sizeLimit") if isinstance(empty.value, dict) else ""
        hint = draft.option("shared-memory", **({"SHM_SIZE": size} if size else {}))
        volume.leave("is the option shared-memory of a site", hint)
        return True
    text = claim.string("claimName") if claim else ""
    if claim and text and mount is not None and not mountpath.complaint(path) and mount.child("subPath") is None:
        read_only = any((entry := part.child("readOnly")) and entry.value is True for part in (mount, claim))
        key, option = ("DATASET_DIR", "DATASET_CLAIM") if read_only else ("OUTPUT_DIR", "OUTPUT_CLAIM")
        known = draft.data.get("environment", {}).get(key)
        if known in (None, path) and draft.site.get(option, text) == text and not KEYS[option].complaint(text):
            draft.put(("environment", key), path, mount.origin)
            volume.leave(f"is mounted at {key} by the option pvc of a site", draft.option("pvc", **{option: text}))
            return True
    kinds = ", ".join(entry.key for entry in volume.children() if entry.key != "name")
    message = f"({kinds or 'emptyDir'} {name}{f' at {path}' if path else ''}) is not carried over"
    volume.leave(message, "put files into the image, or into storage that an option of a site mounts")
    return False


def _words(entry: ForeignValue | None, lost: Mapping[str, str]) -> Given | None:
    """Return the words of a command; refuse each that names a path in a volume that is not carried over."""
    words = entry.words() if entry else None
    if entry is None or words is None:
        return None
    patterns = {path: re.compile(rf"(?:^|[\s=:]){re.escape(path)}(?:/|\s|$)") for path in lost}
    for item in entry.items():
        word = str(item.value)
        if path := next((path for path in lost if path in word and patterns[path].search(word)), None):
            message = f"the command needs {lost[path]}, a volume that cannot be carried over"
            item.refuse(message, "put these files into the image")
    return Given(words, entry.origin)


def variables(listed: ForeignValue | None, draft: Draft) -> dict[str, Given]:
    """Return the variables of a container's `env` that a package can have; add a finding for each of the others.

    A variable from a Secret becomes one of the `secrets`. A reference `$(NAME)` to an earlier variable is replaced by
    the value, as the kubelet does: mlops.env becomes a ConfigMap, in which references are not replaced.
    """
    values: dict[str, Given] = {}
    for item in listed.items() if listed else ():
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
            values[key] = Given(filled, (item.child("value") or item).origin)
    return values


def _put_secret(key: str, item: ForeignValue, source: ForeignValue, draft: Draft) -> bool:
    """Put a variable that is read from a Secret, if a package can have it; return whether it can."""
    reference = source.at("secretKeyRef")
    secret, secret_key = (reference.string("name"), reference.string("key")) if reference else ("", "")
    if not secret or not secret_key or complaint_about(key, "") or key in mountpath.MOUNTED:
        return False
    draft.put(("secrets", key), {}, item.origin)
    known = draft.site.get("SECRET", secret)
    if known != secret or secret_key != key or KEYS["SECRET"].complaint(secret):
        hint = f"copy {show(secret_key)} of the Secret {show(secret)} to that key there"
        item.leave(f"{show(key)} is read from the key {key} of the Secret that SECRET in site.env names", hint)
    else:
        item.done()
    if not KEYS["SECRET"].complaint(known):
        draft.site["SECRET"] = known
    return True


def complaint_about(key: str, value: str) -> str | None:
    """Return the reason why a spec cannot have an environment variable; None if it can."""
    if not re.fullmatch(envfile.NAME, key) or len(key) > 100:
        return "expected a name of letters, digits and '_'"
    if key in RESERVED:
        return f"the package sets it: {RESERVED[key]}"
    if reason := refusal_reason(key):
        return reason
    if not re.fullmatch(envfile.VALUE, value) or len(f"{key}={value}".encode()) > envfile.LINE_BYTES:
        return "expected one line of at most 64 KiB"
    return mountpath.complaint(value) if key in ("DATASET_DIR", "OUTPUT_DIR") else None


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
    for part in ("requests", "limits"):
        for entry in listing.children_at(part) if listing else ():
            if entry.value is None:
                continue
            if gpu := _GPU.fullmatch(entry.key):
                if count := entry.whole(0, 9999):
                    gpus.append(ForeignGpus(count, "nvidia.com" if entry.key == _OLD_GPU else gpu["vendor"], entry))
            elif (text := entry.text()) is not None:
                value = entry.value if isinstance(entry.value, int) and not isinstance(entry.value, bool) else text
                resources[part, entry.key] = Given(value, entry.origin)
    return resources, tuple(gpus)


def put_resources(draft: Draft, place: Location, resources: Mapping[Location, Given]) -> None:
    """Put requests and limits into the overlay or role at `place`."""
    for (part, name), given in resources.items():
        draft.put((*place, "resources", part, name), given.value, given.origin)


def put_gpus(draft: Draft, gpus: Iterable[ForeignGpus]) -> None:
    """Note that a build needs the option for GPUs, with the number and the vendor of the last of `gpus`."""
    for one in gpus:
        site = {"GPU_COUNT": str(one.count)} | ({"GPU_VENDOR": one.vendor} if one.vendor != "nvidia.com" else {})
        one.entry.leave("is the option gpu of a site", draft.option("gpu", **site))

"""Reads the fields of a pod template that a spec or an option can represent.

Tests: modelspec/importers/mxjob/test_read.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from packager.base import envfile
from packager.base.problems import show
from packager.base.values import Value, replace
from packager.kubernetes import mountpath
from packager.kubernetes.environment import refusal_reason
from packager.modelspec.environments import RESERVED
from packager.modelspec.importers.draft import with_option
from packager.package.options import KEYS
from packager.workloads.program import references, replaced_references

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packager.modelspec.importers.draft import Sketch
    from packager.modelspec.importers.source import ForeignValue, ValueOrigin

# Kubernetes, third_party/forked/golang/expansion: `$$` is replaced by `$`.
_GPU = re.compile(r"(?P<vendor>[a-z0-9.-]+)/(?:nvidia-)?gpu")
_OLD_GPU = "alpha.kubernetes.io/nvidia-gpu"
_LONGEST_KEY = 100
_FOLDER = r"/|(/\.?[A-Za-z0-9_+@][-A-Za-z0-9._+@]*)+"
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - where POSIX shared memory is mounted


class Given(Value, frozen=True):
    """A value, and its origin."""

    value: Any
    origin: ValueOrigin


class ForeignGpus(Value, frozen=True):
    """GPUs that a container requests.

    Attributes:
        count: The number of GPUs.
        vendor: The prefix of the resource's name.
        entry: The entry that requests the GPUs.
    """

    count: int
    vendor: str
    entry: ForeignValue


class ForeignContainer(Value, frozen=True):
    """The carried-over parts of a pod template.

    Attributes:
        image: The entry of the image; None if the container has none.
        command: The command; None for the image's entrypoint.
        args: The arguments; None for the image's.
        environment: The variables.
        requests: The requested resources, except GPUs.
        limits: The limits of resources, except GPUs.
        gpus: The requested GPUs, from requests and limits.
        directory: The working directory; None for the image's.
        options: The options of a site that stand for fields of the pod, except the option for GPUs.
    """

    image: ForeignValue | None
    command: Given | None
    args: Given | None
    environment: dict[str, Given]
    requests: dict[str, Given]
    limits: dict[str, Given]
    gpus: tuple[ForeignGpus, ...]
    directory: Given | None = None
    options: tuple[str, ...] = ()


def read(template: ForeignValue, name: str, sketch: Sketch, ports: set[str]) -> ForeignContainer | None:
    """Read a pod template; fields that a site decides are noted in `sketch` as options.

    Args:
        template: The `template` of a controller.
        name: The name of the main container.
        sketch: The draft that gets the options.
        ports: The names of ports that the caller reads itself.

    Returns:
        The container; None, with a problem, if there is none of this name.
    """
    _metadata(template.at("metadata"))
    pod = template.at("spec")
    listed = pod.child("containers") if pod else None
    if pod is None or listed is None:
        template.refuse("expected spec.containers")
        return None
    containers = [entry for entry in listed.items() if entry.is_mapping()]
    main = next((entry for entry in containers if _name_of(entry) == name), None)
    if main is None:
        listed.refuse(f"expected a container {name!r}", "the operator started this one only")
        return None
    for entry in containers:
        if entry is not main:
            entry.leave(f"({show(_name_of(entry))}) is not carried over: a pod of a package has one container")
    # The sketch notes an option once, even if several pods need it: so this pod's options are collected separately.
    earlier, sketch.options = sketch.options, []
    _pod(pod, sketch)
    lost = _volumes(pod, main, sketch)
    own, sketch.options = sketch.options, list(dict.fromkeys((*earlier, *sketch.options)))
    return replace(_container(main, sketch, ports, lost), options=tuple(own))


def _name_of(entry: ForeignValue) -> str:
    name = entry.child("name")
    return (name.text() if name else None) or ""


def _metadata(metadata: ForeignValue | None) -> None:
    if metadata is not None:
        for entry in metadata.children():
            if entry.value is not None and entry.key not in ("creationTimestamp", "annotations"):
                entry.leave()


def _pod(pod: ForeignValue, sketch: Sketch) -> None:
    """Report the fields of a pod that a site decides, and note the options that stand for them."""
    for key in ("initContainers", "ephemeralContainers"):
        if entry := pod.child(key):
            for item in entry.items():
                item.leave("is not carried over", "do in the image, or in the command, what it prepares")
    if (network := pod.child("hostNetwork")) and network.value is True:
        network.leave("is the option host-network of a site", with_option(sketch, "host-network"))
    if secrets := pod.child("imagePullSecrets"):
        _pull_secrets(secrets, sketch)
    for key in ("serviceAccountName", "serviceAccount"):
        if (account := pod.child(key)) and (text := account.text()):
            hint = with_option(sketch, "service-account", SERVICE_ACCOUNT=text)
            account.leave("is the option service-account of a site", hint)
    for key in ("nodeSelector", "tolerations", "affinity"):
        if (entry := pod.child(key)) and entry.value:
            hint = with_option(sketch, "placement")
            entry.leave("belongs into placement/placement.yaml of the package", hint)


def _pull_secrets(secrets: ForeignValue, sketch: Sketch) -> None:
    for position, item in enumerate(secrets.items()):
        secret = item.at("name")
        text = secret.text() if secret else None
        if text and position == 0:
            hint = with_option(sketch, "pull-secret", PULL_SECRET=text)
            item.leave("is the option pull-secret of a site", hint)
        else:
            item.leave("is not carried over: a site has one pull secret")


def _volumes(pod: ForeignValue, container: ForeignValue, sketch: Sketch) -> dict[str, ForeignValue]:
    """Report the volumes, and return those that are not carried over, by the folder at which they are mounted."""
    mounts: dict[str, list[ForeignValue]] = {}
    if listed := container.child("volumeMounts"):
        for item in listed.items():
            mounts.setdefault(_name_of(item), []).append(item)
    lost: dict[str, ForeignValue] = {}
    volumes = pod.child("volumes")
    for volume in volumes.items() if volumes else ():
        for mount in mounts.pop(_name_of(volume), [None]):
            folder = mount.at("mountPath") if mount else None
            path = (folder.text() if folder else None) or ""
            if not _volume(volume, path.rstrip("/"), mount, sketch) and path:
                lost[path] = volume
            if mount:
                mount.done()
        volume.done()
    for name, items in mounts.items():
        for item in items:
            item.leave(f"names no volume: {show(name)}")
    return lost


def _volume(volume: ForeignValue, path: str, mount: ForeignValue | None, sketch: Sketch) -> bool:
    """Report a volume, and return whether an option stands for it."""
    empty, claim = volume.child("emptyDir"), volume.child("persistentVolumeClaim")
    name = show(_name_of(volume))
    if empty is not None and path == _SHARED_MEMORY:
        limit = empty.at("sizeLimit")
        site = {"SHM_SIZE": text} if limit and (text := limit.text()) else {}
        hint = with_option(sketch, "shared-memory", **site)
        volume.leave("is the option shared-memory of a site", hint)
        return True
    claim_name = claim.at("claimName") if claim else None
    text = claim_name.text() if claim_name else None
    if text and mount is not None and not mountpath.complaint(path) and mount.child("subPath") is None:
        read_only = any((entry := part.child("readOnly")) and entry.value is True for part in (mount, claim) if part)
        key, option = ("DATASET_DIR", "DATASET_CLAIM") if read_only else ("OUTPUT_DIR", "OUTPUT_CLAIM")
        known = sketch.data.get("environment", {}).get(key)
        if known in (None, path) and sketch.site.get(option, text) == text and not KEYS[option].complaint(text):
            sketch.put(("environment", key), path, mount.origin)
            hint = with_option(sketch, "pvc", **{option: text})
            volume.leave(f"is mounted at {key} by the option pvc of a site", hint)
            return True
    kinds = [entry.key for entry in volume.children() if entry.key != "name"]
    where = f" at {path}" if path else ""
    message = f"({', '.join(kinds) or 'emptyDir'} {name}{where}) is not carried over"
    volume.leave(message, "put files into the image, or into storage that an option of a site mounts")
    return False


def _container(main: ForeignValue, sketch: Sketch, ports: set[str], lost: dict[str, ForeignValue]) -> ForeignContainer:
    environment = variables(main.child("env"), sketch)
    words: dict[str, Given] = {}
    for key in ("command", "args"):
        if entry := main.child(key):
            listed_words = entry.words()
            if listed_words is not None:
                words[key] = Given(listed_words, entry.origin)
                _check_volumes(entry, lost)
    directory = main.child("workingDir")
    folder = directory.text() if directory else None
    if directory and folder is not None and not re.fullmatch(_FOLDER, folder):
        directory.leave("is not carried over: expected an absolute path", "set WORKDIR in the image")
        folder = None
    listed = main.child("ports")
    for port in listed.items() if listed else ():
        if _name_of(port) in ports:
            port.done()
        else:
            port.leave("is not carried over: only a Deployment has ports")
    requests, limits, gpus = resources(main.child("resources"))
    image = main.child("image")
    start = Given(folder, directory.origin) if directory and folder is not None else None
    program = words.get("command"), words.get("args")
    return ForeignContainer(image, *program, environment, requests, limits, gpus, start)


def _check_volumes(words: ForeignValue, lost: dict[str, ForeignValue]) -> None:
    """Refuse each word of a command that names a path in a volume that is not carried over."""
    paths = {path.rstrip("/"): path for path in lost}
    patterns = {path: re.compile(rf"(?:^|[\s=:]){re.escape(path)}(?:/|\s|$)") for path in paths}
    for entry in words.items():
        word = str(entry.value)
        path = next((path for path in paths if path in word and patterns[path].search(word)), None)
        if path is not None:
            message = f"the command needs {paths[path]}, a volume that cannot be carried over"
            entry.refuse(message, "put these files into the image")


def variables(listed: ForeignValue | None, sketch: Sketch) -> dict[str, Given]:
    """Return the variables of a container's `env` that a package can have; add a finding for each of the others.

    A variable from a Secret becomes one of the `secrets`.

    A reference `$(NAME)` to an earlier variable is replaced by the value, as the kubelet does: mlops.env becomes a
    ConfigMap, in which references are not replaced.
    """
    values: dict[str, Given] = {}
    for item in listed.items() if listed else ():
        if not item.is_mapping():
            continue
        name, value, source = item.child("name"), item.child("value"), item.child("valueFrom")
        key = (name.text() if name else None) or ""
        text = (value.text() if value else None) or ""
        if source is not None and _secret(key, item, source, sketch):
            continue
        if source is not None:
            item.leave(f"{show(key)} is not carried over: a package has values only", "set it in the program")
        elif complaint := complaint_about(key, text):
            item.leave(f"{show(key)} is not carried over: {complaint}")
        else:
            filled = expanded(text, values)
            if filled is None:
                item.leave(f"{show(key)} is not carried over: with its references it has more than 64 KiB")
            else:
                values[key] = Given(filled, (value or item).origin)
    return values


def _secret(key: str, item: ForeignValue, source: ForeignValue, sketch: Sketch) -> bool:
    """Put a variable that is read from a Secret, if a package can have it; return whether it can."""
    reference = source.at("secretKeyRef")
    secret_entry, key_entry = (reference.at("name"), reference.at("key")) if reference else (None, None)
    secret = secret_entry.text() if secret_entry else None
    secret_key = key_entry.text() if key_entry else None
    if not secret or not secret_key or complaint_about(key, "") or key in mountpath.MOUNTED:
        return False
    sketch.put(("secrets", key), {}, item.origin)
    known = sketch.site.get("SECRET", secret)
    if known != secret or secret_key != key or KEYS["SECRET"].complaint(secret):
        hint = f"copy {show(secret_key)} of the Secret {show(secret)} to that key there"
        item.leave(f"{show(key)} is read from the key {key} of the Secret that SECRET in site.env names", hint)
    else:
        item.done()
    if not KEYS["SECRET"].complaint(known):
        sketch.site["SECRET"] = known
    return True


def complaint_about(key: str, value: str) -> str | None:
    """Return the reason why a spec cannot have an environment variable; None if it can."""
    if not re.fullmatch(envfile.NAME, key) or len(key) > _LONGEST_KEY:
        return "expected a name of letters, digits and '_'"
    if key in RESERVED:
        return f"the package sets it: {RESERVED[key]}"
    if reason := refusal_reason(key):
        return reason
    if not re.fullmatch(envfile.VALUE, value) or len(f"{key}={value}".encode()) > envfile.LINE_BYTES:
        return "expected one line of at most 64 KiB"
    return mountpath.complaint(value) if key in ("DATASET_DIR", "OUTPUT_DIR") else None


def expanded(text: str, values: dict[str, Given]) -> str | None:
    """Return `text` with each `$(NAME)` of `values` replaced, and `$$` by `$`; None if it would be too long."""
    sizes = (len(str(values[name].value)) for name in references(text) if name in values)
    if len(text) + sum(sizes) > envfile.LINE_BYTES:
        return None

    def replacement(name: str | None) -> str:
        if name is None:
            return "$"
        return str(values[name].value) if name in values else f"$({name})"

    return replaced_references(text, replacement)


def escaped(word: str, known: set[str]) -> str:
    """Return a word of a command with escaped references to variables that no container has: Kubernetes keeps these."""

    def replacement(name: str | None) -> str:
        if name is None:
            return "$$"
        is_unknown = name not in known and name.isidentifier() and name.isupper()
        return f"$$({name})" if is_unknown else f"$({name})"

    return replaced_references(word, replacement)


def resources(
    listing: ForeignValue | None,
) -> tuple[dict[str, Given], dict[str, Given], tuple[ForeignGpus, ...]]:
    """Return a container's requests, limits, and GPUs, for which `gpu_option` notes the option of a site."""
    parts: dict[str, dict[str, Given]] = {"requests": {}, "limits": {}}
    gpus: list[ForeignGpus] = []
    for part, quantities in parts.items():
        listed = listing.at(part) if listing else None
        for entry in listed.children() if listed else ():
            if gpu := _GPU.fullmatch(entry.key):
                if count := entry.whole(0, 9999):
                    gpus.append(ForeignGpus(count, "nvidia.com" if entry.key == _OLD_GPU else gpu["vendor"], entry))
            elif entry.value is not None and (text := entry.text()) is not None:
                value = entry.value if isinstance(entry.value, int) and not isinstance(entry.value, bool) else text
                quantities[entry.key] = Given(value, entry.origin)
    return parts["requests"], parts["limits"], tuple(gpus)


def gpu_option(gpus: Iterable[ForeignGpus], sketch: Sketch) -> None:
    """Note that a build needs the option for GPUs, with the number and the vendor of the last of `gpus`."""
    for one in gpus:
        site = {"GPU_COUNT": str(one.count)} | ({"GPU_VENDOR": one.vendor} if one.vendor != "nvidia.com" else {})
        one.entry.leave("is the option gpu of a site", with_option(sketch, "gpu", **site))

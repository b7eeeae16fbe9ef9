"""Lists what an overlay takes from others, and which programs it runs. Tests: verify/test_taken.py.

One set of facts, from one walk over the rendered objects: `verify` prints them, compares them with those of the overlay
as it was sealed, and `newly_taken` compares those of two packages.
"""

from __future__ import annotations

import json
import posixpath
from typing import TYPE_CHECKING, Any

from packager.base.masking import shortened
from packager.base.problems import Problem
from packager.base.values import Value, replace
from packager.kubernetes.manifest import at, listing, mapping, text
from packager.package import layout
from packager.package.image import IMAGE, REGISTRY
from packager.package.path_checks import shown
from packager.verify import security
from packager.workloads import kueue
from packager.workloads.program import fetched
from packager.workloads.structures import KAI_QUEUE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest
    from packager.rendering.overlay import RenderedOverlay
    from packager.verify.case import Report
    from packager.verify.changes import Original
    from packager.verify.security import Exceeded
    from packager.workloads.pods import Pods

CLAIM, CONFIG_MAP, SECRET, PULL_SECRET, ACCOUNT = "claim", "ConfigMap", "Secret", "pull secret", "service account"
_DEVICES = "resourceClaimName", "resourceClaimTemplateName"
_NETWORKS = "k8s.v1.cni.cncf.io/networks"
"""The annotation with the networks to which Multus attaches a pod; one of another namespace is NAMESPACE/NAME."""

_FIELDS = {
    "persistentVolumeClaim": {"claimName": CLAIM},
    **{key: {"name": CONFIG_MAP} for key in ("configMap", "configMapRef", "configMapKeyRef")},
    **{key: {"name": SECRET} for key in ("secretRef", "secretKeyRef", "nodePublishSecretRef")},
    **{key: {"secretName": SECRET, "name": SECRET} for key in ("secret", "azureFile")},
    "imagePullSecrets": {"name": PULL_SECRET},
    "hostPath": {"path": "folder of the nodes"},
    "nfs": {"path": "folder on NFS"},
    "image": {"": "image", "reference": "image volume"},
    "resourceClaims": {name: name for name in _DEVICES},
    "serviceAccountName": {"": ACCOUNT},
    "serviceAccount": {"": ACCOUNT},
    "priorityClassName": {"": "priority class"},
    "command": {"": "command"},
    "args": {"": "args"},
    "workingDir": {"": "working folder"},
}
"""The fields of a pod, at any depth, that name what it takes, by the key below them or their items; empty for none."""

_VERBS = {
    CLAIM: "mount the claim {!r} of the namespace",
    CONFIG_MAP: "read the ConfigMap {!r} of the namespace",
    "folder of the nodes": "mount the folder {!r} of their nodes",
    "folder on NFS": "mount the folder {!r} on NFS",
    "image volume": "mount the image {!r}",
    "priority class": "have the priority class {!r}",
    "device": "take {!r} of their nodes",
    **{name: f"take devices by the {name} {{!r}} of the namespace" for name in _DEVICES},
}
"""The facts about pods; programs have none, since each package has them: only an edit of one needs a note."""

_QUEUES = {
    kueue.LABEL: "waits in the queue {!r} of the namespace",
    KAI_QUEUE: "waits in the queue {!r} of KAI",
    kueue.PRIORITY: "has the priority class {!r} of Kueue",
}
"""The facts about labels of objects."""

_LONGEST = 300


class Taken(Value, frozen=True):
    """Something outside of a package that an overlay uses, or a program that it runs."""

    noun: str
    value: str
    manifest: Manifest
    location: Location
    fact: str = ""  # the sentence about it; empty for what each package has


def notes(
    overlay: RenderedOverlay, exceeded: Sequence[Exceeded], original: Original, *, of_edits: bool
) -> Iterator[Problem]:
    """Yield a note on each thing that an overlay takes from others; with `of_edits`, also on programs that differ.

    Args:
        overlay: The overlay, with its edits.
        exceeded: The fields that exceed a Pod Security level, the most privileged first.
        original: The overlay without its edits.
        of_edits: Whether the notes name what was not taken when the overlay was sealed.
    """
    compares = of_edits and bool(original.edits.paths)
    sealed: dict[str, dict[str, None]] = {}
    for use in taken(original.sealed) if compares and original.sealed else ():
        sealed.setdefault(use.noun, {})[use.value] = None
    uses: dict[tuple[str, str, str], Taken] = {}
    for use in taken(overlay):
        uses.setdefault((use.noun, use.value, use.fact), use)
    for use in uses.values():
        message, hint = use.fact, None
        if compares and use.value not in sealed.get(use.noun, {}):
            values = [repr(shortened(value, _LONGEST)) for value in sealed.get(use.noun, {})]
            before, now = f"it was sealed with {', '.join(values) or 'none'}", repr(shortened(use.value, _LONGEST))
            hint = f"an edit changes this: {before}" if message else None
            message = message or f"an edit changes the {use.noun} of {overlay.name}: {now}; {before}"
        if message:
            yield replace(overlay.problem(use.manifest, use.location, "", hint), message=message)
    yield from _fetched(overlay)
    if exceeded:
        yield Problem(*exceeded[0].place, f"the pods of {overlay.name} need Pod Security {security.level(exceeded)}")


def newly_taken(present: Report, new: Report) -> tuple[str, ...]:
    """Return the facts about what a newer package takes and the present one does not; both without notes on edits."""
    known = {note.message for note in present.notes}
    return tuple(dict.fromkeys(note.message for note in new.notes if note.message not in known))


def taken(overlay: RenderedOverlay) -> Iterator[Taken]:
    """Yield everything that an overlay takes from others, and the programs that its containers run."""
    images, config_maps = _own_images(overlay), overlay.names("ConfigMap")
    secrets: dict[str, tuple[Taken, dict[str, None]]] = {}
    for pods in overlay.pods:
        for noun, value, location in fields(pods):
            use = Taken(noun, value, pods.manifest, location)
            if noun == SECRET:
                verb = "read {} from" if location[-2] in ("secretKeyRef", "secretRef") else "mount"
                holder = mapping(at(pods.manifest.data, location[:-1]))
                key = str(holder.get("key")) if location[-2] == "secretKeyRef" else "all keys"
                secrets.setdefault(f"{verb} the Secret {value!r} of the namespace", (use, {}))[1][key] = None
            elif noun == PULL_SECRET:
                fact = f"images of {overlay.name} are pulled with the Secret {value!r} of the namespace"
                yield replace(use, fact=fact)
            elif noun != CONFIG_MAP or value not in config_maps:
                verb = _verb(pods, noun, value, images)
                yield replace(use, fact=f"the pods of {overlay.name} {verb}" if verb else "")
        networks = mapping(pods.metadata.get("annotations")).get(_NETWORKS)
        if networks is not None:
            location = (*pods.location, "metadata", "annotations", _NETWORKS)
            fact = f"the pods of {overlay.name} are attached to the networks {networks!r}"
            yield Taken("networks", str(networks), pods.manifest, location, fact)
    for verb, (use, keys) in secrets.items():
        yield replace(use, fact=f"the pods of {overlay.name} {verb.replace('{}', ', '.join(keys), 1)}")
    for manifest in overlay.manifests:
        for noun, value, location, fact in _of_object(manifest):
            yield Taken(noun, value, manifest, location, f"{overlay.name} {fact}")


def _verb(pods: Pods, noun: str, value: str, own_images: set[str]) -> str:
    """Return the rest of a sentence about something that pods take; empty for what needs no note."""
    if noun == "image":
        is_other = own_images and value not in own_images
        return f"run the image {value!r}, which {layout.ENV} does not name" if is_other else ""
    if noun == ACCOUNT:
        token = "" if pods.spec.get("automountServiceAccountToken") is False else ", with its token"
        return f"run as the service account {value!r} of the namespace{token}" if value != "default" else ""
    return _VERBS.get(noun, "").format(value)


def fields(pods: Pods) -> Iterator[tuple[str, str, Location]]:
    """Yield the noun, the value and the place of each thing that a part of a pod takes or runs."""
    # Programs may load files of ConfigMaps.
    files = {text(volume.get("name")) for _, volume in pods.volumes() if {"configMap", "projected"} & volume.keys()}
    for key, value, here in _walk(pods.spec, (*pods.location, "spec")):
        items = [((*here, index), mapping(item)) for index, item in enumerate(listing(value))]
        for name, noun in _FIELDS.get(key, {}).items():
            if not name and value and not isinstance(value, dict):
                hook = f" of {here[-3]}" if here[-2] == "exec" else ""
                words = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
                yield f"{noun}{hook}", words, here
            for location, item in items or [(here, mapping(value))]:
                if (found := item.get(name)) is not None:
                    server = f"{text(item.get('server'))}:" if key == "nfs" else ""
                    yield noun, f"{server}{found}", (*location, name)
        if key in ("limits", "requests"):  # the resources of Kubernetes itself have no domain
            yield from (("device", resource, (*here, resource)) for resource in mapping(value) if "/" in resource)
        elif key == "volumeMounts":
            for location, mount in items:
                if text(mount.get("name")) in files:
                    source = "/".join(filter(None, (text(mount.get("name")), text(mount.get("subPath")))))
                    # edits of MODEL_DIR, which each user makes, change the other parts of the path
                    name = posixpath.basename(text(mount.get("mountPath")).rstrip("/"))
                    yield "mount", f"{source} as {name}", (*location, "mountPath")


def _walk(value: Any, here: Location) -> Iterator[tuple[str, Any, Location]]:
    """Yield each key below `value`, with its value and its place."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(item, (*here, index))
    elif isinstance(value, dict):
        for key, child in value.items():
            yield key, child, (*here, key)
            yield from _walk(child, (*here, key))


def _own_images(overlay: RenderedOverlay) -> set[str]:
    """Return the images that mlops.env names, each with its registry: REGISTRY/IMAGE, and those of roles."""
    values = overlay.sources.env_file(layout.env(overlay.name)).values
    registry, keys = values.get(REGISTRY, ""), ({IMAGE} | overlay.sources.image_keys) & values.keys()
    return {f"{values.get(key.removesuffix(IMAGE) + REGISTRY, registry)}/{values[key]}" for key in keys}


def _of_object(manifest: Manifest) -> Iterator[tuple[str, str, Location, str]]:
    """Yield the queue of an object, and the addresses at which it takes requests, each with a sentence about it."""
    labels = mapping(at(manifest.data, ("metadata", "labels")))
    for label, message in _QUEUES.items():
        if label in labels:
            yield "queue", str(labels[label]), ("metadata", "labels", label), message.format(labels[label])
    if manifest.kind == "PodGroup" and "queue" in manifest.spec:
        queue = manifest.spec["queue"]
        yield "queue", str(queue), ("spec", "queue"), f"waits in the queue {queue!r} of Volcano"
    elif manifest.kind == "Ingress":
        for index, rule in enumerate(map(mapping, listing(manifest.spec.get("rules")))):
            fact = f"takes requests to the host {rule.get('host')!r} from outside of the cluster"
            yield "host", str(rule.get("host")), ("spec", "rules", index, "host"), fact
    elif manifest.kind == "Service" and manifest.spec.get("type") in ("NodePort", "LoadBalancer"):
        fact = f"takes requests from outside of the cluster, by a {manifest.spec['type']}"
        yield "address", manifest.spec["type"], ("spec", "type"), fact


def _fetched(overlay: RenderedOverlay) -> Iterator[Problem]:
    """Yield a note on each file that pods fetch, the `sources` of the spec, once for each manifest."""
    noted = set()
    for pods in overlay.pods:
        for location, container in pods.containers():
            for index, source in fetched([str(word) for word in listing(container.get("command"))]):
                if (str(pods.manifest), source) in noted:
                    continue
                noted.add((str(pods.manifest), source))
                how = f", with the secret {shown(source.secret)}" if source.secret else ""
                digest = f"sha256 {shown(source.sha256)}" if source.sha256 else "with the digests that are listed there"
                what = f"{shown(source.address)} to {shown(source.path)}: {shown(source.size)} bytes, {digest}{how}"
                yield overlay.problem(pods.manifest, (*location, "command", index), f"its pods fetch {what}")

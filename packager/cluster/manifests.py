"""Parses a rendered overlay, finds its workloads, and adds the labels and annotations of a deploy."""

from __future__ import annotations

import hashlib
import json
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from packager.base import yamlio
from packager.base.errors import RenderError, UsageError
from packager.base.problems import show, similar
from packager.cluster.labels import DEPLOYED_BY, DIGEST, RENDERED
from packager.kubernetes.objects import name
from packager.workloads.kinds import kinds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.kubernetes.objects import Object
    from packager.workloads.workload import Workload

_MAX_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Manifests:
    """The objects that an overlay applies.

    Attributes:
        objects: All of it, in the order in which it is applied; the workloads included.
        workloads: The workloads; the first is the one to use if none is named.
        digest: Of everything, as rendered.
        index: The index of the selected workload; by default the main one.
    """

    objects: tuple[Object, ...]
    workloads: tuple[Object, ...]
    digest: str
    index: int = 0

    @property
    def workload(self) -> Object:
        """The main workload."""
        return self.workloads[self.index]

    @property
    def others(self) -> tuple[Object, ...]:
        """The other workloads."""
        return self.workloads[: self.index] + self.workloads[self.index + 1 :]

    @property
    def kind(self) -> Workload:
        """Its kind."""
        return kinds()[self.workload["kind"]]

    @property
    def per_workload(self) -> tuple[Manifests, ...]:
        """The same for each of the workloads, as the main one; the one that is the main one here is the first."""
        others = (index for index in range(len(self.workloads)) if index != self.index)
        return tuple(replace(self, index=index) for index in (self.index, *others))

    @property
    def words(self) -> tuple[str, ...]:
        """What tells the workloads from each other: their names; where two are called the same, `kind/name`."""
        names = [name(item) for item in self.workloads]
        return tuple(
            word if names.count(word) == 1 else f"{item['kind'].lower()}/{word}"
            for word, item in zip(names, self.workloads, strict=True)
        )

    def about(self, workload: str) -> Manifests:
        """Return the same with the workload of this name, or `kind/name`, as the main one.

        Raises:
            UsageError: There is none, or more than one.
        """
        pairs = [(name(item), f"{item['kind'].lower()}/{name(item)}") for item in self.workloads]
        matching = [index for index, words in enumerate(pairs) if workload in words]
        if len(matching) != 1:
            listed = ", ".join(self.words)
            if matching:
                raise UsageError(f"{len(matching)} workloads have the name {workload!r}", hint=f"use one of {listed}")
            message = f"there is no workload {workload!r}; there are: {listed}"
            raise UsageError(message, hint=similar(workload, self.words))
        return replace(self, index=matching[0])

    @property
    def name(self) -> str:
        """The main workload's name."""
        return name(self.workload)

    @property
    def shown(self) -> str:
        """`mpijobs.kubeflow.org/name`, as kubectl takes it."""
        return f"{self.kind.resource}/{self.name}"

    def stamped(self, package_digest: str, deployed_by: str) -> str:
        """Return everything as one JSON List, each object with the digest of the package, for `kubectl apply -f -`."""
        labels, notes = self.stamp(package_digest, deployed_by)
        return as_list([_with(item, labels, notes) for item in self.objects])

    def stamp(self, package_digest: str, deployed_by: str) -> tuple[dict[str, str], dict[str, str]]:
        """Return the labels and annotations that every object gets when it is applied."""
        value = package_digest.removeprefix("sha256:")
        notes = {DIGEST: package_digest, RENDERED: self.digest, DEPLOYED_BY: deployed_by}
        return {DIGEST: value[:16]}, notes


def as_list(items: list[Object]) -> str:
    """Return objects as one JSON List."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, ensure_ascii=False)


def load(rendered: str, overlay: str, main: str = "") -> Manifests:
    """Read what `kubectl kustomize` printed.

    Args:
        rendered: A YAML stream.
        overlay: How messages name where it comes from.
        main: The name of the workload to use if none is named; builds name it after package and overlay;
            where there is none of it, the first that ends by itself.

    Raises:
        RenderError: It is no YAML, or something in it is no object, or it holds no workload of a kind that mlpack
            knows, the same one twice, or one without a container.
    """
    documents, problems = yamlio.load_all(rendered.encode(), overlay, max_bytes=_MAX_BYTES)
    if problems:
        raise RenderError(f"{overlay}: what kubectl rendered cannot be read", problems=problems)
    objects = [document.data for document in documents if document.data is not None]
    for item in objects:
        if not _is_object(item):
            message = f"{overlay}: expected an object with apiVersion, kind and name, but kubectl rendered {show(item)}"
            raise RenderError(message)
    workloads = [item for item in objects if _is_workload(item)]
    if not workloads or len({(item["kind"], name(item)) for item in workloads}) < len(workloads):
        listed = ", ".join(f"{item['kind']} {name(item)}" for item in workloads) or "none"
        raise RenderError(
            f"{overlay}: expected one workload ({', '.join(kinds())}), found {listed}",
            hint="use `kubectl apply -k` for other kinds",
        )
    for workload in workloads:
        if not _has_container(kinds()[workload["kind"]], workload):
            message = f"{overlay}: {workload['kind']} {name(workload)} has no container with an image"
            raise RenderError(message)
    text = json.dumps(objects, ensure_ascii=False, sort_keys=True)
    digest = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    workloads.sort(key=lambda item: (name(item) != main, kinds()[item["kind"]].serves))
    return Manifests(tuple(objects), tuple(workloads), digest)


def _is_workload(item: Object) -> bool:
    """Whether mlpack knows the kind of an object, which is not another group's of that name."""
    kind = kinds().get(item["kind"])
    return kind is not None and item["apiVersion"].rpartition("/")[0] == kind.resource.partition(".")[2]


def _is_object(item: Any) -> bool:
    """Whether `item` has what every object in Kubernetes has, in the form that everything here relies on."""
    metadata = item.get("metadata") if isinstance(item, dict) else None
    if not isinstance(metadata, dict):
        return False
    words = (item.get("apiVersion"), item.get("kind"), metadata.get("name"))
    notes = (metadata.get("labels"), metadata.get("annotations"))
    return all(isinstance(word, str) and word for word in words) and all(
        note is None or isinstance(note, dict) for note in notes
    )


def _has_container(kind: Workload, workload: Object) -> bool:
    """Whether the pods of a workload can be read: a patch may have made anything of it."""
    try:
        kind.made_objects(workload)
        return isinstance(kind.pod_template(workload)["containers"][0]["image"], str)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return False


def _with(item: Object, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Object:
    item = deepcopy(item)
    metadata = item["metadata"]
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    return item

"""Parses a rendered overlay, finds its workloads, and adds the labels and annotations of a deploy."""

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any

from packager.base import yamlio
from packager.base.errors import RenderError, UsageError
from packager.base.problems import show, similar
from packager.cluster.ownership import DEPLOYED_BY, DIGEST, RENDERED, VERSION
from packager.kubernetes.objects import Object, name
from packager.workloads.kinds import Workload, kinds

_MAX_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Manifests:
    """The objects that an overlay applies."""

    objects: tuple[Object, ...]  # all objects, including the workloads, in the order in which they are applied
    workloads: tuple[Object, ...]  # the workloads; the first is the default one
    digest: str  # the digest of all rendered objects
    index: int = 0  # the index of the selected workload; by default the main one

    @property
    def workload(self) -> Object:
        """The selected workload."""
        return self.workloads[self.index]

    @property
    def others(self) -> tuple[Object, ...]:
        """The workloads that are not selected."""
        return self.workloads[: self.index] + self.workloads[self.index + 1 :]

    @property
    def kind(self) -> Workload:
        """The kind of the selected workload."""
        return kinds()[self.workload["kind"]]

    @property
    def per_workload(self) -> "tuple[Manifests, ...]":
        """The manifests with each workload selected in turn, the one that is selected in these first."""
        others = (index for index in range(len(self.workloads)) if index != self.index)
        return tuple(replace(self, index=index) for index in (self.index, *others))

    @property
    def words(self) -> tuple[str, ...]:
        """The unique names of the workloads: their names, or `kind/name` where two have the same name."""
        names = [name(item) for item in self.workloads]
        return tuple(
            word if names.count(word) == 1 else f"{item['kind'].lower()}/{word}"
            for word, item in zip(names, self.workloads, strict=True)
        )

    def about(self, workload: str) -> "Manifests":
        """Return the manifests with the workload of this name selected; see `words`."""
        if workload not in self.words:
            message = f"there is no workload {workload!r}; there are: {', '.join(self.words)}"
            raise UsageError(message, hint=similar(workload, self.words))
        return replace(self, index=self.words.index(workload))

    @property
    def name(self) -> str:
        """The name of the selected workload."""
        return name(self.workload)

    @property
    def shown(self) -> str:
        """The selected workload's name for kubectl: `mpijobs.kubeflow.org/name`."""
        return f"{self.kind.resource}/{self.name}"

    def stamped(self, package_digest: str, deployed_by: str, version: str | None = None) -> str:
        """Return all objects, with the labels and annotations of a deploy, as one JSON List for `kubectl apply`."""
        labels, notes = self.stamp(package_digest, deployed_by, version)
        stamped = []
        for item in self.objects:
            metadata = item["metadata"]
            own = {"labels": metadata.get("labels") or {}, "annotations": metadata.get("annotations") or {}}
            added = {"labels": {**own["labels"], **labels}, "annotations": {**own["annotations"], **notes}}
            stamped.append({**item, "metadata": {**metadata, **added}})
        return as_list(stamped)

    def stamp(
        self, package_digest: str, deployed_by: str, version: str | None = None
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Return the labels and annotations that a deploy adds to every object."""
        value = package_digest.removeprefix("sha256:")
        notes = {DIGEST: package_digest, RENDERED: self.digest, DEPLOYED_BY: deployed_by}
        if version is not None:
            notes[VERSION] = version
        return {DIGEST: value[:16]}, notes


def as_list(items: list[Object]) -> str:
    """Return objects as one JSON List."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, ensure_ascii=False)


def load(rendered: str, overlay: str, main: str = "") -> Manifests:
    """Parse the output of `kubectl kustomize`.

    Args:
        rendered: A YAML stream.
        overlay: The name of the overlay in messages.
        main: The name of the default workload, which builds name after package and overlay; if no workload has it, the
            first workload that ends by itself is the default.
    """
    documents, problems = yamlio.load_all(rendered.encode(), overlay, max_bytes=_MAX_BYTES)
    if problems:
        raise RenderError(f"{overlay}: what kubectl rendered cannot be read", problems=problems)
    objects = [document.data for document in documents if document.data is not None]
    for item in objects:
        if not _is_object(item):
            message = f"{overlay}: expected an object with apiVersion, kind and name, but kubectl rendered {show(item)}"
            raise RenderError(message)
    # Another API group may have a kind of the same name.
    groups = {kind: workload.resource.partition(".")[2] for kind, workload in kinds().items()}
    workloads = [item for item in objects if groups.get(item["kind"]) == item["apiVersion"].rpartition("/")[0]]
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


def _is_object(item: Any) -> bool:
    """Whether a value has the fields of a Kubernetes object: API version, kind and name, and valid labels."""
    metadata = item.get("metadata") if isinstance(item, dict) else None
    if not isinstance(metadata, dict):
        return False
    words = (item.get("apiVersion"), item.get("kind"), metadata.get("name"))
    notes = (metadata.get("labels"), metadata.get("annotations"))
    return all(isinstance(word, str) and word for word in words) and all(
        note is None or isinstance(note, dict) for note in notes
    )


def _has_container(kind: Workload, workload: Object) -> bool:
    """Whether a workload's pods have a container with an image, which a patch may have removed or broken."""
    try:
        return isinstance(kind.pod_template(workload)["containers"][0]["image"], str)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return False

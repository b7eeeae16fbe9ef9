"""Rendered overlay -> objects to apply: parsed, stamped with where they come from, the workload known from the rest."""

from __future__ import annotations

import hashlib
import json
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager import yamlio
from packager.cluster.engines import ENGINES
from packager.cluster.objects import name
from packager.errors import RenderError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.cluster.engines import Engine
    from packager.cluster.objects import Object

DIGEST = "mlpack/digest"
"""Label, by the first 16 digits, and annotation, in full: the digest of the package that the object comes from."""

RENDERED = "mlpack/rendered"
"""Annotation: the digest of everything that was applied together, edits of the package included."""

DEPLOYED_BY = "mlpack/deployed-by"
"""Annotation: who deployed it, user@machine."""

_MAX_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Manifests:
    """What an overlay applies.

    Attributes:
        objects: All of it, in the order in which it is applied; the workload included.
        workload: What runs.
        engine: Of the workload's kind.
        digest: Of everything, as rendered.
    """

    objects: tuple[Object, ...]
    workload: Object
    engine: Engine
    digest: str

    @property
    def name(self) -> str:
        """The workload's name."""
        return name(self.workload)

    @property
    def shown(self) -> str:
        """`mpijobs.kubeflow.org/name`, as kubectl takes it."""
        return f"{self.engine.resource}/{self.name}"

    def stamped(self, package_digest: str, deployed_by: str) -> str:
        """Return everything as one JSON List, each object with the digest of the package, for `kubectl apply -f -`."""
        value = package_digest.removeprefix("sha256:")
        notes = {DIGEST: package_digest, RENDERED: self.digest, DEPLOYED_BY: deployed_by}
        items = [_with(each, {DIGEST: value[:16]}, notes) for each in self.objects]
        return as_list(items)


def as_list(items: list[Object]) -> str:
    """Return objects as one JSON List."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, ensure_ascii=False)


def load(rendered: str, overlay: str) -> Manifests:
    """Read what `kubectl kustomize` printed.

    Args:
        rendered: A YAML stream.
        overlay: How messages name where it comes from.

    Raises:
        RenderError: It is no YAML, or holds not exactly one workload of a kind that mlpack knows.
    """
    documents, problems = yamlio.load_all(rendered.encode(), overlay, max_bytes=_MAX_BYTES)
    if problems:
        raise RenderError(f"{overlay}: what kubectl rendered cannot be read", problems=problems)
    objects = [document.data for document in documents if document.data]
    workloads = [each for each in objects if each.get("kind") in ENGINES]
    if len(workloads) != 1:
        found = ", ".join(f"{each['kind']} {name(each)}" for each in workloads) or "none"
        kinds = ", ".join(sorted(ENGINES))
        raise RenderError(
            f"{overlay}: expected one workload ({kinds}), found {found}",
            hint="kubectl itself applies anything: `kubectl apply -k`",
        )
    text = json.dumps(objects, ensure_ascii=False, sort_keys=True)
    digest = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    return Manifests(tuple(objects), workloads[0], ENGINES[workloads[0]["kind"]], digest)


def _with(item: Object, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Object:
    item = deepcopy(item)
    metadata = item["metadata"]
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    return item

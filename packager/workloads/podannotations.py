"""Pods + annotations of a site -> a component of kustomize that adds them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from packager.base import yamlio

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packager.workloads.pods import Pods

NAME = "site-annotations"
"""The name of the component's folder."""

_HEAD = """\
# Annotations of the pods, from the defaults of the site. `mlpack build` and `mlpack configure` write this file.
"""


def component(pods: Iterable[tuple[Pods, str | None]], annotations: Mapping[str, str]) -> bytes:
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

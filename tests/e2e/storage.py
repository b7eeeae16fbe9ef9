"""Helpers of the tests of storage: a package that prints the contents of its folders, and a folder of the node."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.e2e.site import CHECKOUT, MPI_IMAGE, commands

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.site import Site

SPEC = CHECKOUT / "tests/e2e/specs/storage"


class NodeFolder:
    """A folder of the cluster's only node, created and read by pods.

    Attributes:
        path: The absolute path of the folder, in `parent`.
    """

    def __init__(self, keeper: Site, parent: str) -> None:
        self.path = f"{parent}/mlpack-{keeper.namespace}"
        self._parent = parent
        self._keeper = keeper

    def run(self, script: str) -> str:
        """Run a shell script as root in a pod that mounts the parent folder, and return its output."""
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "keeper"},
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {
                        "name": "keeper",
                        "image": MPI_IMAGE,
                        "imagePullPolicy": "IfNotPresent",
                        "command": ["sh", "-euc", script],
                        "securityContext": {"runAsUser": 0},
                        "volumeMounts": [{"name": "parent", "mountPath": self._parent}],
                    }
                ],
                "volumes": [{"name": "parent", "hostPath": {"path": self._parent}}],
            },
        }
        self._keeper.apply(pod)
        assert self._keeper.end_of_pod("keeper") == "Succeeded", self._keeper.log("keeper")
        output = self._keeper.log("keeper")
        self._keeper.run("kubectl delete pod keeper")
        return output


def volume(name: str, path: str, *modes: str, labels: dict[str, str] | None = None, **spec: object) -> dict[str, Any]:
    """Return a volume on a folder of the node, with these access modes, or for pods of any node."""
    common = {"capacity": {"storage": "10Gi"}, "accessModes": modes or ("ReadWriteMany",)}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {**common, "hostPath": {"path": path, "type": "Directory"}, **spec},
    }


@contextmanager
def storage_class(site: Site, path: str, mode: str) -> Iterator[str]:
    """Create a storage class with one volume on a folder of the node, and yield its name."""
    name = f"class-{site.namespace}"
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    site.apply({**kind, "provisioner": "kubernetes.io/no-provisioner"}, volume(name, path, mode, storageClassName=name))
    try:
        yield name
    finally:
        site.run(f"kubectl delete pv,storageclass {name} --wait=false")


def run(site: Site, package: Path, overlay: str) -> str:
    """Apply an overlay, wait for its success, and return the log of its main pod."""
    site.run(commands(package, overlay)[0], cwd=package)
    name = f"{package.name}-{overlay}"
    if overlay == "single-node":
        assert site.end_of_pod(name) == "Succeeded", site.log(name)
        return site.log(name)
    if overlay == "one-job":
        site.run(f"kubectl wait --for=condition=Complete job/{name} --timeout=300s")
        return site.run(f"kubectl logs job/{name}")
    assert site.end_of(name) == "Succeeded", site.log(site.launcher())
    return site.log(site.launcher())


def delete(site: Site, package: Path, overlay: str) -> None:
    site.run(commands(package, overlay)[-1], cwd=package)
    site.until(lambda: not site.run("kubectl get pods -o name"), "the pods to be gone")


def claim(site: Site, name: str, storage_class: str) -> None:
    """Create a claim for the volume with the label `of` and this name."""
    spec = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": storage_class,
        "selector": {"matchLabels": {"of": name}},
        "resources": {"requests": {"storage": "1Gi"}},
    }
    metadata = {"name": name}
    site.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})


def only_one_for_one_node(site: Site, name: str) -> None:
    """Make a volume the only one that a ReadWriteOnce claim can bind to."""
    modes = json.dumps({"spec": {"accessModes": ["ReadWriteOnce", "ReadWriteMany"]}})
    site.run(f"kubectl patch pv {name}-{site.namespace} --patch '{modes}'")

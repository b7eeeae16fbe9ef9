"""A cluster that answers kubectl out of a list of objects, for what no real one can be brought to quickly."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packager.process import Finished

if TYPE_CHECKING:
    from collections.abc import Sequence

Object = dict[str, Any]

_PLURALS = {
    "ClusterRole": "clusterroles",
    "ConfigMap": "configmaps",
    "CustomResourceDefinition": "customresourcedefinitions",
    "Deployment": "deployments",
    "Event": "events",
    "Job": "jobs",
    "Lease": "leases",
    "MPIJob": "mpijobs",
    "Namespace": "namespaces",
    "Node": "nodes",
    "PersistentVolume": "persistentvolumes",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "Pod": "pods",
    "ResourceQuota": "resourcequotas",
    "Secret": "secrets",
    "Service": "services",
    "ServiceAccount": "serviceaccounts",
    "StorageClass": "storageclasses",
}
_KINDS = {plural: kind for kind, plural in _PLURALS.items()}


def kind_of(resource: str) -> str:
    """Return the kind that a command line calls `mpijobs.kubeflow.org`, `mpijobs` or `mpijob`."""
    plain = resource.partition(".")[0]
    return _KINDS.get(plain) or _KINDS[f"{plain}s"]


@dataclass
class FakeCluster:
    """What `packager.process.run` is replaced by.

    Attributes:
        objects: What is there.
        served: Kinds, by group and version.
        denied: Verb and resource of what the user may not do, such as `list nodes`.
        refused: What the server says to pods (`create`), and to what is applied; empty when it takes them.
        version: Minor versions of kubectl and of the server; a server of None does not answer.
        calls: What it was asked, without the flags that say where.
    """

    objects: list[Object] = field(default_factory=list)
    served: dict[str, list[str]] = field(
        default_factory=lambda: {"v1": ["ConfigMap", "Pod"], "kubeflow.org/v2beta1": ["MPIJob"]}
    )
    denied: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    version: tuple[int, int | None] = (34, 34)
    calls: list[str] = field(default_factory=list)

    def run(self, argv: Sequence[str], *, timeout: float | None = None) -> Finished:  # noqa: ARG002, PLR0911 - as process.run; a return a verb
        words = [
            word for word in argv[1:] if not re.match("--(namespace|context|kubeconfig|request-timeout|output)=", word)
        ]
        self.calls.append(" ".join(words))
        flags = dict(word.removeprefix("--").partition("=")[::2] for word in words if word.startswith("--"))
        words = [word for word in words if not word.startswith("--")]
        if self.version[1] is None and words[0] != "version":
            return Finished(1, "", "Unable to connect to the server: dial tcp 10.0.0.1:443: i/o timeout\n")
        match words:
            case ["version"]:
                return self._version()
            case ["config", "view"]:
                return Finished(0, "", "")
            case ["get"]:
                return self._raw(flags["raw"] or argv[argv.index("--raw") + 1])
            case ["get", path] if "raw" in flags:
                return self._raw(path)
            case ["get", *what]:
                return self._get(what, flags)
            case ["create"]:
                return self._create(json.loads(Path(flags["filename"]).read_text()))
            case ["apply" | "delete" as verb, *_]:
                said = self.refused.get(verb)
                return Finished(1, "", said) if said else Finished(0, f"{verb}\n", "")
        raise AssertionError(f"nobody has thought of kubectl {' '.join(argv[1:])}")

    def _version(self) -> Finished:
        client, server = self.version
        said: Object = {"clientVersion": {"minor": f"{client}+", "gitVersion": f"v1.{client}.0"}}
        if server is None:
            return Finished(1, json.dumps(said), "Unable to connect to the server: dial tcp: i/o timeout\n")
        said["serverVersion"] = {"minor": str(server), "gitVersion": f"v1.{server}.1"}
        return Finished(0, json.dumps(said), "")

    def _raw(self, path: str) -> Finished:
        api = path.removeprefix("/apis/").removeprefix("/api/")
        if api in self.served:
            resources = [{"name": _PLURALS[kind], "kind": kind} for kind in self.served[api]]
            return Finished(0, json.dumps({"resources": resources}), "")
        versions = [each.rpartition("/")[2] for each in self.served if each.startswith(f"{api}/")]
        if versions:
            return Finished(0, json.dumps({"versions": [{"version": version} for version in versions]}), "")
        return Finished(1, "", "Error from server (NotFound): the server could not find the requested resource\n")

    def _get(self, what: Sequence[str], flags: dict[str, str]) -> Finished:
        found = []
        for each in what:
            resource, _, wanted = each.partition("/")
            kind = kind_of(resource)
            plain = _PLURALS[kind]
            verb = "get" if wanted else "list"
            if f"{verb} {plain}" in self.denied:
                said = f'{resource} is forbidden: User "me" cannot {verb} resource "{plain}" in API group "" '
                scope = "at the cluster scope" if plain == "nodes" or "all-namespaces" in flags else "in the namespace"
                return Finished(1, "", f"Error from server (Forbidden): {said}{scope}\n")
            found += [
                item for item in self.objects if item["kind"] == kind and wanted in ("", item["metadata"]["name"])
            ]
        key, _, value = flags.get("field-selector", "").partition("=")
        if key == "metadata.name":
            found = [item for item in found if item["metadata"]["name"] == value]
        if len(what) == 1 and "/" in what[0]:
            return Finished(0, json.dumps(found[0]) if found else "", "")
        return Finished(0, json.dumps({"kind": "List", "items": found}), "")

    def _create(self, item: Object) -> Finished:
        if item["kind"] == "Pod":
            said = self.refused.get("create")
            return Finished(1, "", said) if said else Finished(0, "pod/x\n", "")
        answers = []
        for review in item["items"]:
            asked = review["spec"]["resourceAttributes"]
            name = f"{asked['resource']}/{asked['subresource']}".rstrip("/")
            answers.append({**review, "status": {"allowed": f"{asked['verb']} {name}" not in self.denied}})
        return Finished(0, "\n".join(json.dumps(answer) for answer in answers), "")


def item(kind: str, name: str, **fields: Any) -> Object:
    """Return an object; `metadata` adds to its name."""
    metadata = {"name": name, "namespace": "team", "uid": f"{kind}-{name}", **fields.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **fields}


def node(name: str = "node-1", cpu: str = "4", memory: str = "8Gi", **spec: Any) -> Object:
    """Return a node that is ready."""
    status = {
        "allocatable": {"cpu": cpu, "memory": memory, "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return item("Node", name, spec=spec, status=status)


def lease(renewed: datetime | None = None) -> Object:
    """Return the lease of an mpi-operator that is at work."""
    time = (renewed or datetime.now(UTC)).isoformat()
    # Nobody renews it while a test runs, which may take longer than the 15 seconds of a real one.
    spec = {"holderIdentity": "operator-1", "leaseDurationSeconds": 15 if renewed else 3600, "renewTime": time}
    return item("Lease", "mpi-operator", metadata={"namespace": "mpi-operator"}, spec=spec)


def healthy() -> FakeCluster:
    """Return a cluster in which a package would run."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return FakeCluster([item("Namespace", "team", metadata={"labels": labels}, status={}), node(), lease()])

"""A fake cluster that answers kubectl from a list of objects, for states that a real one reaches too slowly."""

from __future__ import annotations

import json
import re
import threading
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packager.base.process import Finished, Runner

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Object = dict[str, Any]

_PLURALS = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "CSIDriver": "csidrivers",
    "ConfigMap": "configmaps",
    "CustomResourceDefinition": "customresourcedefinitions",
    "DaemonSet": "daemonsets",
    "Deployment": "deployments",
    "Event": "events",
    "HorizontalPodAutoscaler": "horizontalpodautoscalers",
    "Ingress": "ingresses",
    "IngressClass": "ingressclasses",
    "Job": "jobs",
    "LeaderWorkerSet": "leaderworkersets",
    "Lease": "leases",
    "JobSet": "jobsets",
    "LocalQueue": "localqueues",
    "Queue": "queues",
    "MPIJob": "mpijobs",
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "Namespace": "namespaces",
    "NetworkAttachmentDefinition": "network-attachment-definitions",
    "Node": "nodes",
    "PersistentVolume": "persistentvolumes",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "Pod": "pods",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "PodGroup": "podgroups",
    "ReplicaSet": "replicasets",
    "ResourceClaimTemplate": "resourceclaimtemplates",
    "ResourceQuota": "resourcequotas",
    "ResourceSlice": "resourceslices",
    "Secret": "secrets",
    "Service": "services",
    "ServiceAccount": "serviceaccounts",
    "StatefulSet": "statefulsets",
    "StorageClass": "storageclasses",
    "Workload": "workloads",
    "WorkloadPriorityClass": "workloadpriorityclasses",
}
_KINDS = {plural: kind for kind, plural in _PLURALS.items()}


KUBECONFIG: Object = {
    "kind": "Config",
    "apiVersion": "v1",
    "current-context": "here",
    "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
    "clusters": [{"name": "here", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "me", "user": {}}],
}
"""The output of `kubectl config view --minify`."""

_LOCK = threading.Lock()
"""Objects are deleted side by side."""


def kind_of(resource: str) -> str:
    """Return the kind of a resource on a command line: `mpijobs.kubeflow.org`, `mpijobs` or `mpijob`."""
    plain = resource.partition(".")[0]
    return _KINDS.get(plain) or _KINDS.get(f"{plain}s") or _KINDS[f"{plain}es"]


@dataclass
class FakeCluster(Runner):
    """A runner that answers instead of kubectl. Waiting takes no time, but the clock advances.

    Attributes:
        objects: The objects in the cluster.
        served: The served kinds, by group and version.
        denied: The denied permissions, each a verb and a resource, such as `list nodes`.
        refused: The server's refusal of commands by their first words, such as `apply` or `create secret`.
        version: The minor versions of kubectl and of the server; a server of None does not answer.
        unready: The server's response to a request for its readiness; empty if it is ready.
        calls: The commands, without the flags that select the cluster.
        first: Receives each command before the cluster; its result, unless None, is the response.
        wait: Called at each wait, with the seconds.
        seconds: The time on the clock.
        admit: Changes a pod that is created, as a webhook does.
    """

    objects: list[Object] = field(default_factory=list)
    served: dict[str, list[str]] = field(
        default_factory=lambda: {
            "v1": [kind for kind in _PLURALS if kind != "MPIJob"],
            "kubeflow.org/v2beta1": ["MPIJob"],
        }
    )
    denied: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    version: tuple[int, int | None] = (34, 34)
    unready: str = ""
    calls: list[str] = field(default_factory=list)
    first: Callable[[Sequence[str]], Finished | None] = lambda _argv: None
    wait: Callable[[float], object] = lambda _seconds: None
    seconds: float = 0.0
    admit: Callable[[Object], Object] = lambda pod: pod

    def run(self, argv: Sequence[str], **_limits: Any) -> Finished:
        if "view" in argv:
            return Finished(0, json.dumps(KUBECONFIG), "")
        argv = without_connection(argv)
        return self.first(argv) or self.carry_out(argv)

    def clock(self) -> float:
        return self.seconds

    def wait_out(self, seconds: float) -> None:
        """Advance the clock."""
        self.seconds += seconds

    def sleep(self, seconds: float) -> None:
        self.wait_out(seconds)
        self.wait(seconds)

    def carry_out(self, argv: Sequence[str]) -> Finished:  # noqa: PLR0911 - a return a verb
        """Run a command, and return its exit code and output."""
        arguments = [
            argument for argument in argv[1:] if not re.match("--(namespace|context|request-timeout|output)=", argument)
        ]
        self.calls.append(" ".join(arguments))
        flags = dict(
            argument.removeprefix("--").partition("=")[::2] for argument in arguments if argument.startswith("--")
        )
        arguments = [argument for argument in arguments if not argument.startswith("--")]
        if self.version[1] is None and arguments[0] != "version":
            return Finished(1, "", "Unable to connect to the server: dial tcp 10.0.0.1:443: i/o timeout\n")
        match arguments:
            case ["version"]:
                return self._version()
            case ["get"]:
                return self._raw(flags["raw"] or argv[argv.index("--raw") + 1])
            case ["get", path] if "raw" in flags:
                return self._raw(path)
            case ["get", *what]:
                return self._get(what, flags)
            case ["create"]:
                return self._create(json.loads(Path(flags["filename"]).read_text()))
            case ["apply"]:
                refusal = self.refused.get("apply")
                return Finished(1, "", refusal) if refusal else Finished(0, self._applied(argv), "")
            case ["delete", *what]:
                return self._delete_named(what) if what else self._delete(flags["raw"], manifest_given(argv))
        raise AssertionError(f"the fake cluster does not support kubectl {' '.join(argv[1:])}")

    def _version(self) -> Finished:
        client, server = self.version
        answer: Object = {"clientVersion": {"minor": f"{client}+", "gitVersion": f"v1.{client}.0"}}
        if server is None:
            return Finished(1, json.dumps(answer), "Unable to connect to the server: dial tcp: i/o timeout\n")
        answer["serverVersion"] = {"minor": str(server), "gitVersion": f"v1.{server}.1"}
        return Finished(0, json.dumps(answer), "")

    def _applied(self, argv: Sequence[str]) -> str:
        """Return the output of `kubectl apply`: the objects as JSON, or a line about each."""
        if "--output=json" not in argv:
            return "apply\n"
        return json.dumps({"kind": "List", "items": [self.merged(item) for item in manifest_given(argv)["items"]]})

    def merged(self, manifest: Object) -> Object:
        """Return the stored object after a server-side apply of `manifest`."""
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        new: Object = {"metadata": {"uid": f"{kind}-{name}", "creationTimestamp": datetime.now(UTC).isoformat()}}
        old = next((item for item in self.objects if is_called(item, kind, name)), new)
        metadata = {"namespace": "team", **old["metadata"], "name": name}
        other_managers = [entry for entry in metadata.get("managedFields", ()) if entry["manager"] != "mlpack"]
        metadata["managedFields"] = [*other_managers, managed("mlpack", manifest)]
        for part in ("labels", "annotations"):
            metadata[part] = {**metadata.get(part, {}), **manifest["metadata"].get(part, {})}
        data = {"data": {**old.get("data", {}), **manifest["data"]}} if "data" in manifest else {}
        return {**old, **deepcopy(manifest), **data, "metadata": metadata}

    def _delete_named(self, what: Sequence[str]) -> Finished:
        names = [(kind_of(word.partition("/")[0]), word.partition("/")[2]) for word in what]
        self.objects = [item for item in self.objects if not any(is_called(item, *name) for name in names)]
        return Finished(0, "delete\n", "")

    def _delete(self, path: str, options: Object) -> Finished:
        *_, plural, name = path.split("/")
        kind = _KINDS[plural]
        if refusal := self.refused.get("delete") or self.refused.get(f"delete {plural}"):
            return Finished(1, "", refusal)
        matching = [item for item in self.objects if is_called(item, kind, name)]
        if not matching:
            return Finished(1, "", f'Error from server (NotFound): {plural} "{name}" not found\n')
        if matching[0]["metadata"]["uid"] != options["preconditions"]["uid"]:
            return Finished(1, "", "Error from server (Conflict): the UID in the precondition does not match\n")
        if not matching[0]["metadata"].get("finalizers"):
            with _LOCK:
                gone = matching[0]["metadata"]["uid"]
                self.objects = [
                    item for item in self.objects if item is not matching[0] and not is_collected(item, gone)
                ]
        return Finished(0, "{}", "")

    def _raw(self, path: str) -> Finished:
        if path == "/readyz":
            return Finished(1, "", self.unready) if self.unready else Finished(0, "ok", "")
        if path == "/apis":
            groups = dict.fromkeys(version.partition("/")[0] for version in self.served if "/" in version)
            return Finished(0, json.dumps({"groups": [{"name": group} for group in groups]}), "")
        api = path.removeprefix("/apis/").removeprefix("/api/")
        if api in self.served:
            resources = [{"name": _PLURALS[kind], "kind": kind} for kind in self.served[api]]
            return Finished(0, json.dumps({"resources": resources}), "")
        versions = [version.rpartition("/")[2] for version in self.served if version.startswith(f"{api}/")]
        if versions:
            return Finished(0, json.dumps({"versions": [{"version": version} for version in versions]}), "")
        return Finished(1, "", "Error from server (NotFound): the server could not find the requested resource\n")

    def _get(self, what: Sequence[str], flags: dict[str, str]) -> Finished:
        items = []
        for word in what:
            resource, _, name = word.partition("/")
            kind = kind_of(resource)
            plain = _PLURALS[kind]
            verb = "get" if name else "list"
            if kind == "MPIJob" and not any(kind in kinds for kinds in self.served.values()):
                return Finished(
                    1, "", f'error: the server doesn\'t have a resource type "{resource.partition(".")[0]}"\n'
                )
            if f"{verb} {plain}" in self.denied:
                refusal = f'{resource} is forbidden: User "me" cannot {verb} resource "{plain}" in API group "" '
                scope = "at the cluster scope" if plain == "nodes" or "all-namespaces" in flags else "in the namespace"
                return Finished(1, "", f"Error from server (Forbidden): {refusal}{scope}\n")
            items += [item for item in self.objects if item["kind"] == kind and name in ("", item["metadata"]["name"])]
        key, _, value = flags.get("field-selector", "").partition("=")
        if key == "metadata.name":
            items = [item for item in items if item["metadata"]["name"] == value]
        if len(what) == 1 and "/" in what[0]:
            return Finished(0, json.dumps(items[0]) if items else "", "")
        return Finished(0, json.dumps({"kind": "List", "items": items}), "")

    def _create(self, item: Object) -> Finished:
        if item["kind"] == "Pod":
            refusal = self.refused.get("create")
            return Finished(1, "", refusal) if refusal else Finished(0, json.dumps(self.admit(item)), "")
        answers = []
        for review in item["items"]:
            asked = review["spec"]["resourceAttributes"]
            name = f"{asked['resource']}/{asked['subresource']}".rstrip("/")
            answers.append(str(f"{asked['verb']} {name}" not in self.denied).lower())
        return Finished(0, "\n".join(answers), "")


def without_connection(argv: Sequence[str]) -> list[str]:
    """Return a command without the options that name the cluster and the namespace of KUBECONFIG."""
    return [word for word in argv if word not in ("--context=here", "--namespace=default")]


def manifest_given(argv: Sequence[str]) -> Object:
    """Return the manifest in the file that a command names."""
    file = next(word for word in argv if word.startswith("--filename=")).partition("=")[2]
    return dict(json.loads(Path(file).read_text(encoding="utf-8")))


def is_called(item: Object, kind: str, name: str) -> bool:
    """Return whether an object has this kind and name."""
    return (item["kind"], item["metadata"]["name"]) == (kind, name)


def is_collected(item: Object, uid: str) -> bool:
    """Return whether an object is deleted with its owner of this uid, that is, has no finalizer."""
    metadata = item["metadata"]
    return not metadata.get("finalizers") and any(owner["uid"] == uid for owner in metadata.get("ownerReferences", ()))


def managed(manager: str, item: Object) -> Object:
    """Return the entry of managed fields by which `manager` has set the object's labels and data."""
    fields = {
        "f:metadata": {"f:labels": {f"f:{key}": {} for key in item["metadata"].get("labels", {})}},
        "f:data": {f"f:{key}": {} for key in item.get("data", {})},
    }
    return {"manager": manager, "operation": "Apply", "fieldsV1": fields}


def item(kind: str, name: str, **fields: Any) -> Object:
    """Return an object with a name; the field `metadata` is merged with the name."""
    metadata = {"name": name, "namespace": "team", "uid": f"{kind}-{name}", **fields.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **fields}


def node(name: str = "node-1", cpu: str = "4", memory: str = "8Gi", **spec: Any) -> Object:
    """Return a ready node."""
    status = {
        "allocatable": {"cpu": cpu, "memory": memory, "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return item("Node", name, spec=spec, status=status)


def lease(renewed: datetime | None = None) -> Object:
    """Return the lease of a running mpi-operator."""
    time = (renewed or datetime.now(UTC)).isoformat()
    # No operator renews the lease during a test, which may take longer than the 15 seconds of a real lease.
    spec = {"holderIdentity": "operator-1", "leaseDurationSeconds": 15 if renewed else 3600, "renewTime": time}
    return item("Lease", "mpi-operator", metadata={"namespace": "mpi-operator"}, spec=spec)


def healthy() -> FakeCluster:
    """Return a cluster in which hello-mpi would run."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return FakeCluster([item("Namespace", "team", metadata={"labels": labels}, status={}), node(), lease()])

"""Installs the objects that the operators and Kueue need; these run on the node, not in pods."""

import base64
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from tests.testbed.builds import KUBERNETES, OPERATORS
from tests.testbed.errors import ToolError
from tests.testbed.kubectl import kubectl
from tests.testbed.places import RUN

QUEUES = "mlpack.test/queues"
"""The label of namespaces that Kueue manages; pods in other namespaces do not wait for its webhooks."""

LEASES = {
    "mpi-operator": ("mpi-operator", "mpi-operator"),
    "jobset": ("6d4f6a47.jobset.x-k8s.io", "jobset-system"),
    "lws": ("b8b2488c.x-k8s.io", "lws-system"),
}
"""The lease of each operator that has one, and its namespace."""

_PATIENCE = 30.0
_STAGING = "us-central1-docker.pkg.dev/k8s-staging-images"
"""The registry of images before a release, which the module's source still names."""

_JOBSET = "https://127.0.0.1:9443"
_KUEUE = "https://127.0.0.1:9444"
_LWS = "https://127.0.0.1:9445"


def are_installed() -> bool:
    """Return whether `install` has completed."""
    crds = (
        *("mpijobs.kubeflow.org", "jobsets.jobset.x-k8s.io", "clusterqueues.kueue.x-k8s.io"),
        "leaderworkersets.leaderworkerset.x-k8s.io",
    )
    with suppress(ToolError):
        return bool(kubectl("get", "crd", *crds) and kubectl("get", "namespace", "mpi-operator", "kueue-system"))
    return False


def install() -> None:
    """Apply the CRDs and webhooks in the operators' modules."""
    files = ("kubeflow.org_mpijobs.yaml", "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml")
    crds = [yaml.safe_load((OPERATORS.entry / crd).read_text()) for crd in files]
    crds += _rendered(OPERATORS.entry / "crd")
    for crd in _rendered(KUBERNETES.entry / "crd"):
        if conversion := crd["spec"].get("conversion"):
            _call(conversion["webhook"], _KUEUE)
        crds.append(crd)
    namespaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in ("mpi-operator", "jobset-system", "lws-system", "kueue-system")
    ]
    # Server-side: MPIJob's CRD is larger than the annotation in which a client-side apply keeps a copy may be.
    kubectl(
        "apply", "--server-side", "--force-conflicts", "--filename=-", text=yaml.safe_dump_all([*crds, *namespaces])
    )
    webhooks = _webhooks("jobset", OPERATORS.entry / "config/components/webhook", _JOBSET)
    webhooks += _webhooks("lws", OPERATORS.entry / "webhook", _LWS)
    queues = _webhooks("kueue", KUBERNETES.entry / "webhook", _KUEUE)
    for configuration in queues:
        for webhook in configuration["webhooks"]:
            webhook["namespaceSelector"] = {"matchLabels": {QUEUES: "true"}}
    kubectl("apply", "--filename=-", text=yaml.safe_dump_all([*webhooks, *queues]))
    _wait_until_established([f"crd/{crd['metadata']['name']}" for crd in crds])


def jobset_release() -> bytes:
    """Return the bytes of JobSet's released manifest: rendered from the module, with the image of the release."""
    rendered = kubectl("kustomize", str(OPERATORS.entry / "config/default"))
    return rendered.replace(_STAGING, "registry.k8s.io").encode()


def remove_jobset() -> None:
    """Delete all objects of JobSet in the cluster; `install` creates them again."""
    objects = (
        "mutatingwebhookconfiguration/jobset-mutating-webhook-configuration",
        "validatingwebhookconfiguration/jobset-validating-webhook-configuration",
        "namespace/jobset-system",
        "crd/jobsets.jobset.x-k8s.io",
        *(f"clusterrole/jobset-{role}" for role in ("manager-role", "metrics-reader", "proxy-role")),
        *(f"clusterrolebinding/jobset-{role}-rolebinding" for role in ("manager", "metrics-reader", "proxy")),
    )
    kubectl("delete", "--ignore-not-found", *objects)


def release_lease(operator: str) -> None:
    """Delete the lease of an ended operator, whose expiry its successor would wait for."""
    name, namespace = LEASES[operator]
    kubectl("delete", "lease", name, f"--namespace={namespace}", "--ignore-not-found")


def _webhooks(operator: str, kustomization: Path, address: str) -> list[dict[str, Any]]:
    """Return an operator's webhooks with the address of its process instead of a Service.

    The kustomization is rendered, because its patches restrict the webhooks for pods to the operator's pods.
    """
    configurations = []
    for document in _rendered(kustomization):
        if document["kind"].endswith("WebhookConfiguration"):
            document["metadata"]["name"] = f"{operator}-{document['metadata']['name']}"
            for webhook in document["webhooks"]:
                _call(webhook, address)
            configurations.append(document)
    return configurations


def _rendered(kustomization: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(kubectl("kustomize", str(kustomization))))


def _call(webhook: dict[str, Any], address: str) -> None:
    """Change the address that a webhook calls."""
    authority = base64.b64encode((RUN / "credentials" / "ca.crt").read_bytes()).decode()
    path = webhook["clientConfig"]["service"]["path"]
    webhook["clientConfig"] = {"url": f"{address}{path}", "caBundle": authority}


def _wait_until_established(crds: list[str]) -> None:
    """Wait until the CRDs are served, because an operator that starts earlier exits.

    `kubectl wait` fails while a new CRD has no conditions, so it is repeated.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            kubectl("wait", "--for=condition=Established", "--timeout=10s", *crds)
        except ToolError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return

"""What mpi-operator and JobSet need to find in the cluster, where they run beside it instead of in pods."""

import base64
import time
from contextlib import suppress
from pathlib import Path

import yaml

from tests.cluster.builds import OPERATORS
from tests.cluster.errors import ToolError
from tests.cluster.kubectl import kubectl
from tests.cluster.places import RUN

_PATIENCE = 30.0
_CRDS = ("kubeflow.org_mpijobs.yaml", "jobset.x-k8s.io_jobsets.yaml")


def are_installed() -> bool:
    """Whether `install` has been here."""
    crds = ("mpijobs.kubeflow.org", "jobsets.jobset.x-k8s.io")
    with suppress(ToolError):
        return bool(kubectl("get", "crd", *crds) and kubectl("get", "namespace", "mpi-operator"))
    return False


def install() -> None:
    """Applies the CRDs and webhooks out of the operators' own modules."""
    files = [f"--filename={OPERATORS.entry / crd}" for crd in _CRDS]
    # Server-side: MPIJob's CRD is larger than the annotation in which a client-side apply keeps a copy may be.
    kubectl("apply", "--server-side", "--force-conflicts", *files)
    lease_namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mpi-operator"}}
    others = [lease_namespace, *_webhooks(OPERATORS.entry / "webhook")]
    kubectl("apply", "--filename=-", text=yaml.safe_dump_all(others))
    _wait_until_established(*files)


def release_lease() -> None:
    """Deletes the lease of an mpi-operator that is no more, which its successor would wait for to run out."""
    kubectl("delete", "lease", "mpi-operator", "--namespace=mpi-operator", "--ignore-not-found")


def _webhooks(kustomization: Path) -> list[dict[str, object]]:
    """JobSet's webhooks, called at the process's address instead of through a Service.

    Its kustomization is rendered, since patches in it keep the webhooks for pods away from everybody else's pods.
    """
    authority = base64.b64encode((RUN / "credentials" / "ca.crt").read_bytes()).decode()
    configurations = []
    for document in yaml.safe_load_all(kubectl("kustomize", str(kustomization))):
        if document["kind"].endswith("WebhookConfiguration"):
            document["metadata"]["name"] = f"jobset-{document['metadata']['name']}"
            for webhook in document["webhooks"]:
                path = webhook["clientConfig"]["service"]["path"]
                webhook["clientConfig"] = {"url": f"https://127.0.0.1:9443{path}", "caBundle": authority}
            configurations.append(document)
    return configurations


def _wait_until_established(*files: str) -> None:
    """Waits until the CRDs are served: an operator that starts earlier exits.

    `kubectl wait` fails at once while a fresh CRD has no conditions yet, so it is asked again.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            kubectl("wait", "--for=condition=Established", "--timeout=10s", *files)
        except ToolError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return

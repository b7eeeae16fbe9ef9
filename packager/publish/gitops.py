"""Makes the objects with which Flux and Argo CD apply an overlay of an artefact, by its digest.

Tests: cli/test_push.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.base.names import LABEL_LENGTH
from packager.base.values import Value
from packager.package import layout

if TYPE_CHECKING:
    from packager.publish.artefact import ArtefactFacts
    from packager.publish.keys import PublicKey
    from packager.publish.reference import PackageReference

_FLUX_NAMESPACE = "flux-system"
_ARGO_NAMESPACE = "argocd"
_FILE = "cosign"
_INTERVAL = "10m"
_TIMEOUT = "5m"


class GitopsTarget(Value, frozen=True):
    """One overlay of an artefact, and where it is applied."""

    facts: ArtefactFacts  # the facts about the package
    reference: PackageReference  # the repository
    digest: str  # the digest of the artefact's manifest
    overlay: str
    namespace: str  # the namespace that the objects are applied to
    is_plain: bool  # whether the registry is used over http
    key: PublicKey | None = None
    """The key whose signature Flux verifies; None for none. Argo CD verifies no signatures of artefacts."""

    @property
    def name(self) -> str:
        """The name of the objects."""
        return f"{self.facts.package}-{self.overlay}"[:LABEL_LENGTH].rstrip("-")

    @property
    def path(self) -> str:
        """The path of the overlay in the artefact."""
        overlay = layout.overlay(self.overlay)
        return f"{self.facts.folder}/{overlay}" if self.facts.folder else overlay


def flux(target: GitopsTarget) -> list[dict[str, Any]]:
    """Return the OCIRepository and the Kustomization of Flux, after the Secret with the key.

    The Kustomization does not wait for the pods: until a Job has ended, it would not be ready, and a worker of
    kustomize-controller, of which there are few, would wait with it.
    """
    metadata = {"name": target.name, "namespace": _FLUX_NAMESPACE}
    source = {
        "interval": _INTERVAL,
        "url": target.reference.base,
        "ref": {"digest": target.digest},
        **({"insecure": True} if target.is_plain else {}),
    }
    secrets = []
    if target.key is not None:
        name = f"{target.name}-key"
        source["verify"] = {"provider": "cosign", "secretRef": {"name": name}}
        secrets.append(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": name, "namespace": _FLUX_NAMESPACE},
                "stringData": {f"{_FILE}.pub": target.key.pem},
            }
        )
    applied = {
        "interval": _INTERVAL,
        "timeout": _TIMEOUT,
        "sourceRef": {"kind": "OCIRepository", "name": target.name},
        "path": f"./{target.path}",
        "prune": True,
        "targetNamespace": target.namespace,
    }
    return [
        *secrets,
        _object("source.toolkit.fluxcd.io/v1", "OCIRepository", metadata, source),
        _object("kustomize.toolkit.fluxcd.io/v1", "Kustomization", metadata, applied),
    ]


def argo(target: GitopsTarget) -> list[dict[str, Any]]:
    """Return the repository Secret and the Application of Argo CD."""
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": target.name,
            "namespace": _ARGO_NAMESPACE,
            "labels": {"argocd.argoproj.io/secret-type": "repository"},
        },
        "stringData": {
            "type": "oci",
            "url": target.reference.base,
            **({"insecureOCIForceHttp": "true"} if target.is_plain else {}),
        },
    }
    application = {
        "project": "default",
        "source": {
            "repoURL": target.reference.base,
            "targetRevision": target.digest,
            "path": target.path,
        },
        "destination": {"server": "https://kubernetes.default.svc", "namespace": target.namespace},
        "syncPolicy": {"syncOptions": ["ServerSideApply=true", "ApplyOutOfSyncOnly=true"]},
    }
    metadata = {"name": target.name, "namespace": _ARGO_NAMESPACE}
    return [secret, _object("argoproj.io/v1alpha1", "Application", metadata, application)]


def _object(api: str, kind: str, metadata: dict[str, str], spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "metadata": dict(metadata), "spec": spec}

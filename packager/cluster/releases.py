"""The operators that packages are tried with: which version, where its manifest is, and what is in it."""

from __future__ import annotations

import hashlib
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packager import yamlio
from packager.errors import UsageError, unreadable
from packager.fetch import fetch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.cluster.objects import Object

_MAX_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Release:
    """An operator at the version that packages are tried with.

    Attributes:
        name: What its Deployment and its lease are called.
        version: Its tag.
        url: Where upstream keeps the manifest of the release.
        sha256: The manifest's digest.
        crd: The CRD of what it runs.
        api: Group and version that packages ask for.
        kind: What it runs.
        rival: Who else brings a CRD of this name.
        brings: Kind, name and namespace of what is in the manifest, in the order in which it is deleted.
    """

    name: str
    version: str
    url: str
    sha256: str
    crd: str
    api: str
    kind: str
    rival: str
    brings: tuple[tuple[str, str, str], ...]


# The digest is that of deploy/v2beta1/mpi-operator.yaml in the module github.com/kubeflow/mpi-operator@v0.8.0.
RELEASES = {
    "mpi": Release(
        name="mpi-operator",
        version="v0.8.0",
        url="https://raw.githubusercontent.com/kubeflow/mpi-operator/v0.8.0/deploy/v2beta1/mpi-operator.yaml",
        sha256="b38def13a94abe60b2a4b3485239d77f64892b8fbd202e9e435a6031b7500a8f",
        crd="mpijobs.kubeflow.org",
        api="kubeflow.org/v2beta1",
        kind="MPIJob",
        rival="training-operator",
        brings=(
            ("deployment", "mpi-operator", "mpi-operator"),
            ("serviceaccount", "mpi-operator", "mpi-operator"),
            ("clusterrolebinding", "mpi-operator", ""),
            ("clusterrole", "mpi-operator", ""),
            ("clusterrole", "kubeflow-mpijobs-admin", ""),
            ("clusterrole", "kubeflow-mpijobs-edit", ""),
            ("clusterrole", "kubeflow-mpijobs-view", ""),
            ("customresourcedefinition", "mpijobs.kubeflow.org", ""),
            ("namespace", "mpi-operator", ""),
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Bundle:
    """The manifest of an operator.

    Attributes:
        text: As it is.
        objects: What is in it.
        is_pinned: Whether it is upstream's, of the pinned version, to the byte.
    """

    text: bytes
    objects: tuple[Object, ...]
    is_pinned: bool

    def of(self, kind: str) -> list[Object]:
        """Return the objects of a kind."""
        return [each for each in self.objects if each.get("kind") == kind]

    @contextmanager
    def file(self) -> Iterator[Path]:
        """Give a file with the manifest in it."""
        with tempfile.TemporaryDirectory(prefix="mlpack-") as folder:
            path = Path(folder) / "operator.yaml"
            path.write_bytes(self.text)
            yield path


def bundle(release: Release, file: Path | None = None) -> Bundle:
    """Return the manifest of `release`: upstream's, or what is in `file`.

    Raises:
        ToolError: It cannot be fetched or read.
        VerificationError: What upstream has is not what was pinned.
        UsageError: The file holds no manifests.
    """
    if file is None:
        text = fetch(
            release.url, release.sha256, otherwise="bring the file here some other way, and give it with --from FILE"
        )
    else:
        try:
            text = file.read_bytes()
        except OSError as error:
            raise unreadable(file, error) from None
    documents, problems = yamlio.load_all(text, str(file or release.url), max_bytes=_MAX_BYTES)
    if problems:
        raise UsageError(f"{file or release.url} holds no manifests", problems=problems)
    objects = tuple(each.data for each in documents if isinstance(each.data, dict) and "kind" in each.data)
    if not objects:
        raise UsageError(f"{file or release.url} holds no manifests")
    return Bundle(text, objects, hashlib.sha256(text).hexdigest() == release.sha256)

"""Loads images into the cluster without a registry."""

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path

from tests.testbed.builds import PAUSE
from tests.testbed.node import Node
from tests.testbed.places import RUN
from tests.testbed.process import run

PAUSE_NAME = "docker.io/library/pause:node"
"""`config/containerd.toml` names it too."""

BUILT = "mlpack.test/built"
"""Every image is known to the cluster under this name too, with the name of its archive as the tag: so that it is seen
whether the cluster has an image, whatever somebody calls it."""


def load(running: Node, archive: Path, name: str) -> None:
    """Load an image into the cluster.

    Args:
        running: The cluster's node.
        archive: An OCI archive with one image, whose tag is the name of the archive.
        name: The name of the image for pods.
    """
    tagged = f"{BUILT}:{archive.stem}"
    if tagged not in _names(running):
        _import(running, archive, f"--base-name={BUILT}")
    run(_ctr(running, "tag", "--force", tagged, name))


def load_pause(running: Node) -> None:
    """Load the image of the pods' sandboxes into the cluster."""
    if PAUSE_NAME in _names(running):
        return
    layer, archive = RUN / "pause-layer.tar", RUN / "pause.tar"
    with tarfile.open(layer, "w") as tar:
        tar.add(PAUSE.entry / "pause", "pause")
    write_archive(archive, PAUSE_NAME, layer, {"Entrypoint": ["/pause"]})
    _import(running, archive)
    layer.unlink()
    archive.unlink()


def write_archive(archive: Path, name: str, layer: Path, config: dict[str, list[str]]) -> None:
    """Write an image with a single layer, in the format of `docker save`."""
    with layer.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    image = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [{"created_by": "tests/testbed"}],  # buildah insists on one entry a layer
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(archive, "w") as tar:
        tar.add(layer, "layer.tar")
        for file, content in {"config.json": image, "manifest.json": manifest}.items():
            text = json.dumps(content).encode()
            member = tarfile.TarInfo(file)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text))


def _ctr(running: Node, *arguments: str) -> list[str]:
    return running.enter("ctr", "--namespace=k8s.io", "images", *arguments)  # the namespace that the kubelet looks in


def _names(running: Node) -> list[str]:
    return run(_ctr(running, "list", "--quiet")).split()


def _import(running: Node, archive: Path, *arguments: str) -> None:
    with archive.open("rb") as stream:
        run(_ctr(running, "import", *arguments, "-"), source=stream)

"""An overlay whose manifests are in one file, `file.yaml`, as if kubectl had rendered this file."""

from __future__ import annotations

from pathlib import Path

from packager.base import yamlio
from packager.kubernetes.manifest import Manifest
from packager.package.opened import Reader
from packager.rendering.origins import Written
from packager.rendering.overlay import RenderedOverlay
from packager.rendering.sources import Sources


def overlay(text: str) -> RenderedOverlay:
    documents, problems = yamlio.load_all(text.encode(), "file.yaml")
    assert problems == []
    manifests = tuple(Manifest(document.data) for document in documents)
    sources = Sources(Reader(Path("no-such-folder"), str), "kustomization.yaml")
    sources.origins += [
        Written(manifest.kind, manifest.name, document) for manifest, document in zip(manifests, documents, strict=True)
    ]
    return RenderedOverlay("single-node", manifests, sources)

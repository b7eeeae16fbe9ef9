"""An overlay whose manifests stand in one file, `file.yaml`: as if kubectl had rendered just that."""

from __future__ import annotations

from pathlib import Path

from packager import yamlio
from packager.verify.origins import Written
from packager.verify.overlay import Manifest, Overlay
from packager.verify.sources import Sources


def overlay(text: str) -> Overlay:
    documents, problems = yamlio.load_all(text.encode(), "file.yaml")
    assert problems == []
    manifests = tuple(Manifest(document.data) for document in documents)
    sources = Sources(Path(), str, "kustomization.yaml")
    sources.origins += [
        Written(manifest.kind, manifest.name, document) for manifest, document in zip(manifests, documents, strict=True)
    ]
    return Overlay("single-node", manifests, sources)

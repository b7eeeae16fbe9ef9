"""Describes a package: one in a registry without its layer, or one on disk.

Tests: cli/test_push.py.
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

from packager.base.errors import ToolError, VerificationError
from packager.base.names import split_registry
from packager.base.values import Value
from packager.package.opened import opened
from packager.publish import load
from packager.publish.pull import warn_of_version
from packager.publish.push import facts_of, images_of
from packager.publish.reference import is_bundle, is_reference, parse
from packager.publish.registry import Repository
from packager.publish.signatures import check_file, find
from packager.verify import Checks

if TYPE_CHECKING:
    from pathlib import Path

    from packager.base.process import Progress, Runner, Tell
    from packager.publish.artefact import ArtefactFacts
    from packager.publish.client import Access
    from packager.publish.load import BundleContents
    from packager.publish.reference import PackageReference
    from packager.publish.signatures import Signature, Trust


class Inspected(Value, frozen=True):
    """The description of a package."""

    facts: ArtefactFacts  # the facts about the package
    reference: PackageReference | None = None  # the repository; None for a package on disk
    digest: str | None = None  # the digest of the artefact; None for a package on disk
    size: int | None = None  # the size of the archive in bytes; None for a folder
    created: str | None = None  # the time that the artefact names
    signatures: tuple[Signature, ...] | None = None  # the signatures in the registry; None for a package on disk
    bundle: BundleContents | None = None
    """The bundle that contains the package; None for a package elsewhere. A bundle lists what a registry does."""

    @property
    def name(self) -> str:
        """The reference with the digest; for a package in a bundle, the repository with it; else the package's name."""
        in_bundle = None if self.bundle is None else f"{self.bundle.package.repository}@{self.digest}"
        return self.pinned or in_bundle or self.facts.package

    @property
    def pinned(self) -> str | None:
        """The reference with its digest; None for a package on disk."""
        return None if self.reference is None or self.digest is None else self.reference.pinned(self.digest)

    @property
    def files(self) -> tuple[str, ...] | None:
        """The paths of the files; None if the registry does not list them."""
        return tuple(sorted(self.facts.inventory["files"])) if self.facts.sealed is not None else None

    @property
    def options(self) -> tuple[str, ...]:
        """The site options that the package was built with."""
        return tuple(self.facts.inventory.get("spec", {}).get("with") or ())

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {
            "package": self.facts.package,
            "version": self.facts.version,
            "package_digest": self.facts.digest,
            "reference": self.pinned,
            "digest": self.digest,
            "size": self.size,
            "created": self.created,
            "overlays": list(self.facts.overlays),
            "options": list(self.options),
            "images": [{"image": image, "locked": is_locked(image)} for image in self.facts.images],
            "edited": list(self.facts.edited),
            "signatures": None if self.signatures is None else [one.as_json() for one in self.signatures],
            "files": None if self.files is None else list(self.files),
            "bundle": None if self.bundle is None else self.bundle.as_json(),
        }


def is_locked(image: str) -> bool:
    """Whether an image is named by its digest."""
    return "@sha256:" in image


def inspect(  # noqa: PLR0913, PLR0917 - the package, and what reads it
    source: str,
    access: Access,
    path: Path,
    kubectl: str,
    runner: Runner,
    trust: Trust,
    *,
    progress: Progress,
    tell: Tell,
) -> Inspected:
    """Return the description of a package, or of the one in a bundle."""
    if not is_reference(source):
        if is_bundle(path):
            contents = load.read(path, trust, progress=progress, tell=lambda _: None)
            stored = contents.packages[contents.package.blob.digest]
            signatures = find(contents.layout, stored.digest, trust.keys)
            facts = load.facts_in(stored)
            return Inspected(facts, None, stored.digest, stored.layer.size, stored.created, signatures, contents)
        check_file(path, trust, tell=tell)
        with opened(path) as package:
            images = images_of(package, Checks((kubectl,), runner=runner))
            size = path.stat().st_size if package.folder != package.source else None
            return Inspected(facts_of(package, images), size=size)
    reference = parse(source)
    with Repository(reference, access) as registry:
        stored = registry.stored(reference.version, str(reference))
        signatures = find(registry, stored.digest, trust.keys)
    trust.require(signatures, str(reference), lambda _: None)
    if stored.facts is None:
        message = f"{reference} has no description of a package: another program has pushed it"
        raise VerificationError(message, hint="mlpack pull shows whether it contains one")
    warn_of_version(reference, stored, stored.facts.version, tell)
    return Inspected(stored.facts, reference, stored.digest, stored.layer.size, stored.created, signatures)


def bill_of_materials(facts: ArtefactFacts) -> dict[str, Any]:
    """Return a document of CycloneDX 1.6 with the files and images of a package, always the same bytes.

    The parts of an image are in the bill of who has built it.
    """
    if facts.sealed is None:
        raise ToolError("the files are not listed in the registry", hint="mlpack pull, and inspect the file")
    inventory = facts.inventory
    tool = inventory.get("tool", {})
    package = {
        "type": "application",
        "bom-ref": facts.package,
        "name": facts.package,
        "hashes": [_hash(facts.digest)],
        "properties": [{"name": "mlpack:edited", "value": path} for path in facts.edited],
    }
    if version := inventory.get("version"):
        package["version"] = str(version)
    files = [
        {"type": "file", "bom-ref": f"file:{path}", "name": path, "hashes": [_hash(entry["sha256"])]}
        for path, entry in sorted(inventory["files"].items())
    ]
    parts = [*files, *map(_image, facts.images)]
    depends = {"ref": facts.package, "dependsOn": [part["bom-ref"] for part in parts]}
    tools = [{"type": "application", "name": str(tool.get("name")), "version": str(tool.get("version"))}]
    content = json.dumps([package, parts], sort_keys=True)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, content)}",
        "version": 1,
        "metadata": {"tools": {"components": tools}, "component": package},
        "components": parts,
        "dependencies": [depends],
    }


def _image(image: str) -> dict[str, Any]:
    name, _, digest = image.partition("@")
    host, rest = split_registry(name)
    path, _, tag = rest.partition(":")
    component = {"type": "container", "bom-ref": f"image:{image}", "name": f"{host}/{path}" if host else path}
    if tag or digest:
        component["version"] = tag or digest
    return component | ({"hashes": [_hash(digest)]} if digest else {})


def _hash(digest: str) -> dict[str, str]:
    return {"alg": "SHA-256", "content": digest.removeprefix("sha256:")}

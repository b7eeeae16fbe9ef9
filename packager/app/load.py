"""Loads a bundle into a registry: everything keeps its digest, so signatures stay valid.

Tests: cli/test_bundle.py.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from packager.app import bundle_contents
from packager.app.bundle_contents import IMAGE_LINE, is_signature
from packager.app.configure import Answers, check_answers, prepared, write
from packager.app.pull import PullRequest, pull_from
from packager.base import atomic, envfile
from packager.base.errors import VerificationError
from packager.base.names import split_registry
from packager.configure.assignments import Assignment
from packager.configure.settings import Files, site_files
from packager.package.layout import env
from packager.package.opened import opened
from packager.publish import artefact, referrers
from packager.publish.artefact import OPERATOR
from packager.publish.bundled import BundledRepository
from packager.publish.reference import parse
from packager.publish.registry import Repository
from packager.workloads.kinds import operators

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from packager.app.signatures import Trust
    from packager.base.progress import Progress, Tell
    from packager.package.opened import Package
    from packager.publish.client import Access
    from packager.publish.layout import Layout, Root
    from packager.publish.reference import PackageReference
    from packager.publish.upload import Descriptor


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """A bundle, and the registry that it is loaded into.

    Attributes:
        bundle: The file.
        registry: The registry: a host, and a path if all repositories are below it.
        force: Whether tags that name something else are moved.
        dry_run: Whether the bundle is only checked.
        trust: The keys that are trusted; None leaves signatures unread.
        folder: The folder in which packages are unpacked and configured for the registry, and that the manifests of
            operators are written to; None for none.
    """

    bundle: Path
    registry: str
    force: bool = False
    dry_run: bool = False
    trust: Trust | None = None
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class LoadedManifest:
    """A package or an image that was loaded.

    Attributes:
        reference: The reference with the tag and the digest.
        source: The name in the registry that it comes from; empty for a package that came from a file.
        is_package: Whether it is a package.
    """

    reference: PackageReference
    source: str
    is_package: bool

    def __str__(self) -> str:
        text = str(self.reference)
        return text if self.is_package else text.removeprefix("oci://")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A bundle that was loaded.

    Attributes:
        manifests: The packages and images.
        signatures: The number of signatures and other manifests that refer to these.
        packages: The folders in which packages were unpacked.
        operators: The files with the manifests of operators that were written, by the names of these.
    """

    manifests: tuple[LoadedManifest, ...]
    signatures: int
    packages: tuple[Path, ...] = ()
    operators: Mapping[str, Path] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {
            "manifests": [
                {"reference": str(one), "from": one.source, "package": one.is_package} for one in self.manifests
            ],
            "signatures": self.signatures,
            "packages": [str(path) for path in self.packages],
            "operators": {name: str(path) for name, path in self.operators.items()},
        }


def load(request: LoadRequest, access: Access, *, progress: Progress, tell: Tell) -> Loaded:
    """Check a bundle, and store its content in a registry; the tags are set last.

    Args:
        request: The bundle and the registry.
        access: The way to the registry.
        progress: Shows the progress.
        tell: Receives a line about each signature of a package.

    Raises:
        UsageError: The registry is not valid, or something is at the place of an output.
        VerificationError: The bundle is not valid, a package in it is not signed by a trusted key, or a tag names
            something else in the registry.
        ToolError: The bundle cannot be read, or the registry does not respond as it must.
    """
    check_answers(Answers(registry=request.registry))
    contents = bundle_contents.read(request.bundle, request.trust, progress=progress, tell=tell)
    content, plain = contents.layout, contents.roots
    if not request.dry_run:
        _store(request, content, access, progress)
    manifests = tuple(
        LoadedManifest(_reference(request.registry, root), root.image, root.blob.digest in contents.packages)
        for root in plain
    )
    loaded = Loaded(manifests, len(content.roots) - len(plain))
    if request.folder is None or request.dry_run:
        return loaded
    moves = _moves(request, plain)
    folders = tuple(_extract(request, request.folder, content, root, moves, progress) for root in contents.main)
    written = _operators(request, request.folder, content, plain, tell)
    return replace(loaded, packages=folders, operators=dict(written))


def _moves(request: LoadRequest, roots: tuple[Root, ...]) -> dict[str, str]:
    """Return the name of each image in the registry, by the name that it had."""
    return {root.image: str(_reference(request.registry, root)).removeprefix("oci://") for root in roots if root.image}


def _extract(  # noqa: PLR0913, PLR0917 - what is unpacked, and where
    request: LoadRequest, folder: Path, content: Layout, root: Root, moves: Mapping[str, str], progress: Progress
) -> Path:
    """Unpack a package, and let its overlays pull their images from the registry; return its folder."""
    reference = _reference(request.registry, root)
    pull = PullRequest(reference, folder, extract=True, force=request.force, trust=request.trust)
    path = pull_from(BundledRepository(content, root.repository), pull, progress=progress, tell=lambda _: None).path
    with opened(path) as package:
        files = Files(package)
        former = {overlay: _registry_of(files.read(env(overlay))) for overlay in package.overlays}
        lines = [line for file in site_files(package) for line in envfile.lines(files.read(file))]
    volumes = tuple(Assignment("--set", line.key, moves[line.value]) for line in lines if line.value in moves)
    for overlay, registry in former.items():
        if registry is not None:
            answers = Answers(registry=_moved(request.registry, registry), assignments=volumes)
            with prepared(path, overlay, answers, ask=_unasked) as edits:
                list(write(edits, tell=lambda _: None))
    return path


def _unasked(_package: Package, _overlays: tuple[str, ...]) -> Answers:
    return Answers()


def _registry_of(content: bytes) -> str | None:
    """Return the registry that an overlay pulls its image from; None if its env file names none."""
    return next((line.value for line in envfile.lines(content) if line.key == "REGISTRY"), None)


def _moved(registry: str, former: str) -> str:
    """Return the value of REGISTRY for images that were moved: a path below the former registry stays."""
    path = split_registry(f"{former}/x")[1].rpartition("/")[0]
    return f"{registry}/{path}" if path else registry


def _operators(
    request: LoadRequest, folder: Path, content: Layout, roots: tuple[Root, ...], tell: Tell
) -> Iterator[tuple[str, Path]]:
    """Write the manifests of operators, with the images in the registry; yield the name of each, and its file."""
    images = _moves(request, roots)
    for short, operator in operators().items():
        for root in roots:
            if root.repository != f"operators/{operator.name}":
                continue
            path = folder / f"{operator.name}.yaml"
            described = artefact.described(content.manifests[root.blob.digest][0], root.repository, (OPERATOR,))
            text = BundledRepository(content, root.repository).content(described.layer)
            if hashlib.sha256(text).hexdigest() != operator.sha256:
                tell(
                    f"note: {path} differs from upstream's manifest of {operator.version}: read it before you apply it"
                )
            with atomic.file(path, exists_hint=None if request.force else "--force replaces it") as stream:
                stream.write(IMAGE_LINE.sub(lambda match: _image_line(match, images), text))
            yield short, path


def _image_line(match: re.Match[bytes], images: Mapping[str, str]) -> bytes:
    """Return a line of a manifest with the image in the registry; the same line for an image that was not loaded."""
    image = match[2].decode()
    return match[1] + images.get(image, image).encode()


def _reference(registry: str, root: Root) -> PackageReference:
    tag = f":{root.tag}" if root.tag else ""
    return parse(f"oci://{registry}/{root.repository}{tag}@{root.blob.digest}")


def _store(request: LoadRequest, content: Layout, access: Access, progress: Progress) -> None:
    """Store everything: blobs, manifests, those that refer to others, and then the tags."""
    by_repository: dict[str, list[Root]] = {}
    for root in content.roots:
        by_repository.setdefault(root.repository, []).append(root)
    for roots in by_repository.values():
        with Repository(_reference(request.registry, roots[0]), access, may_push=True) as registry:
            _refuse_moves(registry, request, roots)
    for name, roots in by_repository.items():
        reference = _reference(request.registry, roots[0])
        blobs = _blobs(content, roots)
        with (
            Repository(reference, access, may_push=True) as registry,
            progress(name, sum(blob.size for blob in blobs), unit="bytes") as advance,
        ):
            for blob in blobs:
                registry.upload(blob, content.path, advance, start=content.blobs[blob])
            for root in sorted(roots, key=lambda root: is_signature(content, root)):
                for digest in content.children_first(root.blob.digest):
                    _put(registry, content, digest)
            for root in sorted(roots, key=lambda root: not is_signature(content, root)):
                if root.tag is not None and registry.digest_of(root.tag) != root.blob.digest:
                    text, manifest = content.manifests[root.blob.digest]
                    registry.put_manifest(root.tag, text, manifest.kind)


def _refuse_moves(registry: Repository, request: LoadRequest, roots: list[Root]) -> None:
    """Refuse to move a tag. Raises VerificationError."""
    for root in roots:
        present = registry.digest_of(root.tag) if root.tag is not None and not request.force else None
        if present not in (None, root.blob.digest):
            place = str(_reference(request.registry, root)).partition("@")[0]
            message = f"{place} names something else: expected {root.blob.digest}, found {present}; nothing was loaded"
            raise VerificationError(message, hint="--force moves the tag")


def _blobs(content: Layout, roots: list[Root]) -> list[Descriptor]:
    """Return the blobs of manifests, in a fixed order, without the manifests."""
    digests = {digest for root in roots for digest in content.children_first(root.blob.digest)}
    blobs = {blob for digest in digests for blob in content.manifests[digest][1].blobs}
    return sorted(blobs, key=lambda blob: blob.digest)


def _put(registry: Repository, content: Layout, digest: str) -> None:
    """Store a manifest by its digest, unless it is there, and list it as one that refers to another manifest."""
    text, manifest = content.manifests[digest]
    is_there = registry.digest_of(digest) is not None
    is_listed = False if is_there else registry.put_manifest(digest, text, manifest.kind)
    if manifest.subject is not None and not is_listed:
        entry = {"mediaType": manifest.kind, "digest": digest, "size": len(text)}
        config = manifest.content.get("config")
        kind = manifest.content.get("artifactType") or (config or {}).get("mediaType")
        entry |= {"artifactType": kind} if kind else {}
        entry |= {"annotations": manifest.content["annotations"]} if manifest.content.get("annotations") else {}
        if all(other.get("digest") != digest for other in referrers.listed(registry, manifest.subject)):
            referrers.add(registry, manifest.subject, entry)

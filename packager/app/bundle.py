"""Bundles a package, its images and their signatures into one file, which needs no network to be loaded.

Operators and their images can be in it, too. Tests: cli/test_bundle.py.
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from packager.app import bundled_operators
from packager.app.image import check_pushable
from packager.app.push import facts_of, images_of
from packager.app.signatures import bundles_beside, check_file
from packager.base import atomic
from packager.base.errors import ToolError, UsageError, VerificationError
from packager.base.names import split_registry
from packager.package.inventory import parsed
from packager.package.opened import opened
from packager.publish import artefact, layout, referrers
from packager.publish.artefact import OPERATOR, ArtefactChoices
from packager.publish.bundled import BundledRepository
from packager.publish.images import image_reference
from packager.publish.layout import Root
from packager.publish.packing import packed
from packager.publish.reference import dashed, is_digest, is_reference, parse
from packager.publish.registry import MANIFEST, Repository
from packager.publish.signatures import find, judge, stored
from packager.publish.transport import PIECE
from packager.publish.upload import Descriptor
from packager.verify import Checks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from packager.app.progress import Progress, Tell
    from packager.app.signatures import Trust
    from packager.base.runner import Runner
    from packager.cluster.operator_release import Bundle as OperatorManifest
    from packager.publish.client import Access
    from packager.publish.layout import Layout
    from packager.workloads.operator import Operator

    Source = Repository | BundledRepository
    _Added = tuple[str, tuple[str, ...], Mapping[str, Any] | None]

_SIGNATURES = (".sig", ".att", ".sbom")
"""The ends of the tags by which cosign stores what belongs to a manifest."""

_MOST = 10_000


@dataclass(frozen=True, slots=True)
class BundleRequest:
    """A package that is bundled, and the options.

    Attributes:
        package: The package: a path, or a reference `oci://…`.
        destination: The bundle; None for a file called like the package.
        with_images: Whether the images of the package are in the bundle.
        force: Whether an existing bundle is replaced.
        created: The time in seconds since 1970 for a package that is packed from a folder.
        kubectl: The kubectl that renders a package on disk.
        trust: The keys that are trusted; None leaves signatures unread.
        operators: Operators that are in the bundle with their images, whether or not the package needs them: NAME, or
            NAME=FILE with the file of its manifest in place of upstream's.
        with_operators: Whether the operators that the package needs are in the bundle, if its images are.
        archives: Archives of images that are in no registry, as podman and docker save them.
    """

    package: str
    destination: Path | None = None
    with_images: bool = True
    force: bool = False
    created: int | None = None
    kubectl: str = "kubectl"
    trust: Trust | None = None
    operators: tuple[str, ...] = ()
    with_operators: bool = True
    archives: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Bundled:
    """A bundle.

    Attributes:
        path: The file.
        roots: The manifests in it.
        size: The number of bytes of all blobs.
    """

    path: Path
    roots: tuple[Root, ...]
    size: int

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {
            "path": str(self.path),
            "size": self.size,
            "manifests": [
                {"repository": root.repository, "tag": root.tag, "digest": root.blob.digest, "from": root.image}
                for root in self.roots
            ],
        }


def bundle(request: BundleRequest, access: Access, *, tell: Tell, progress: Progress, runner: Runner) -> Bundled:
    """Write a package with its images and signatures to one file.

    Args:
        request: The package and the options.
        access: The way to registries.
        tell: Receives the digests that tags of images have, and a line about each signature of the package.
        progress: Shows the progress of the download.
        runner: Starts kubectl.

    Raises:
        UsageError: The package or an operator does not exist, an image is in no registry, or the bundle exists.
        VerificationError: A registry sends something else than it has promised, or the package is not signed by a
            trusted key.
        ToolError: A registry does not respond as it must, or there is no room for the bundle.
    """
    named = bundled_operators.chosen(request.operators)
    with ExitStack() as stack:
        work = _Collected(access, stack)
        if is_reference(request.package):
            name, images, inventory = _remote(work, request, tell)
        else:
            name, images, inventory = _local(work, request, runner, tell)
        required = _needed(request, inventory, tell)
        for operator, manifest in bundled_operators.manifests(named, required, tell):
            _operator(work, operator, manifest)
            images = (*images, *manifest.images)
        saved = [layout.read(archive, is_ours=False) for archive in request.archives]
        for image in sorted(set(images)) if request.with_images else ():
            _image(work, image, saved, tell)
        path = request.destination or Path(f"{name}.bundle.tar")
        size = sum(blob.size for blob in work.blobs)
        _check_room(path, size)
        with (
            atomic.file(path, exists_hint=None if request.force else "--force replaces it") as stream,
            progress(path.name, size, unit="bytes") as advance,
        ):
            layout.write(stream, work.roots, {blob: _counted(copy, blob, advance) for blob, copy in work.blobs.items()})
        return Bundled(path, tuple(work.roots), size)


def _counted(
    copy: Callable[[IO[bytes]], object], blob: Descriptor, advance: Callable[[int], object]
) -> Callable[[IO[bytes]], object]:
    def counted(stream: IO[bytes]) -> None:
        copy(stream)
        advance(blob.size)

    return counted


@dataclass(slots=True)
class _Collected:
    """The manifests and blobs that the bundle will contain.

    Attributes:
        access: The way to registries.
        stack: Closes the connections at the end.
        roots: The manifests that the index lists.
        blobs: For each blob, the function that writes it.
        manifests: The digests of the manifests from registries.
        manifest_bytes: The number of their bytes.
    """

    access: Access
    stack: ExitStack
    roots: list[Root] = field(default_factory=list)
    blobs: dict[Descriptor, Callable[[IO[bytes]], object]] = field(default_factory=dict)
    manifests: set[str] = field(default_factory=set)
    manifest_bytes: int = 0

    def add(self, registry: Source, content: bytes, digest: str) -> str:
        """Add a manifest of a registry and all that it consists of, and return its media type."""
        kind = layout.parsed(content, digest).kind
        waiting = [(content, digest)]
        while waiting:
            content, digest = waiting.pop()
            if digest in self.manifests:
                continue
            self.manifests.add(digest)
            self.manifest_bytes += len(content)
            if len(self.blobs) > _MOST or self.manifest_bytes > layout.ALL_MANIFEST_BYTES:
                raise ToolError(f"{digest}: expected at most {_MOST:,} blobs and 64 MiB of manifests")
            self.blobs[Descriptor(digest, len(content))] = _bytes(content)
            manifest = layout.parsed(content, digest)
            for part in manifest.blobs:
                self.blobs.setdefault(part, _remote_blob(registry, part))
            children = dict.fromkeys(child.digest for child in manifest.children)
            waiting += [registry.manifest(child) for child in children if child not in self.manifests]
        return kind

    def add_made(self, content: bytes, repository: str, tag: str | None) -> Descriptor:
        """Add a manifest that is made here, and list it in the index; return its descriptor."""
        blob = artefact.descriptor(content)
        self.blobs[blob] = _bytes(content)
        self.roots.append(Root(MANIFEST, blob, repository, tag))
        return blob

    def add_root(self, registry: Source, manifest: tuple[bytes, str], named: Root) -> None:
        """Add a manifest that the index lists, with the signatures of it; `named` has its names."""
        content, digest = manifest
        kind = self.add(registry, content, digest)
        self.roots.append(Root(kind, Descriptor(digest, len(content)), named.repository, named.tag, named.image))
        for end in _SIGNATURES:
            tag = f"{dashed(digest)}{end}"
            if signature := registry.find_manifest(tag):
                self._add_signature(registry, signature, named.repository, tag)
        for entry in referrers.listed(registry, digest):
            if is_digest(entry.get("digest")):
                self._add_signature(registry, registry.manifest(entry["digest"]), named.repository, None)

    def _add_signature(self, registry: Source, manifest: tuple[bytes, str], repository: str, tag: str | None) -> None:
        content, digest = manifest
        kind = self.add(registry, content, digest)
        self.roots.append(Root(kind, Descriptor(digest, len(content)), repository, tag))


def _bytes(content: bytes) -> Callable[[IO[bytes]], object]:
    return lambda stream: stream.write(content)


def _remote_blob(registry: Source, blob: Descriptor) -> Callable[[IO[bytes]], object]:
    return lambda stream: registry.download(blob, stream)


def _file(path: Path) -> Callable[[IO[bytes]], object]:
    def copy(stream: IO[bytes]) -> None:
        with path.open("rb") as file:
            shutil.copyfileobj(file, stream, PIECE)

    return copy


def _remote(work: _Collected, request: BundleRequest, tell: Tell) -> _Added:
    """Add a package of a registry; return its name, its images and its inventory."""
    reference = parse(request.package)
    if reference.version is None:
        raise UsageError(f"{reference} names neither a tag nor a digest")
    registry = work.stack.enter_context(Repository(reference, work.access))
    manifest = registry.manifest(reference.version)
    if request.trust is not None and request.trust.is_asked:
        request.trust.require(find(registry, manifest[1], request.trust.keys), str(reference), tell)
    config = artefact.described(manifest[0], str(reference)).config
    facts = artefact.facts(registry.content(config), str(reference)) if config else None
    if facts is None:
        raise VerificationError(f"{reference} is not a package that `mlpack push` has stored")
    name = reference.repository.rpartition("/")[2]
    shown = str(reference).removeprefix("oci://")
    work.add_root(registry, manifest, Root(MANIFEST, Descriptor(manifest[1], 0), name, reference.tag, shown))
    sealed = facts.sealed and parsed(facts.sealed.encode(), Path(facts.package))
    return facts.package, facts.images, sealed or None


def _local(work: _Collected, request: BundleRequest, runner: Runner, tell: Tell) -> _Added:
    """Add a package on disk, as `mlpack push` would store it; return its name, its images and its inventory."""
    source = Path(request.package)
    if request.trust is not None:
        check_file(source, request.trust, tell=tell)
    package = work.stack.enter_context(opened(source))
    images = images_of(package, Checks((request.kubectl,), runner=runner))
    path, layer, _ = work.stack.enter_context(packed(package, request.created or 0))
    tag = package.version
    made = artefact.compose(facts_of(package, images), layer, ArtefactChoices(tag, request.created))
    work.blobs[layer.blob] = _file(path)
    work.blobs[made.config_blob] = _bytes(made.config)
    blob = work.add_made(made.manifest, package.name, tag)
    for content in bundles_beside(source):
        if judge(content, made.digest, ()).problem is None:
            work.blobs[artefact.descriptor(artefact.EMPTY)] = _bytes(artefact.EMPTY)
            work.blobs[artefact.descriptor(content)] = _bytes(content)
            work.add_made(stored(content, blob), package.name, None)
    return package.name, tuple(images), package.inventory


def _needed(request: BundleRequest, inventory: Mapping[str, Any] | None, tell: Tell) -> dict[str, str]:
    """Return the operators that are added for the package, each with the kind of workload that needs it."""
    if not request.with_operators or not request.with_images:
        return {}
    if inventory is None:
        tell("note: the registry does not tell which operator the package needs: name it with --operator")
        return {}
    return bundled_operators.needed(inventory)


def _operator(work: _Collected, operator: Operator, manifest: OperatorManifest) -> None:
    """Add the manifest of an operator, as an artefact with one file."""
    for content in (artefact.EMPTY, manifest.text):
        work.blobs[artefact.descriptor(content)] = _bytes(content)
    made = artefact.of_file(OPERATOR, f"{operator.name}.yaml", manifest.text)
    work.add_made(made, f"operators/{operator.name}", operator.version)


def _saved(work: _Collected, image: str, saved: list[Layout]) -> bool:
    """Add an image that an archive contains, and return whether one does."""
    host, rest = split_registry(image)
    repository, _, tag = rest.partition("@")[0].partition(":")
    names = {image, image if host else f"docker.io/{image}", f"docker.io/library/{rest}"}
    for content in saved:
        for root in content.roots:
            is_only = len(content.roots) == 1 and root.tag == tag and not root.image
            if is_only or names & {root.image, root.tag}:
                manifest = content.manifests[root.blob.digest][0], root.blob.digest
                named = Root(root.kind, root.blob, repository, tag or None, image)
                work.add_root(BundledRepository(content, ""), manifest, named)
                return True
    return False


def _image(work: _Collected, image: str, saved: list[Layout], tell: Tell) -> None:
    """Add an image with all its platforms."""
    if _saved(work, image, saved):
        return
    if "@" not in image:
        check_pushable(image)
    reference = image_reference(image)
    registry = work.stack.enter_context(Repository(reference, work.access))
    manifest = registry.manifest(reference.version or "")
    if reference.digest is None:
        tell(f"{image} is {manifest[1]}")
    repository = split_registry(image)[1].partition("@")[0].partition(":")[0]
    tag = None if reference.digest else reference.tag
    work.add_root(registry, manifest, Root(MANIFEST, Descriptor(manifest[1], 0), repository, tag, image))


def _check_room(path: Path, size: int) -> None:
    folder = path.parent
    if folder.is_dir() and shutil.disk_usage(folder).free < size:
        raise ToolError(f"{folder} has no room for the bundle of {size:,} bytes")

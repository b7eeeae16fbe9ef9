"""Reads a bundle, and loads it into a registry: everything keeps its digest, so signatures stay valid.

Tests: cli/test_bundle.py.
"""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from packager.base import atomic, envfile
from packager.base.errors import ToolError, VerificationError, reason
from packager.base.names import split_registry
from packager.base.problems import Problem
from packager.base.values import Value, as_plain, field, replace
from packager.base.web import PIECE
from packager.configure.configure import Answers, Assignment, prepared, write
from packager.configure.settings import Files, site_files
from packager.package import integrity
from packager.package.inventory import parsed
from packager.package.layout import env
from packager.package.opened import opened
from packager.publish import artefact, layout
from packager.publish.artefact import TAR
from packager.publish.bundle import SOURCES, sources_of
from packager.publish.layout import BundledRepository
from packager.publish.manifest import MANIFEST_BYTES
from packager.publish.pull import PullRequest, pull_from
from packager.publish.reference import OCI, dashed, parse
from packager.publish.registry import Repository
from packager.publish.signatures import find

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from packager.base.paths import Limits
    from packager.base.process import Progress, Tell
    from packager.publish.artefact import ArtefactFacts, Described
    from packager.publish.client import Access
    from packager.publish.layout import Layout, Root
    from packager.publish.reference import PackageReference
    from packager.publish.signatures import Trust
    from packager.verify import Report


class BundledImage(Value, frozen=True):
    """An image in a bundle."""

    image: str  # the name in the registry that it comes from
    digest: str  # of the manifest, or of the index of those of several platforms
    size: int  # the number of bytes, of all platforms


class BundleContents(Value, frozen=True):
    """The content of a bundle, after all digests and the required signatures were checked."""

    path: Path
    layout: Layout
    roots: tuple[Root, ...]  # the packages, images and sources, without what is attached to these
    packages: Mapping[str, ArtefactFacts]  # by the digest of each package

    @property
    def main(self) -> tuple[Root, ...]:
        """The packages that no other package mounts as a volume."""
        mounted = {image for facts in self.packages.values() for image in facts.images}
        return tuple(root for root in self.roots if root.blob.digest in self.packages and root.image not in mounted)

    @property
    def package(self) -> Root:
        """The package that was bundled. Raises VerificationError unless there is exactly one."""
        if len(self.main) != 1:
            count = f"{len(self.main)}" if self.main else "none"
            raise VerificationError(f"{self.path}: expected a bundle with one package, found {count}")
        return self.main[0]

    @property
    def images(self) -> tuple[BundledImage, ...]:
        """The images; also packages that another one mounts."""
        others = [root for root in self.roots if root not in {*self.main, *self.sources}]
        return tuple(BundledImage(root.image or root.name, root.blob.digest, self._size(root)) for root in others)

    @property
    def sources(self) -> tuple[Root, ...]:
        """The images with the files that pods fetch."""
        return tuple(root for root in self.roots if root.repository.startswith(SOURCES))

    def described(self, root: Root, kinds: tuple[str, ...] = ()) -> Described:
        """Return the content of the manifest of a package, or of something whose layer has one of these types."""
        return artefact.described(self.layout.manifests[root.blob.digest][0], f"{self.path}: {root.name}", kinds)

    def _size(self, root: Root) -> int:
        """Return the number of bytes of a manifest, of those below it and of their blobs."""
        manifests = [self.layout.manifests[digest] for digest in self.layout.children_first(root.blob.digest)]
        blobs = {blob for _, manifest in manifests for blob in manifest.blobs}
        return sum(len(content) for content, _ in manifests) + sum(blob.size for blob in blobs)

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        sources = [
            {"repository": root.repository, "digest": root.blob.digest, "size": self._size(root)}
            for root in self.sources
        ]
        return {"path": str(self.path), "images": as_plain(self.images), "sources": sources}


class LoadRequest(Value, frozen=True):
    """A bundle, and the registry that it is loaded into."""

    bundle: Path
    registry: str  # a host, and a path if all repositories are below it
    force: bool = False  # whether tags that name something else are moved
    dry_run: bool = False  # whether the bundle is only checked
    trust: Trust | None = None  # None leaves signatures unread
    folder: Path | None = None  # for the package, configured for the registry, and its sources


class LoadedManifest(Value, frozen=True):
    """A package or an image that was loaded."""

    reference: str  # with the tag and the digest; of a package, with `oci://`
    package: bool
    source: str = field(name="from")  # the name in the registry that it comes from; empty for a package of a file


class Loaded(Value, frozen=True):
    """A bundle that was loaded."""

    manifests: tuple[LoadedManifest, ...]
    signatures: int  # the number of signatures and other manifests that refer to these
    packages: tuple[str, ...] = ()  # the folders in which packages were unpacked
    sources: Mapping[str, str] = {}  # the folders with the files that pods fetch, by the variable of their folder


def _is_signature(content: Layout, root: Root) -> bool:
    """Whether a manifest is stored for another one.

    A package may name another manifest as its subject, too: with a tag of its own, it is what the tag is pulled for.
    """
    return root.tag is None and content.manifests[root.blob.digest][1].subject is not None


def read(path: Path, trust: Trust | None, *, progress: Progress, tell: Tell) -> BundleContents:
    """Return the content of a bundle, after all digests were checked, and the signatures unless `trust` is None."""
    with progress(path.name, path.stat().st_size if path.is_file() else 0, unit="bytes") as advance:
        content = layout.read(path, advance)
    roots = tuple(root for root in content.roots if not _is_signature(content, root))
    contents = BundleContents(path, content, roots, _packages(content, roots))
    if trust is not None and trust.is_asked:
        _check_signatures(contents, trust, tell)
    return contents


def unpacked(contents: BundleContents, folder: Path, limits: Limits) -> Path:
    """Write the archive of the package in a bundle to an empty folder, and return its path.

    Packages that it mounts as volumes are written too, and compared with their inventories.
    """
    paths = {}
    for digest, facts in contents.packages.items():
        root = next(root for root in contents.roots if root.blob.digest == digest)
        described = contents.described(root)
        path = paths[root] = folder / dashed(digest) / artefact.file_name(described, facts.package)
        try:
            path.parent.mkdir()
            with path.open("wb") as stream:
                BundledRepository(contents.layout, root.repository).download(described.layer, stream)
        except OSError as error:
            raise ToolError(f"{contents.path} cannot be unpacked: {reason(error)}") from None
        if root != contents.package:
            with opened(path, limits=limits, shown_as=contents.path / path.name) as package:
                problems = [*integrity.check(package, limits).problems, *differences(contents, root, package.digest)]
            if problems:
                raise VerificationError(f"{contents.path}: {root.name} is not a valid package", problems=problems)
    return paths[contents.package]


def differences(contents: BundleContents, root: Root, digest: str) -> list[Problem]:
    """Return a problem if the package in a layer, which has this digest, is another one than its description says."""
    expected = contents.packages[root.blob.digest].digest
    message = f"the layer has another package than its description: expected {expected}, found {digest}"
    return [] if digest == expected else [Problem(f"{contents.path}: {root.name}", 0, 0, message)]


def compared(contents: BundleContents, report: Report) -> tuple[list[Problem], list[str]]:
    """Return how the report on the package of a bundle differs from the bundle: the problems and the notes."""
    present = {image.image for image in contents.images}
    used = dict.fromkeys(image for names in report.images.values() for image in names)
    notes = []
    if missing := [image for image in used if image not in present]:
        notes.append(f"note: the bundle has no image {', '.join(missing)}")
    if not contents.sources and (sources := _sources_of(contents.packages[contents.package.blob.digest])):
        notes.append(f"note: the bundle lacks what pods fetch: {', '.join(source.address for source in sources)}")
    return differences(contents, contents.package, report.digest), notes


def load(request: LoadRequest, access: Access, *, progress: Progress, tell: Tell) -> Loaded:
    """Check a bundle, and store its content in a registry; the tags are set last."""
    contents = read(request.bundle, request.trust, progress=progress, tell=tell)
    content, roots = contents.layout, contents.roots
    if not request.dry_run:
        _store(request, content, access, progress)
    manifests = []
    for root in roots:
        reference, is_package = str(_reference(request.registry, root)), root.blob.digest in contents.packages
        shown = reference if is_package else reference.removeprefix(OCI)
        manifests.append(LoadedManifest(shown, is_package, root.image))
    loaded = Loaded(tuple(manifests), len(content.roots) - len(roots))
    if request.folder is None or request.dry_run:
        return loaded
    moves = {one.source: one.reference.removeprefix(OCI) for one in manifests if one.source}
    packages = tuple(str(_extract(request, contents, root, moves, progress)) for root in contents.main)
    return replace(loaded, packages=packages, sources=dict(_write_sources(request, contents)))


def _extract(
    request: LoadRequest, contents: BundleContents, root: Root, moves: Mapping[str, str], progress: Progress
) -> Path:
    """Unpack a package, and let its overlays pull their images from the registry; return its folder."""
    assert request.folder is not None
    reference = _reference(request.registry, root)
    pull = PullRequest(reference, request.folder, extract=True, force=request.force, trust=request.trust)
    repository = BundledRepository(contents.layout, root.repository)
    path = pull_from(repository, pull, progress=progress, tell=lambda _: None).path
    with opened(path) as package:
        files = Files(package)
        lines = [line for file in site_files(package) for line in envfile.lines(files.read(file))]
        registries = {
            overlay: line.value
            for overlay in package.overlays
            for line in envfile.lines(files.read(env(overlay)))
            if line.key == "REGISTRY"
        }
    volumes = tuple(Assignment("--set", line.key, moves[line.value]) for line in lines if line.value in moves)
    for overlay, registry in registries.items():
        answers = Answers(registry=moved(request.registry, registry), assignments=volumes)
        with prepared(path, overlay, answers) as edits:
            list(write(edits))
    return path


def moved(registry: str, former: str) -> str:
    """Return the value of REGISTRY for images that were moved: a path below the former registry stays."""
    path = split_registry(f"{former}/x")[1].rpartition("/")[0]
    return f"{registry}/{path}" if path else registry


def _write_sources(request: LoadRequest, contents: BundleContents) -> Iterator[tuple[str, str]]:
    """Write the files that pods fetch, after those whose digest the package names were compared with it.

    Yield the variable of each folder that they belong to, and the folder here.
    """
    assert request.folder is not None
    for root in contents.sources:
        name = root.repository.removeprefix(SOURCES)
        expected = {}
        for facts in contents.packages.values():
            if facts.package == name:
                expected = {source.path: source.sha256 for source in _sources_of(facts) if source.sha256}
        layer = contents.described(root, (TAR,)).layer
        with (
            atomic.folder(
                request.folder / f"{name}.sources", exists_hint=None if request.force else "--force replaces it"
            ) as folder,
            contents.path.open("rb") as stream,
        ):
            stream.seek(contents.layout.blobs[layer])
            try:
                _unpack(stream, folder, layer.size, expected)
            except (tarfile.TarError, ValueError) as error:
                raise VerificationError(f"{contents.path}: {root.name}: {error}") from None
        for below in sorted((request.folder / f"{name}.sources").iterdir()):
            yield below.name, str(below)


def _unpack(stream: Any, folder: Path, size: int, expected: Mapping[str, str]) -> None:
    """Write the files of a tar that is a part of a file. Raises ValueError for other content."""
    end = stream.tell() + size
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            parts = PurePosixPath(member.name).parts
            if not member.isreg() or len(parts) < 2 or {"..", "/"} & {*parts} or stream.tell() > end:
                raise ValueError(f"unexpected entry {member.name!r}")
            path = folder.joinpath(*parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            hashed = hashlib.sha256()
            content = archive.extractfile(member)
            assert content is not None
            with path.open("xb") as file:
                while piece := content.read(PIECE):
                    hashed.update(piece)
                    file.write(piece)
            variable, _, below = member.name.partition("/")
            digest = expected.get(f"$({variable})/{below}")
            if digest not in (None, hashed.hexdigest()):
                raise ValueError(f"{member.name}: expected sha256 {digest}, found {hashed.hexdigest()}")


def _sources_of(facts: ArtefactFacts) -> tuple[Any, ...]:
    """Return the sources that the pods of a package fetch."""
    return sources_of(parsed(facts.sealed.encode(), Path(facts.package))) if facts.sealed else ()


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
        digests = [digest for root in roots for digest in content.children_first(root.blob.digest)]
        blobs = {blob for digest in digests for blob in content.manifests[digest][1].blobs}
        with (
            Repository(_reference(request.registry, roots[0]), access, may_push=True) as registry,
            progress(name, sum(blob.size for blob in blobs), unit="bytes") as advance,
        ):
            for blob in sorted(blobs, key=lambda blob: blob.digest):
                registry.upload(blob, content.path, advance, start=content.blobs[blob])
            for digest in sorted(dict.fromkeys(digests), key=lambda one: content.manifests[one][1].subject is not None):
                _put(registry, content, digest)
            for root in roots:
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


def _put(registry: Repository, content: Layout, digest: str) -> None:
    """Store a manifest by its digest, unless it is there, and is listed if it refers to another manifest."""
    text, manifest = content.manifests[digest]
    is_there = registry.digest_of(digest) is not None
    if is_there and manifest.subject is not None:
        is_there = any(other.get("digest") == digest for other in registry.referrers(manifest.subject.digest))
    if not is_there:
        registry.put_manifest(digest, text, manifest.kind)


def _check_signatures(contents: BundleContents, trust: Trust, tell: Tell) -> None:
    """Check the signatures of the packages in a bundle, and of all that `mlpack pull` would take for one."""
    packages = [root for root in contents.roots if root.blob.digest in contents.packages]
    if trust.is_required and not packages:
        raise VerificationError(f"{contents.path} has no package that could be signed")
    repositories = {root.repository for root in packages}
    for root in dict.fromkeys([*packages, *contents.layout.roots]):
        if root.repository in repositories:
            if root not in packages:
                try:
                    contents.described(root)
                except VerificationError:
                    continue
            found = find(BundledRepository(contents.layout, root.repository), root.blob.digest, trust.keys)
            trust.require(found, f"{contents.path}: {root.repository}", tell)


def _packages(content: Layout, roots: Iterable[Root]) -> dict[str, ArtefactFacts]:
    """Return the facts about each package, by its digest."""
    packages: dict[str, ArtefactFacts] = {}
    for root in roots:
        config = content.manifests[root.blob.digest][1].config
        if config is not None and config.media_type == artefact.CONFIG and config.size <= MANIFEST_BYTES:
            text = BundledRepository(content, root.repository).content(config.blob)
            try:
                facts = artefact.facts(text, root.repository)
            except VerificationError:
                continue
            if facts is not None:
                packages[root.blob.digest] = facts
    return packages

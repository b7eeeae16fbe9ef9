"""Reads a bundle, and loads it into a registry: everything keeps its digest, so signatures stay valid.

Tests: cli/test_bundle.py.
"""

from __future__ import annotations

import hashlib
import tarfile
from contextlib import ExitStack, suppress
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
from packager.package.layout import env
from packager.package.opened import opened
from packager.publish import layout
from packager.publish.artefact import TAR, file_name, only_layer
from packager.publish.bundle import SOURCES, sources_of
from packager.publish.pull import pull
from packager.publish.reference import OCI, dashed, parse
from packager.publish.registry import Repository
from packager.publish.signatures import find

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.base.paths import Limits
    from packager.base.process import Progress, Tell
    from packager.publish.artefact import ArtefactFacts, Stored
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
    packages: Mapping[str, Stored]  # by the digest of each package

    @property
    def roots(self) -> tuple[Root, ...]:
        """The packages, images and sources, without what is attached to these.

        A package may name another manifest as its subject, too: with a tag of its own, it is what the tag is pulled
        for.
        """
        manifests = self.layout.manifests
        roots = self.layout.roots
        return tuple(root for root in roots if root.tag or manifests[root.blob.digest][1].subject is None)

    @property
    def main(self) -> tuple[Root, ...]:
        """The packages that no other package mounts as a volume."""
        mounted = {image for stored in self.packages.values() for image in facts_in(stored).images}
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

    def _size(self, root: Root) -> int:
        """Return the number of bytes of a manifest, of those below it and of their blobs."""
        manifests = list(self.layout.walk(root.blob.digest))
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


def read(path: Path, trust: Trust | None, *, progress: Progress, tell: Tell) -> BundleContents:
    """Return the content of a bundle, after all digests were checked, and the signatures unless `trust` is None."""
    with progress(path.name, path.stat().st_size if path.is_file() else 0, unit="bytes") as advance:
        content = layout.read(path, advance)
    packages: dict[str, Stored] = {}  # with what `mlpack pull` would take for a package
    for root in content.roots:
        with suppress(VerificationError):
            packages[root.blob.digest] = content.stored(root.blob.digest, f"{path}: {root.name}")
    own = {digest: stored for digest, stored in packages.items() if stored.facts is not None}
    if trust is not None and trust.is_asked:
        if trust.is_required and not own:
            raise VerificationError(f"{path} has no package that could be signed")
        repositories = {root.repository for root in content.roots if root.blob.digest in own}
        for root in content.roots:
            if root.repository in repositories and root.blob.digest in packages:
                signatures = find(content, root.blob.digest, trust.keys)
                trust.require(signatures, f"{path}: {root.repository}", tell)
    return BundleContents(path, content, own)


def unpacked(contents: BundleContents, folder: Path, limits: Limits) -> Path:
    """Write the archive of the package in a bundle to an empty folder, and return its path.

    Packages that it mounts as volumes are written too, and compared with their inventories.
    """
    main, result = contents.package.blob.digest, folder
    for digest, stored in contents.packages.items():
        path = folder / dashed(digest) / file_name(stored, facts_in(stored).package)
        try:
            path.parent.mkdir()
            with path.open("wb") as stream:
                contents.layout.download(stored.layer, stream)
        except OSError as error:
            raise ToolError(f"{contents.path} cannot be unpacked: {reason(error)}") from None
        if digest == main:
            result = path
            continue
        with opened(path, limits=limits, shown_as=contents.path / path.name) as package:
            problems = [*integrity.check(package, limits).problems, *differences(stored, package.digest)]
        if problems:
            raise VerificationError(f"{stored.shown} is not a valid package", problems=problems)
    return result


def facts_in(stored: Stored) -> ArtefactFacts:
    """Return the facts about a package of ours."""
    assert stored.facts is not None
    return stored.facts


def differences(stored: Stored, digest: str) -> list[Problem]:
    """Return a problem if the package in a layer, which has this digest, is another one than its description says."""
    expected = facts_in(stored).digest
    message = f"the layer has another package than its description: expected {expected}, found {digest}"
    return [] if digest == expected else [Problem(stored.shown, 0, 0, message)]


def compared(contents: BundleContents, report: Report) -> tuple[list[Problem], list[str]]:
    """Return how the report on the package of a bundle differs from the bundle: the problems and the notes."""
    present = {image.image for image in contents.images}
    used = dict.fromkeys(image for names in report.images.values() for image in names)
    stored = contents.packages[contents.package.blob.digest]
    notes = []
    if missing := [image for image in used if image not in present]:
        notes.append(f"note: the bundle has no image {', '.join(missing)}")
    if not contents.sources and (sources := sources_of(facts_in(stored).inventory)):
        notes.append(f"note: the bundle lacks what pods fetch: {', '.join(source.address for source in sources)}")
    return differences(stored, report.digest), notes


def load(request: LoadRequest, access: Access, *, progress: Progress, tell: Tell) -> Loaded:
    """Check a bundle, and store its content in a registry; the tags are set last."""
    contents = read(request.bundle, request.trust, progress=progress, tell=tell)
    roots = contents.roots
    if not request.dry_run:
        _store(request, contents.layout, access, progress)
    manifests = []
    for root in roots:
        reference, is_package = str(_reference(request.registry, root)), root.blob.digest in contents.packages
        shown = reference if is_package else reference.removeprefix(OCI)
        manifests.append(LoadedManifest(shown, is_package, root.image))
    loaded = Loaded(tuple(manifests), len(contents.layout.roots) - len(roots))
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
    force, trust = request.force, request.trust
    pulled = pull(contents.layout, reference, request.folder, extract=True, force=force, trust=trust, progress=progress)
    path = pulled.path
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
        known = [facts_in(stored) for stored in contents.packages.values()]
        sources = [source for facts in known if facts.package == name for source in sources_of(facts.inventory)]
        expected = {source.path: source.sha256 for source in sources if source.sha256}
        layer = only_layer(contents.layout.manifests[root.blob.digest][1], f"{contents.path}: {root.name}", TAR).blob
        with (
            atomic.folder(
                request.folder / f"{name}.sources", exists_hint=None if request.force else "--force replaces it"
            ) as folder,
            contents.path.open("rb") as stream,
        ):
            stream.seek(contents.layout.part(layer)[1])
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
            is_plain = member.isreg() and not member.issparse()  # a sparse file may have any size
            if not is_plain or len(parts) < 2 or {"..", "/"} & {*parts} or stream.tell() > end:
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


def _reference(registry: str, root: Root) -> PackageReference:
    tag = f":{root.tag}" if root.tag else ""
    return parse(f"oci://{registry}/{root.repository}{tag}@{root.blob.digest}")


def _store(request: LoadRequest, content: Layout, access: Access, progress: Progress) -> None:
    """Store everything: blobs, manifests, those that refer to others, and then the tags."""
    by_repository: dict[str, list[Root]] = {}
    for root in content.roots:
        by_repository.setdefault(root.repository, []).append(root)
    tags: dict[str, list[tuple[str, str]]] = {}  # those to set, with their digests
    with ExitStack() as stack:
        registries = {
            name: stack.enter_context(Repository(_reference(request.registry, roots[0]), access, may_push=True))
            for name, roots in by_repository.items()
        }
        for name, roots in by_repository.items():
            named = [(root.tag, root.blob.digest) for root in roots if root.tag is not None]
            tags[name] = [pair for pair in named if registries[name].is_to_set(*pair, force=request.force)]
        for name, roots in by_repository.items():
            manifests = list(content.walk(*(root.blob.digest for root in roots)))
            blobs = {blob: content.part(blob) for _, found in manifests for blob in found.blobs}
            ordered = sorted(manifests, key=lambda pair: pair[1].subject is not None)
            with progress(name, sum(blob.size for blob in blobs), unit="bytes") as advance:
                registries[name].store(blobs, [text for text, _ in ordered], advance)
            for tag, digest in tags[name]:
                registries[name].put_manifest(tag, content.manifests[digest][0])

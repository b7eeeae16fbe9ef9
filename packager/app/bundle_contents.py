"""Reads the content of a bundle: a package, images, operators, and their signatures.

Tests: cli/test_bundle.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from packager.base.errors import ToolError, VerificationError, reason
from packager.base.problems import Problem
from packager.base.values import Value
from packager.package import integrity
from packager.package.opened import opened
from packager.publish import artefact, layout
from packager.publish.artefact import OPERATOR
from packager.publish.bundled import BundledRepository
from packager.publish.reference import dashed
from packager.publish.signatures import find
from packager.workloads.kinds import operators

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from packager.app.signatures import Trust
    from packager.base.limits import Limits
    from packager.base.progress import Progress, Tell
    from packager.publish.artefact import ArtefactFacts, Described
    from packager.publish.layout import Layout, Root
    from packager.publish.signatures import Signature
    from packager.publish.upload import Descriptor

IMAGE_LINE = re.compile(rb"""(?m)^([ ]*(?:- )?image:[ ]*)["']?([^\s"'#]+)["']?(?=[ ]*\r?$)""")
"""A line of YAML that names the image of a container."""

_OPERATORS = "operators/"
_CONFIG_BYTES = 4 << 20


class BundledImage(Value, frozen=True):
    """An image in a bundle.

    Attributes:
        name: The name in the registry that it comes from.
        digest: The digest of the manifest, or of the index of those of several platforms.
        size: The number of bytes, of all platforms.
    """

    name: str
    digest: str
    size: int


class BundledOperator(Value, frozen=True):
    """An operator in a bundle.

    Attributes:
        name: The name.
        version: The version.
        digest: The digest of the file with its manifest.
        size: The number of bytes of this file.
        is_pinned: Whether the file is upstream's manifest, which mlpack knows by its digest.
        images: The images that its manifest names.
    """

    name: str
    version: str
    digest: str
    size: int
    is_pinned: bool
    images: tuple[str, ...]


class BundleContents(Value, frozen=True):
    """The content of a bundle, after all digests and the required signatures were checked.

    Attributes:
        path: The bundle.
        layout: The layout in it.
        roots: The packages, images and operators, without the signatures and other manifests that refer to these.
        packages: The facts about each package, by its digest.
    """

    path: Path
    layout: Layout
    roots: tuple[Root, ...]
    packages: Mapping[str, ArtefactFacts]

    @property
    def main(self) -> tuple[Root, ...]:
        """The packages that no other package mounts as a volume."""
        mounted = {image for facts in self.packages.values() for image in facts.images}
        return tuple(root for root in self._package_roots if root.image not in mounted)

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
        main = self.main
        others = [root for root in self.roots if root not in main and not is_operator(root)]
        return tuple(BundledImage(root.image or root.name, root.blob.digest, self._size(root)) for root in others)

    @property
    def operators(self) -> tuple[BundledOperator, ...]:
        """The operators. Raises VerificationError if one is something else than a file with its manifest."""
        return tuple(self.operator(root) for root in self.roots if is_operator(root))

    @property
    def _package_roots(self) -> list[Root]:
        return [root for root in self.roots if root.blob.digest in self.packages]

    def repository(self, root: Root) -> BundledRepository:
        """Return the repository of a manifest."""
        return BundledRepository(self.layout, root.repository)

    def described(self, root: Root, kinds: tuple[str, ...] = ()) -> Described:
        """Return the content of the manifest of a package, or of something whose layer has one of these types.

        Raises:
            VerificationError: The manifest is not that of an artefact with one layer.
        """
        return artefact.described(self.layout.manifests[root.blob.digest][0], f"{self.path}: {root.name}", kinds)

    def operator(self, root: Root) -> BundledOperator:
        """Return an operator. Raises VerificationError if it is something else than a file with its manifest."""
        layer = self.described(root, (OPERATOR,)).layer
        text = self.repository(root).content(layer)
        try:
            text.decode()
        except UnicodeDecodeError:
            raise VerificationError(f"{self.path}: {root.name}: expected a manifest in UTF-8") from None
        name = root.repository.removeprefix(_OPERATORS)
        pinned = {operator.name: f"sha256:{operator.sha256}" for operator in operators().values()}
        images = tuple(dict.fromkeys(match[2].decode() for match in IMAGE_LINE.finditer(text)))
        return BundledOperator(name, root.tag or "", layer.digest, layer.size, pinned.get(name) == layer.digest, images)

    def _size(self, root: Root) -> int:
        """Return the number of bytes of a manifest, of those below it and of their blobs."""
        manifests = [self.layout.manifests[digest] for digest in self.layout.children_first(root.blob.digest)]
        blobs = {blob for _, manifest in manifests for blob in manifest.blobs}
        return sum(len(content) for content, _ in manifests) + sum(blob.size for blob in blobs)

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {
            "path": str(self.path),
            "images": [{"image": one.name, "digest": one.digest, "size": one.size} for one in self.images],
            "operators": [
                {"name": one.name, "version": one.version, "digest": one.digest, "upstream": one.is_pinned}
                for one in self.operators
            ],
        }


def is_operator(root: Root) -> bool:
    """Whether a manifest is that of an operator."""
    return root.repository.startswith(_OPERATORS)


def is_signature(content: Layout, root: Root) -> bool:
    """Whether a manifest is stored for another one: without a tag, or with one of cosign's.

    A package may name another manifest as its subject, too: with a tag of its own, it is what the tag is pulled for.
    """
    if root.tag is not None:
        return root.tag.startswith("sha256-")
    return content.manifests[root.blob.digest][1].subject is not None


def read(path: Path, trust: Trust | None, *, progress: Progress, tell: Tell) -> BundleContents:
    """Return the content of a bundle, after each digest in it was checked.

    Args:
        path: The bundle.
        trust: The keys that are trusted; None leaves signatures unread.
        progress: Shows the progress.
        tell: Receives a line about each signature of a package.

    Raises:
        VerificationError: The bundle is not valid, or a package in it is not signed by a trusted key.
        ToolError: The bundle cannot be read.
    """
    size = path.stat().st_size if path.is_file() else 0
    with progress(path.name, size, unit="bytes") as advance:
        content = layout.read(path, advance)
    roots = tuple(root for root in content.roots if not is_signature(content, root))
    contents = BundleContents(path, content, roots, _packages(content, roots))
    if trust is not None and trust.is_asked:
        _check_signatures(contents, trust, tell)
    for root in filter(is_operator, roots):
        contents.operator(root)
    return contents


def signatures(contents: BundleContents, root: Root, trust: Trust) -> tuple[Signature, ...]:
    """Return the signatures of a package. Raises ToolError if they cannot be checked."""
    return find(contents.repository(root), root.blob.digest, trust.keys)


def unpacked(contents: BundleContents, folder: Path, limits: Limits) -> Path:
    """Write the archive of the package in a bundle to a folder, and return its path.

    Packages that it mounts as volumes are written too, and compared with their inventories.

    Args:
        contents: The bundle.
        folder: An empty folder.
        limits: The limits of the contents of packages.

    Raises:
        VerificationError: There is no package or there are several, or one that is mounted is not valid.
        ToolError: The bundle cannot be read, or the folder cannot be written.
    """
    package = contents.package
    for digest in contents.packages:
        root = next(root for root in contents.roots if root.blob.digest == digest)
        path = _archive(contents, root, folder / dashed(digest))
        if root != package:
            _check(contents, root, path, limits)
    name = artefact.file_name(contents.described(package), contents.packages[package.blob.digest].package)
    return folder / dashed(package.blob.digest) / name


def _archive(contents: BundleContents, root: Root, folder: Path) -> Path:
    """Write the archive of a package to a new folder, and return its path."""
    described = contents.described(root)
    path = folder / artefact.file_name(described, contents.packages[root.blob.digest].package)
    try:
        folder.mkdir()
        with path.open("wb") as stream:
            contents.repository(root).download(described.layer, stream)
    except OSError as error:
        raise ToolError(f"{contents.path} cannot be unpacked: {reason(error)}") from None
    return path


def _check(contents: BundleContents, root: Root, path: Path, limits: Limits) -> None:
    """Check the files of a package that another one mounts. Raises VerificationError."""
    shown = f"{contents.path}: {root.name}"
    with opened(path, limits=limits, shown_as=contents.path / path.name) as package:
        problems = [*integrity.check(package, limits).problems, *differences(contents, root, package.digest)]
    if problems:
        raise VerificationError(f"{shown} is not a valid package", problems=problems)


def differences(contents: BundleContents, root: Root, digest: str) -> list[Problem]:
    """Return a problem if the package in a layer, which has this digest, is another one than its description says."""
    expected = contents.packages[root.blob.digest].digest
    message = f"the layer has another package than its description: expected {expected}, found {digest}"
    return [] if digest == expected else [Problem(f"{contents.path}: {root.name}", 0, 0, message)]


def notes(contents: BundleContents, images: Iterable[str]) -> Iterator[str]:
    """Yield a note for missing images, one for images that nothing uses, and one for each changed operator.

    Args:
        contents: The bundle.
        images: The images of the package.
    """
    present = [image.name for image in contents.images]
    used = dict.fromkeys(images)
    if missing := [image for image in used if image not in present]:
        yield f"note: the bundle has no image {', '.join(missing)}"
    used |= dict.fromkeys(image for operator in contents.operators for image in operator.images)
    if stray := [image for image in present if image not in used]:
        yield f"note: neither the package nor an operator in the bundle uses {', '.join(stray)}"
    for operator in contents.operators:
        if not operator.is_pinned:
            yield f"note: the manifest of {operator.name} is not upstream's of {operator.version}"


def _check_signatures(contents: BundleContents, trust: Trust, tell: Tell) -> None:
    """Check the signatures of the packages in a bundle.

    Raises:
        VerificationError: A signature is required, and a package has none by a trusted key.
    """
    packages = [root for root in contents.roots if root.blob.digest in contents.packages]
    repositories = {root.repository for root in packages}
    others = [root for root in contents.roots if root.repository in repositories and _may_be_pulled(contents, root)]
    for root in dict.fromkeys([*packages, *others]):
        trust.require(signatures(contents, root, trust), f"{contents.path}: {root.repository}", tell)
    if trust.is_required and not packages:
        raise VerificationError(f"{contents.path} has no package that could be signed")


def _may_be_pulled(contents: BundleContents, root: Root) -> bool:
    """Whether `mlpack pull` would take a manifest for a package, whatever its config describes."""
    try:
        contents.described(root)
    except VerificationError:
        return False
    return True


def _packages(content: Layout, roots: Iterable[Root]) -> dict[str, ArtefactFacts]:
    """Return the facts about each package, by its digest; each config is read once."""
    packages: dict[str, ArtefactFacts] = {}
    facts_by_config: dict[Descriptor, ArtefactFacts | None] = {}
    for root in roots:
        blobs = content.manifests[root.blob.digest][1].blobs
        if not blobs or blobs[0].size > _CONFIG_BYTES:
            continue
        if blobs[0] not in facts_by_config:
            facts_by_config[blobs[0]] = _facts(content, root, blobs[0])
        if (facts := facts_by_config[blobs[0]]) is not None:
            packages[root.blob.digest] = facts
    return packages


def _facts(content: Layout, root: Root, config: Descriptor) -> ArtefactFacts | None:
    """Return the facts about a package; None for something else."""
    text = BundledRepository(content, root.repository).content(config)
    try:
        return artefact.facts(text, root.repository)
    except VerificationError:
        return None

"""Writes and reads an OCI image layout in one tar: `oci-layout`, `index.json`, and each blob by its digest.

image-spec 1.1, "Image Layout". The same content gives the same bytes. A tar may come from anyone: what is read has
exactly these files, each with its digest, and each used.

skopeo finds a manifest by `org.opencontainers.image.ref.name`, and `ctr images import` gives it the name in
`io.containerd.image.name`: each package and image has its own, and what is attached to one has none.

Tests: cli/test_bundle.py.
"""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from typing import IO, TYPE_CHECKING, Any

from packager.base import jsonio
from packager.base.errors import ToolError, VerificationError, unreadable
from packager.base.names import IMAGE_PATH, TAG
from packager.base.values import Value
from packager.base.web import PIECE
from packager.publish import manifest
from packager.publish.manifest import INDEX, MANIFEST_BYTES, Descriptor
from packager.publish.reference import is_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from packager.publish.manifest import Manifest

    Copy = Callable[[IO[bytes]], object]
    """Writes a blob to a stream."""

_LAYOUT = b'{"imageLayoutVersion":"1.0.0"}'
_BLOB = re.compile(r"blobs/sha256/([0-9a-f]{64})")

ALL_MANIFEST_BYTES = 64 << 20
"""The most bytes of all manifests of a layout."""

_NAME = "org.opencontainers.image.ref.name"
_IMAGE = "io.containerd.image.name"
_REPOSITORY = "mlpack.repository"
_TAG = "mlpack.tag"


class Root(Value, frozen=True):
    """A manifest that the index of a layout lists."""

    kind: str  # the media type
    blob: Descriptor
    repository: str  # below the registry, such as `team/model`
    tag: str | None = None
    image: str = ""  # the full name in the registry that it comes from; empty for none
    is_attached: bool = False  # to another manifest, such as a signature

    @property
    def name(self) -> str:
        """The repository with the tag, if there is one."""
        return f"{self.repository}:{self.tag}" if self.tag else self.repository

    @property
    def entry(self) -> dict[str, Any]:
        """The entry of the index."""
        annotations = {_REPOSITORY: self.repository}
        if self.tag is not None:
            annotations[_TAG] = self.tag
        if not self.is_attached:
            annotations[_NAME] = self.name if self.tag else f"{self.repository}@{self.blob.digest}"
        if self.image:
            annotations[_IMAGE] = self.image
        return {
            "mediaType": self.kind,
            "digest": self.blob.digest,
            "size": self.blob.size,
            "annotations": dict(sorted(annotations.items())),
        }


def write(stream: IO[bytes], roots: list[Root], blobs: Mapping[Descriptor, Copy]) -> None:
    """Write a layout to a file at its beginning; `blobs` has for each blob a function that writes it.

    Raises:
        OSError: The stream cannot be written.
        VerificationError, ToolError: The errors of the functions.
    """
    ordered = sorted(roots, key=lambda root: (root.repository, root.tag or "", root.blob.digest))
    index = jsonio.compact_bytes(
        {"schemaVersion": 2, "mediaType": INDEX, "manifests": [root.entry for root in ordered]}
    )
    _write_member(stream, "oci-layout", len(_LAYOUT), lambda to: to.write(_LAYOUT))
    _write_member(stream, "index.json", len(index), lambda to: to.write(index))
    for blob in sorted(blobs, key=lambda blob: blob.digest):
        _write_member(stream, f"blobs/sha256/{blob.digest.removeprefix('sha256:')}", blob.size, blobs[blob])
    stream.write(bytes(2 * tarfile.BLOCKSIZE))
    stream.write(bytes(-stream.tell() % tarfile.RECORDSIZE))


def _write_member(stream: IO[bytes], name: str, size: int, copy: Copy) -> None:
    member = tarfile.TarInfo(name)
    member.size = size
    stream.write(member.tobuf(tarfile.PAX_FORMAT))
    start = stream.tell()
    copy(stream)
    if stream.tell() - start != size:
        raise ToolError(f"{name}: expected {size:,} bytes, found {stream.tell() - start:,}")
    stream.write(bytes(-size % tarfile.BLOCKSIZE))


class Layout:
    """A layout that has been read, with all its digests checked."""

    def __init__(self, path: Path) -> None:
        self.path = path  # the tar
        self.roots: tuple[Root, ...] = ()  # the manifests that the index lists
        self.manifests: dict[str, tuple[bytes, Manifest]] = {}  # by their digests
        self.blobs: dict[Descriptor, int] = {}  # each with the offset of its content in the tar

    def add_manifests(self, stream: IO[bytes]) -> set[str]:
        """Read the manifests of the roots and those below them, and return the digests of all that they use."""
        waiting = [root.blob for root in self.roots]
        used: set[str] = set()
        size = 0
        while waiting:
            blob = waiting.pop()
            used.add(blob.digest)
            if blob.digest in self.manifests:
                continue
            size += blob.size
            if blob.size > MANIFEST_BYTES or size > ALL_MANIFEST_BYTES:
                most = f"{MANIFEST_BYTES >> 20} MiB for a manifest, and {ALL_MANIFEST_BYTES >> 20} MiB for all"
                raise VerificationError(f"{self.path}: expected at most {most}")
            stream.seek(self._offset(blob))
            content = stream.read(blob.size)
            found = manifest.read(content, f"{self.path}: {blob.digest}")
            self.manifests[blob.digest] = content, found
            for part in found.blobs:
                self._offset(part)
                used.add(part.digest)
            waiting += found.children
        return used

    def children_first(self, digest: str) -> list[str]:
        """Return the digests of a manifest and of all below it, each once, and after those below it."""
        order: dict[str, None] = {}
        waiting = [(digest, False)]
        while waiting:
            current, is_complete = waiting.pop()
            if is_complete:
                order[current] = None
            elif current not in order:
                waiting.append((current, True))
                children = (child.digest for child in self.manifests[current][1].children)
                waiting += [(child, False) for child in dict.fromkeys(children) if child not in order]
        return list(order)

    def _offset(self, blob: Descriptor) -> int:
        if blob not in self.blobs:
            raise VerificationError(f"{self.path}: {blob.digest} of {blob.size:,} bytes is missing")
        return self.blobs[blob]


class BundledRepository:
    """One repository of a layout that has been read, which is read as one of a registry."""

    def __init__(self, layout: Layout, name: str) -> None:
        self._layout = layout
        self._roots = [root for root in layout.roots if root.repository == name]

    def find_manifest(self, version: str) -> tuple[bytes, str] | None:
        """Return the manifest with a tag or a digest, and its digest; None if the bundle has no such manifest."""
        tagged = (root.blob.digest for root in self._roots if root.tag == version)
        digest = version if is_digest(version) else next(tagged, None)
        return None if digest not in self._layout.manifests else (self._layout.manifests[digest][0], digest)

    def manifest(self, version: str) -> tuple[bytes, str]:
        """Return the manifest with a tag or a digest, and its digest. Raises ToolError without one."""
        present = self.find_manifest(version)
        if present is None:
            raise ToolError(f"{self._layout.path}: {version} not found")
        return present

    def tags(self) -> tuple[str, ...]:
        """Return the tags of the repository."""
        return tuple(root.tag for root in self._roots if root.tag is not None)

    def referrers(self, digest: str) -> list[dict[str, Any]]:
        """Return the descriptors of the manifests that refer to another one."""
        manifests = {root.blob.digest: self._layout.manifests[root.blob.digest][1] for root in self._roots}
        return [
            {"digest": name, "artifactType": found.artifact_type, "annotations": found.annotations}
            for name, found in manifests.items()
            if found.subject is not None and found.subject.digest == digest
        ]

    def content(self, blob: Descriptor) -> bytes:
        """Return a blob of at most MANIFEST_BYTES bytes. Raises VerificationError if it is larger, or missing."""
        if blob not in self._layout.blobs or blob.size > MANIFEST_BYTES:
            raise VerificationError(f"{self._layout.path}: {blob.digest} of {blob.size:,} bytes is missing or large")
        stream = io.BytesIO()
        self.download(blob, stream)
        return stream.getvalue()

    def download(
        self, blob: Descriptor, stream: IO[bytes], advance: Callable[[int], object] = lambda _size: None
    ) -> None:
        """Write a blob to a stream. Raises ToolError, and OSError if the stream cannot be written."""
        try:
            source = self._layout.path.open("rb")
        except OSError as error:
            raise unreadable(self._layout.path, error) from None
        with source:
            source.seek(self._layout.blobs[blob])
            for piece in _pieces(source, blob.size, self._layout.path):
                stream.write(piece)
                advance(len(piece))


def read(path: Path, advance: Callable[[int], object] = lambda _size: None, *, is_ours: bool = True) -> Layout:
    """Return the layout in a tar, after each digest was checked; nothing is unpacked.

    If it is not ours, it is an image of the user's, as podman, docker and buildah save it.
    """
    layout = Layout(path)
    try:
        with path.open("rb") as stream:
            index = _index(layout, stream, advance, is_ours=is_ours)
            layout.roots = tuple(_roots(index, path) if is_ours else _saved_roots(index, path))
            used = layout.add_manifests(stream)
    except (tarfile.TarError, ValueError, OverflowError) as error:
        hint = "a bundle is a file that `mlpack bundle` has written, and a package is a folder or a tar.gz"
        raise VerificationError(f"{path} is not a bundle: {error}", hint=hint) from None
    except OSError as error:
        raise unreadable(path, error) from None
    if is_ours and (unused := {blob.digest for blob in layout.blobs} - used):
        raise VerificationError(f"{path}: no manifest names {min(unused)}")
    return layout


def _index(layout: Layout, stream: IO[bytes], advance: Callable[[int], object], *, is_ours: bool) -> bytes:
    """Note all blobs of a layout, and return the content of its index."""
    small: dict[str, bytes] = {}
    digests: set[str] = set()
    with tarfile.open(fileobj=stream, mode="r:") as archive:
        for member in archive:
            match = _BLOB.fullmatch(member.name)
            is_small = member.name in ("oci-layout", "index.json") and member.name not in small
            if not is_ours and not (match or is_small):
                continue  # folders, and files of docker beside the layout
            if not member.isreg() or member.issparse() or not (match or is_small):
                raise ValueError(f"unexpected entry {member.name!r}")
            stream.seek(member.offset_data)
            if match is None:
                if member.size > MANIFEST_BYTES:
                    raise ValueError(f"{member.name} has more than {MANIFEST_BYTES >> 20} MiB")
                small[member.name] = b"".join(_pieces(stream, member.size, layout.path))
                continue
            if match[1] in digests:
                raise ValueError(f"{member.name} is there twice")
            digests.add(match[1])
            hashed = hashlib.sha256()
            for piece in _pieces(stream, member.size, layout.path):
                hashed.update(piece)
                advance(len(piece))
            if hashed.hexdigest() != match[1]:
                raise ValueError(f"{member.name} has the digest sha256:{hashed.hexdigest()}")
            layout.blobs[Descriptor(f"sha256:{match[1]}", member.size)] = member.offset_data
    version = small.get("oci-layout", b"")
    if (version if is_ours else b"".join(version.split())) != _LAYOUT or "index.json" not in small:
        raise ValueError("it has no oci-layout of version 1.0.0, or no index.json")
    return small["index.json"]


def _pieces(stream: IO[bytes], size: int, path: Path) -> Iterator[bytes]:
    """Yield the next bytes of a stream. Raises VerificationError if there are fewer."""
    while size:
        piece = stream.read(min(size, PIECE))
        if not piece:
            raise VerificationError(f"{path} is not a bundle: it is cut off")
        size -= len(piece)
        yield piece


def _saved_roots(content: bytes, path: Path) -> Iterator[Root]:
    """Yield the images of another program's archive, with the names that it has given to them."""
    for entry in manifest.read(content, f"{path}: index.json").manifests or ():
        texts = entry.annotations or {}
        yield Root(entry.media_type or manifest.MANIFEST, entry.blob, "", texts.get(_NAME), texts.get(_IMAGE, ""))


def _roots(content: bytes, path: Path) -> Iterator[Root]:
    tagged: dict[tuple[str, str], str] = {}
    for entry in manifest.read(content, f"{path}: index.json").manifests or ():
        texts = entry.annotations or {}
        repository, tag = texts.get(_REPOSITORY, ""), texts.get(_TAG)
        if not re.fullmatch(IMAGE_PATH, repository) or not re.fullmatch(TAG, "x" if tag is None else tag):
            raise VerificationError(f"{path}: index.json: expected a repository and a tag for {entry.digest}")
        if tag is not None and tagged.setdefault((repository, tag), entry.digest) != entry.digest:
            raise VerificationError(f"{path}: index.json: two manifests have the tag {repository}:{tag}")
        kind = entry.media_type or manifest.MANIFEST
        yield Root(kind, entry.blob, repository, tag, texts.get(_IMAGE, ""), is_attached=_NAME not in texts)

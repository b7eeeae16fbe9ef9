"""Writes and reads an OCI image layout in one tar: `oci-layout`, `index.json`, and each blob by its digest.

image-spec 1.1, "Image Layout". The same content gives the same bytes. A tar may come from anyone: what is read has
exactly these files, each with its digest, and each used.

skopeo finds a manifest by `org.opencontainers.image.ref.name`, and `ctr images import` gives it the name in
`io.containerd.image.name`: each package and image has its own, and what is attached to one has none.

Tests: cli/test_bundle.py.
"""

from __future__ import annotations

import hashlib
import re
import tarfile
from typing import IO, TYPE_CHECKING, Any

from packager.base import jsonio
from packager.base.errors import ToolError, VerificationError, unreadable
from packager.base.names import IMAGE_PATH, TAG
from packager.base.values import Value
from packager.base.web import Content
from packager.publish.artefact import INDEX, MANIFEST, MANIFEST_BYTES, Descriptor, Source, descriptor, read_manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from packager.publish.artefact import Manifest

    Advance = Callable[[int], object]
    Copy = Callable[[IO[bytes]], object]
    """Writes a blob to a stream."""

_LAYOUT = b'{"imageLayoutVersion":"1.0.0"}'
_BLOB = re.compile(r"blobs/sha256/([0-9a-f]{64})")

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
        name = self.name if self.tag else f"{self.repository}@{self.blob.digest}"
        annotations = {
            _IMAGE: self.image or None,
            _REPOSITORY: self.repository,
            _TAG: self.tag,
            _NAME: None if self.is_attached else name,
        }
        return {
            "mediaType": self.kind,
            "digest": self.blob.digest,
            "size": self.blob.size,
            "annotations": {key: text for key, text in annotations.items() if text is not None},
        }


def write(
    stream: IO[bytes],
    roots: list[Root],
    blobs: Mapping[Descriptor, Copy],
    advance: Advance = lambda _size: None,
) -> None:
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
        advance(blob.size)
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


class Layout(Source):
    """A layout that has been read, with all its digests checked."""

    def __init__(self, path: Path) -> None:
        self.path = path  # the tar
        self.roots: tuple[Root, ...] = ()  # the manifests that the index lists
        self.manifests: dict[str, tuple[bytes, Manifest]] = {}  # these and all below them, by their digests
        self.blobs: dict[str, tuple[Descriptor, int]] = {}  # each with the offset of its content in the tar

    def shown(self, version: str) -> str:
        """Return the tar with a digest."""
        return f"{self.path}: {version}"

    def find_manifest(self, version: str) -> tuple[bytes, str]:
        """Return the manifest with a digest. Raises VerificationError if the layout lacks it."""
        if version not in self.blobs:
            raise VerificationError(f"{self.shown(version)} is missing")
        return self.content(self.blobs[version][0]), version

    def referrers(self, digest: str) -> list[dict[str, Any]]:
        """Return the descriptors of the manifests that refer to another one."""
        return [
            {"digest": name, "artifactType": found.artifact_type, "annotations": found.annotations}
            for name, (_, found) in self.manifests.items()
            if found.subject is not None and found.subject.digest == digest
        ]

    def part(self, blob: Descriptor) -> tuple[Path, int]:
        """Return the file with a blob, and the blob's offset. Raises VerificationError if the layout lacks it."""
        present, offset = self.blobs.get(blob.digest, (None, 0))
        if present != blob:
            raise VerificationError(f"{self.path}: {blob.digest} of {blob.size:,} bytes is missing")
        return self.path, offset

    def download(self, blob: Descriptor, stream: IO[bytes], advance: Advance = lambda _size: None) -> None:
        """Write a blob to a stream. Raises ToolError, and OSError if the stream cannot be written."""
        path, offset = self.part(blob)
        for piece in Content(path, blob.size, offset, advance).pieces():
            stream.write(piece)


def read(path: Path, advance: Advance = lambda _size: None, *, is_ours: bool = True) -> Layout:
    """Return the layout in a tar, after each digest was checked; nothing is unpacked.

    If it is not ours, it is an image of the user's, as podman, docker and buildah save it.
    """
    layout = Layout(path)
    try:
        with path.open("rb") as stream:
            index = _index(layout, stream, advance, is_ours=is_ours)
    except (tarfile.TarError, ValueError, OverflowError) as error:
        hint = "a bundle is a file that `mlpack bundle` has written, and a package is a folder or a tar.gz"
        raise VerificationError(f"{path} is not a bundle: {error}", hint=hint) from None
    except OSError as error:
        raise unreadable(path, error) from None
    layout.roots = tuple(_roots(index, path, is_ours=is_ours))
    for content, found in layout.walk(*(root.blob.digest for root in layout.roots)):
        layout.manifests[descriptor(content).digest] = content, found
    blobs = [blob for _, found in layout.manifests.values() for blob in found.blobs]
    for blob in blobs:
        layout.part(blob)
    unused = layout.blobs.keys() - layout.manifests.keys() - {blob.digest for blob in blobs}
    if is_ours and unused:
        raise VerificationError(f"{path}: no manifest names {min(unused)}")
    return layout


def _index(layout: Layout, stream: IO[bytes], advance: Advance, *, is_ours: bool) -> bytes:
    """Note all blobs of a layout, and return the content of its index."""
    small: dict[str, bytes] = {}
    with tarfile.open(fileobj=stream, mode="r:") as archive:
        for member in archive:
            match = _BLOB.fullmatch(member.name)
            is_small = member.name in ("oci-layout", "index.json") and member.name not in small
            if not is_ours and not (match or is_small):
                continue  # folders, and files of docker beside the layout
            content = archive.extractfile(member) if member.isreg() and not member.issparse() else None
            if content is None or not (match or is_small):
                raise ValueError(f"unexpected entry {member.name!r}")
            if match is None:
                if member.size > MANIFEST_BYTES:
                    raise ValueError(f"{member.name} has more than {MANIFEST_BYTES >> 20} MiB")
                small[member.name] = content.read()
                continue
            digest = hashlib.file_digest(content, "sha256").hexdigest()  # type: ignore[arg-type]
            if digest != match[1]:
                raise ValueError(f"{member.name} has the digest sha256:{digest}")
            blob = Descriptor(f"sha256:{digest}", member.size)
            layout.blobs[blob.digest] = blob, member.offset_data
            advance(member.size)
    if b"".join(small.get("oci-layout", b"").split()) != _LAYOUT or "index.json" not in small:
        raise ValueError("it has no oci-layout of version 1.0.0, or no index.json")
    return small["index.json"]


def _roots(content: bytes, path: Path, *, is_ours: bool) -> Iterator[Root]:
    """Yield the entries of an index; of another program's archive, with the names that it has given to its images."""
    for entry in read_manifest(content, f"{path}: index.json").manifests or ():
        kind, texts = entry.media_type or MANIFEST, entry.annotations or {}
        if not is_ours:
            yield Root(kind, entry.blob, "", texts.get(_NAME), texts.get(_IMAGE, ""))
            continue
        repository, tag = texts.get(_REPOSITORY, ""), texts.get(_TAG)
        if not re.fullmatch(IMAGE_PATH, repository) or not re.fullmatch(TAG, "x" if tag is None else tag):
            raise VerificationError(f"{path}: index.json: expected a repository and a tag for {entry.digest}")
        yield Root(kind, entry.blob, repository, tag, texts.get(_IMAGE, ""), is_attached=_NAME not in texts)

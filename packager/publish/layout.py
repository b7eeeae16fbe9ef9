"""Writes and reads an OCI image layout in one tar: `oci-layout`, `index.json`, and each blob by its digest.

image-spec 1.1, "Image Layout". The same content gives the same bytes. A tar may come from anyone: what is read has
exactly these files, each with its digest, and each used.

Tests: cli/test_bundle.py.
"""

from __future__ import annotations

import hashlib
import re
from typing import IO, TYPE_CHECKING, Any

from packager.base import jsonio
from packager.base.errors import ToolError, VerificationError, unreadable
from packager.base.names import IMAGE_PATH, TAG
from packager.base.problems import show
from packager.base.values import Value
from packager.base.web import PIECE
from packager.package import tarheader
from packager.package.path_checks import ContentError
from packager.package.tarheader import BLOCK, RECORD
from packager.publish.reference import dashed, is_digest
from packager.publish.registry import INDEX, MANIFEST, MANIFEST_BYTES
from packager.publish.upload import Descriptor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

_LAYOUT = b'{"imageLayoutVersion":"1.0.0"}'
_BLOB = re.compile(r"blobs/sha256/([0-9a-f]{64})")
_MOST_BLOBS = 20_000
_BESIDE = re.compile(r"[a-z]{1,20}(\.json)?")
_FOLDERS = ("blobs", "blobs/sha256")
"""The other files and folders in an image that docker or podman has saved."""

ALL_MANIFEST_BYTES = 64 << 20
"""The most bytes of all manifests of a layout."""

_TAG = "org.opencontainers.image.ref.name"
_IMAGE = "io.containerd.image.name"
_REPOSITORY = "mlpack.repository"


class Root(Value, frozen=True):
    """A manifest that the index of a layout lists.

    Attributes:
        kind: The media type.
        blob: The manifest as a blob.
        repository: The repository below the registry, such as `team/model`.
        tag: The tag; None for a manifest that is named by its digest.
        image: The full name in the registry that it comes from, as containerd reads it; empty for none.
    """

    kind: str
    blob: Descriptor
    repository: str
    tag: str | None = None
    image: str = ""

    @property
    def name(self) -> str:
        """The repository with the tag, if there is one."""
        return f"{self.repository}:{self.tag}" if self.tag else self.repository


class ManifestParts(Value, frozen=True):
    """A manifest or an index: what it consists of.

    Attributes:
        kind: The media type.
        children: The manifests of an index.
        blobs: The config and the layers of an image.
        subject: The digest of the manifest that it refers to; None if it refers to none.
        content: The parsed manifest.
    """

    kind: str
    children: tuple[Descriptor, ...]
    blobs: tuple[Descriptor, ...]
    subject: str | None
    content: Mapping[str, Any]


_MEDIA_TYPE = re.compile(r"[!-~]{1,255}")


def parsed(content: bytes, shown: str) -> ManifestParts:
    """Return a manifest from others.

    Args:
        content: The manifest.
        shown: The name for messages.

    Raises:
        VerificationError: The content is not a manifest.
    """
    try:
        manifest = jsonio.read_object(content)
    except jsonio.JsonError as error:
        raise VerificationError(f"{shown} is not a manifest: {error}") from None
    kind, subject = manifest.get("mediaType"), manifest.get("subject")
    children = manifest.get("manifests")
    layers = manifest.get("layers", [])
    if isinstance(children, list):
        entries, blobs = children, []
    elif isinstance(layers, list) and isinstance(manifest.get("config"), dict):
        entries, blobs = [], [manifest["config"], *layers]
    else:
        raise VerificationError(f"{shown} is not a manifest: expected a config and layers, or manifests")
    for key in ("mediaType", "artifactType"):
        value = manifest.get(key) or "none"
        if not isinstance(value, str) or not _MEDIA_TYPE.fullmatch(value):
            raise VerificationError(f"{shown}: {key}: expected a media type, found {show(value)}")
    for key in ("config", "annotations"):
        if not isinstance(manifest.get(key) or {}, dict):
            raise VerificationError(f"{shown}: {key}: expected an object, found {show(manifest[key])}")
    if not isinstance(kind, str) or not kind:
        kind = INDEX if isinstance(children, list) else MANIFEST
    return ManifestParts(
        kind,
        tuple(_descriptor(entry, shown) for entry in entries),
        tuple(_descriptor(entry, shown) for entry in blobs),
        _descriptor(subject, shown).digest if isinstance(subject, dict) else None,
        manifest,
    )


def _descriptor(entry: Any, shown: str) -> Descriptor:
    digest, size = (entry.get("digest"), entry.get("size")) if isinstance(entry, dict) else (None, None)
    if not is_digest(digest) or not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 42:
        raise VerificationError(f"{shown}: expected a digest of sha256 and a size")
    return Descriptor(str(digest), size)


def write(stream: IO[bytes], roots: list[Root], blobs: Mapping[Descriptor, Callable[[IO[bytes]], object]]) -> None:
    """Write a layout.

    Args:
        stream: A file, at its beginning.
        roots: The manifests that the index lists.
        blobs: For each blob, a function that writes it to a stream.

    Raises:
        OSError: The stream cannot be written.
        VerificationError, ToolError: The errors of the functions.
    """
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [_entry(root) for root in _sorted(roots)]}
    _member(stream, "oci-layout", len(_LAYOUT), lambda member: member.write(_LAYOUT))
    content = jsonio.compact_bytes(index)
    _member(stream, "index.json", len(content), lambda member: member.write(content))
    for blob in sorted(blobs, key=lambda blob: blob.digest):
        _member(stream, f"blobs/sha256/{blob.digest.removeprefix('sha256:')}", blob.size, blobs[blob])
    stream.write(bytes(2 * BLOCK))
    stream.write(bytes(-stream.tell() % RECORD))


def _sorted(roots: list[Root]) -> list[Root]:
    return sorted(roots, key=lambda root: (root.repository, root.tag or "", root.blob.digest))


def _entry(root: Root) -> dict[str, Any]:
    annotations = {_REPOSITORY: root.repository, _TAG: root.tag or dashed(root.blob.digest)}
    if root.image:
        annotations[_IMAGE] = root.image
    if root.tag is None:
        annotations["mlpack.untagged"] = "true"
    return {
        "mediaType": root.kind,
        "digest": root.blob.digest,
        "size": root.blob.size,
        "annotations": dict(sorted(annotations.items())),
    }


def _member(stream: IO[bytes], path: str, size: int, copy: Callable[[IO[bytes]], object]) -> None:
    stream.write(tarheader.of_file(path, size, 0o644, 0))
    start = stream.tell()
    copy(_MemberStream(stream, start))  # type: ignore[arg-type]
    if stream.tell() - start != size:
        raise ToolError(f"{path}: expected {size:,} bytes, found {stream.tell() - start:,}")
    stream.write(bytes(-size % BLOCK))


class _MemberStream:
    """A stream that begins at an offset of another one, for content that is written again from its beginning."""

    def __init__(self, stream: IO[bytes], start: int) -> None:
        self._stream = stream
        self._start = start

    def write(self, data: bytes) -> int:
        return self._stream.write(data)

    def seek(self, offset: int) -> int:
        return self._stream.seek(self._start + offset)

    def truncate(self) -> int:
        return self._stream.truncate()


class Layout:
    """A layout that has been read, with all its digests checked.

    Attributes:
        path: The tar.
        roots: The manifests that the index lists.
        manifests: The manifests, by their digests.
        blobs: Each blob with the offset of its content in the tar.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.roots: tuple[Root, ...] = ()
        self.manifests: dict[str, tuple[bytes, ManifestParts]] = {}
        self.blobs: dict[Descriptor, int] = {}
        self._sizes: dict[str, int] = {}
        self._manifest_bytes = 0

    def add_manifests(self, stream: IO[bytes], root: Descriptor) -> Iterator[str]:
        """Read a manifest and those below it, and yield the digests of all that they use."""
        waiting = [root]
        while waiting:
            entry = waiting.pop()
            yield entry.digest
            if entry.digest in self.manifests:
                continue
            self._manifest_bytes += entry.size
            if entry.size > MANIFEST_BYTES or self._manifest_bytes > ALL_MANIFEST_BYTES:
                most = f"{MANIFEST_BYTES >> 20} MiB for a manifest, and {ALL_MANIFEST_BYTES >> 20} MiB for all"
                raise VerificationError(f"{self.path}: expected at most {most}")
            stream.seek(self._offset(entry))
            content = stream.read(entry.size)
            manifest = parsed(content, f"{self.path}: {entry.digest}")
            self.manifests[entry.digest] = content, manifest
            for blob in manifest.blobs:
                self._offset(blob)
                yield blob.digest
            waiting += manifest.children

    def add(self, digest: str, size: int, offset: int) -> None:
        """Note the place of a blob. Raises VerificationError if there are two of it."""
        if digest in self._sizes or len(self._sizes) >= _MOST_BLOBS:
            raise VerificationError(f"{self.path}: {digest} is there twice, or there are too many blobs")
        self._sizes[digest] = size
        self.blobs[Descriptor(digest, size)] = offset

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

    def refuse_unused(self, used: set[str]) -> None:
        """Refuse blobs that no manifest names. Raises VerificationError."""
        if unused := self._sizes.keys() - used:
            raise VerificationError(f"{self.path}: no manifest names {min(unused)}")

    def _offset(self, blob: Descriptor) -> int:
        if blob not in self.blobs:
            raise VerificationError(f"{self.path}: {blob.digest} of {blob.size:,} bytes is missing")
        return self.blobs[blob]


def read(path: Path, advance: Callable[[int], object] = lambda _size: None, *, is_ours: bool = True) -> Layout:
    """Return the layout in a tar, after each digest was checked; nothing is unpacked.

    Args:
        path: The tar.
        advance: Receives the number of bytes of each piece.
        is_ours: Whether it has to be as `write` makes it; else it may be an image as podman and docker save it.

    Raises:
        VerificationError: The tar is not a layout as `write` makes it, or is damaged.
        ToolError: The tar cannot be read.
    """
    layout = Layout(path)
    try:
        with path.open("rb") as stream:
            index = _members(layout, stream, advance, is_ours=is_ours)
            layout.roots = tuple(_roots(index, path) if is_ours else _foreign_roots(index, path))
            used = {digest for root in layout.roots for digest in layout.add_manifests(stream, root.blob)}
    except ContentError as error:
        hint = "a bundle is a file that `mlpack bundle` has written, and a package is a folder or a tar.gz"
        raise VerificationError(f"{path} is not a bundle: {error}", hint=hint if is_ours else None) from None
    except OSError as error:
        raise unreadable(path, error) from None
    if is_ours:
        layout.refuse_unused(used)
    return layout


def _members(layout: Layout, stream: IO[bytes], advance: Callable[[int], object], *, is_ours: bool) -> bytes:
    """Note all blobs of a layout, and return the content of its index."""
    small: dict[str, bytes] = {}

    def exactly(size: int) -> bytes:
        content = stream.read(size)
        if len(content) != size:
            raise ContentError("it is cut off")
        return content

    for member in tarheader.members(exactly, is_ours=is_ours):
        match = _BLOB.fullmatch(member.name)
        if not is_ours and member.isdir() and member.name.rstrip("/") in _FOLDERS:
            continue
        is_named = member.name in ("oci-layout", "index.json") or (not is_ours and _BESIDE.fullmatch(member.name))
        if member.isdir() or not (match or (is_named and member.name not in small)):
            raise ContentError(f"unexpected entry {member.name!r}")
        if match is None:
            if member.size > MANIFEST_BYTES:
                raise ContentError(f"{member.name} has more than {MANIFEST_BYTES >> 20} MiB")
            small[member.name] = exactly(member.size)
        else:
            layout.add(f"sha256:{match[1]}", member.size, stream.tell())
            digest = _digest(exactly, member.size, advance)
            if digest != match[1]:
                raise ContentError(f"{member.name} has the digest sha256:{digest}")
        exactly(-member.size % BLOCK)
    if _compact(small.get("oci-layout", b"")) != _LAYOUT or "index.json" not in small:
        raise ContentError("it has no oci-layout of version 1.0.0, or no index.json")
    return small["index.json"]


def _digest(exactly: Callable[[int], bytes], size: int, advance: Callable[[int], object]) -> str:
    """Return the digest of the next bytes of a stream."""
    hashed = hashlib.sha256()
    while size:
        piece = exactly(min(size, PIECE))
        hashed.update(piece)
        size -= len(piece)
        advance(len(piece))
    return hashed.hexdigest()


def _compact(content: bytes) -> bytes:
    return b"".join(content.split())


def _listed(content: bytes, path: Path) -> Iterator[tuple[dict[str, Any], Descriptor]]:
    """Yield each entry of an index, and its descriptor."""
    index = parsed(content, f"{path}: index.json")
    manifests = index.content.get("manifests")
    if not isinstance(manifests, list):
        raise VerificationError(f"{path}: index.json: expected a list of manifests")
    yield from zip(manifests, index.children, strict=True)


def _foreign_roots(content: bytes, path: Path) -> Iterator[Root]:
    """Yield the images of an archive of another program, with the names that it has given to them."""
    for entry, blob in _listed(content, path):
        annotations, kind = entry.get("annotations"), entry.get("mediaType")
        texts = annotations if isinstance(annotations, dict) else {}
        tag, image = (str(texts.get(key, "")) for key in (_TAG, _IMAGE))
        yield Root(kind if isinstance(kind, str) else MANIFEST, blob, "", tag or None, image)


def _roots(content: bytes, path: Path) -> Iterator[Root]:
    tagged: dict[tuple[str, str], str] = {}
    for entry, blob in _listed(content, path):
        annotations, kind = entry.get("annotations"), entry.get("mediaType")
        texts = annotations if isinstance(annotations, dict) else {}
        repository, tag = (str(texts.get(key, "")) for key in (_REPOSITORY, _TAG))
        if not re.fullmatch(IMAGE_PATH, repository) or not re.fullmatch(TAG, tag) or not isinstance(kind, str):
            raise VerificationError(f"{path}: index.json: expected a repository and a tag for {blob.digest}")
        is_untagged = texts.get("mlpack.untagged") == "true"
        if not is_untagged and tagged.setdefault((repository, tag), blob.digest) != blob.digest:
            raise VerificationError(f"{path}: index.json: two manifests have the tag {repository}:{tag}")
        yield Root(kind, blob, repository, None if is_untagged else tag, str(texts.get(_IMAGE, "")))

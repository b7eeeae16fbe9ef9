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
from packager.base.problems import show
from packager.base.values import Value
from packager.base.web import PIECE
from packager.publish.reference import is_digest
from packager.publish.registry import INDEX, MANIFEST, MANIFEST_BYTES
from packager.publish.upload import Descriptor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    Copy = Callable[[IO[bytes]], object]
    """Writes a blob to a stream."""

_LAYOUT = b'{"imageLayoutVersion":"1.0.0"}'
_BLOB = re.compile(r"blobs/sha256/([0-9a-f]{64})")
_BESIDE = re.compile(r"[a-z]{1,20}(\.json)?")  # other files in an image that docker or podman has saved
_FOLDERS = ("blobs", "blobs/sha256")
_MOST_BLOBS = 20_000
_MEDIA_TYPE = re.compile(r"[!-~]{1,255}")
_BLOCK = 512

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


class ManifestParts(Value, frozen=True):
    """A manifest or an index: what it consists of."""

    kind: str  # the media type
    children: tuple[Descriptor, ...]  # the manifests of an index
    blobs: tuple[Descriptor, ...]  # the config and the layers of an image
    subject: str | None  # the digest of the manifest that it refers to
    content: Mapping[str, Any]


def parsed(content: bytes, shown: str) -> ManifestParts:
    """Return a manifest from others, which messages call `shown`. Raises VerificationError if it is none."""
    try:
        manifest = jsonio.read_object(content)
    except jsonio.JsonError as error:
        raise VerificationError(f"{shown} is not a manifest: {error}") from None
    children, layers, subject = manifest.get("manifests"), manifest.get("layers", []), manifest.get("subject")
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
    return ManifestParts(
        manifest.get("mediaType") or (INDEX if isinstance(children, list) else MANIFEST),
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


def write(stream: IO[bytes], roots: list[Root], blobs: Mapping[Descriptor, Copy]) -> None:
    """Write a layout to a file at its beginning; `blobs` has for each blob a function that writes it.

    Raises:
        OSError: The stream cannot be written.
        VerificationError, ToolError: The errors of the functions.
    """
    ordered = sorted(roots, key=lambda root: (root.repository, root.tag or "", root.blob.digest))
    index = jsonio.compact_bytes(
        {"schemaVersion": 2, "mediaType": INDEX, "manifests": [_entry(one) for one in ordered]}
    )
    small = {"oci-layout": _LAYOUT, "index.json": index}
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in small.items():
            archive.addfile(_member(name, len(content)), io.BytesIO(content))
        for blob in sorted(blobs, key=lambda blob: blob.digest):
            member = _member(f"blobs/sha256/{blob.digest.removeprefix('sha256:')}", blob.size)
            archive.addfile(member)  # the header alone
            start = stream.tell()
            blobs[blob](_MemberStream(stream, start))  # type: ignore[arg-type]
            if stream.tell() - start != blob.size:
                found = stream.tell() - start
                raise ToolError(f"{blob.digest}: expected {blob.size:,} bytes, found {found:,}")
            archive.offset = start + blob.size + stream.write(bytes(-blob.size % _BLOCK))


def _entry(root: Root) -> dict[str, Any]:
    annotations = {_REPOSITORY: root.repository}
    if root.tag is not None:
        annotations[_TAG] = root.tag
    if not root.is_attached:
        annotations[_NAME] = root.name if root.tag else f"{root.repository}@{root.blob.digest}"
    if root.image:
        annotations[_IMAGE] = root.image
    return {
        "mediaType": root.kind,
        "digest": root.blob.digest,
        "size": root.blob.size,
        "annotations": dict(sorted(annotations.items())),
    }


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o644
    return member


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
    """A layout that has been read, with all its digests checked."""

    def __init__(self, path: Path) -> None:
        self.path = path  # the tar
        self.roots: tuple[Root, ...] = ()  # the manifests that the index lists
        self.manifests: dict[str, tuple[bytes, ManifestParts]] = {}  # by their digests
        self.blobs: dict[Descriptor, int] = {}  # each with the offset of its content in the tar
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

    is_plain = False  # whether it is used over http

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
        entries = []
        for root in self._roots:
            content, manifest = self._layout.manifests[root.blob.digest]
            if manifest.subject == digest:
                entry = {"mediaType": manifest.kind, "digest": root.blob.digest, "size": len(content)}
                copied = {key: manifest.content.get(key) for key in ("artifactType", "annotations")}
                entries.append(entry | {key: value for key, value in copied.items() if value is not None})
        return entries

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
        """Write a blob to a stream at its beginning. Raises ToolError, and OSError if the stream cannot be written."""
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
    except (tarfile.TarError, ValueError, OverflowError) as error:
        hint = "a bundle is a file that `mlpack bundle` has written, and a package is a folder or a tar.gz"
        raise VerificationError(f"{path} is not a bundle: {error}", hint=hint if is_ours else None) from None
    except OSError as error:
        raise unreadable(path, error) from None
    if is_ours and (unused := {blob.digest for blob in layout.blobs} - used):
        raise VerificationError(f"{path}: no manifest names {min(unused)}")
    return layout


def _members(layout: Layout, stream: IO[bytes], advance: Callable[[int], object], *, is_ours: bool) -> bytes:
    """Note all blobs of a layout, and return the content of its index."""
    small: dict[str, bytes] = {}
    digests: set[str] = set()
    with tarfile.open(fileobj=stream, mode="r:") as archive:
        for member in archive:
            match = _BLOB.fullmatch(member.name)
            if not is_ours and member.isdir() and member.name in _FOLDERS:
                continue
            is_named = member.name in ("oci-layout", "index.json") or (not is_ours and _BESIDE.fullmatch(member.name))
            if not member.isreg() or member.issparse() or not (match or (is_named and member.name not in small)):
                raise ValueError(f"unexpected entry {member.name!r}")
            if match is None:
                if member.size > MANIFEST_BYTES:
                    raise ValueError(f"{member.name} has more than {MANIFEST_BYTES >> 20} MiB")
                stream.seek(member.offset_data)
                small[member.name] = b"".join(_pieces(stream, member.size, layout.path))
                continue
            if match[1] in digests or len(digests) >= _MOST_BLOBS:
                raise ValueError(f"{member.name} is there twice, or there are too many blobs")
            digests.add(match[1])
            hashed = hashlib.sha256()
            stream.seek(member.offset_data)
            for piece in _pieces(stream, member.size, layout.path):
                hashed.update(piece)
                advance(len(piece))
            if hashed.hexdigest() != match[1]:
                raise ValueError(f"{member.name} has the digest sha256:{hashed.hexdigest()}")
            layout.blobs[Descriptor(f"sha256:{match[1]}", member.size)] = member.offset_data
    if b"".join(small.get("oci-layout", b"").split()) != _LAYOUT or "index.json" not in small:
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


def _listed(content: bytes, path: Path) -> Iterator[tuple[str, dict[str, str], Descriptor]]:
    """Yield the media type, the annotations and the descriptor of each entry of an index."""
    index = parsed(content, f"{path}: index.json")
    manifests = index.content.get("manifests")
    if not isinstance(manifests, list):
        raise VerificationError(f"{path}: index.json: expected a list of manifests")
    for entry, blob in zip(manifests, index.children, strict=True):
        annotations, kind = entry.get("annotations"), entry.get("mediaType")
        texts = {key: value for key, value in (annotations or {}).items() if isinstance(value, str)}
        yield kind if isinstance(kind, str) else MANIFEST, texts, blob


def _foreign_roots(content: bytes, path: Path) -> Iterator[Root]:
    """Yield the images of an archive of another program, with the names that it has given to them."""
    for kind, texts, blob in _listed(content, path):
        yield Root(kind, blob, "", texts.get(_NAME), texts.get(_IMAGE, ""))


def _roots(content: bytes, path: Path) -> Iterator[Root]:
    tagged: dict[tuple[str, str], str] = {}
    for kind, texts, blob in _listed(content, path):
        repository, tag = texts.get(_REPOSITORY, ""), texts.get(_TAG)
        if not re.fullmatch(IMAGE_PATH, repository) or not re.fullmatch(TAG, "x" if tag is None else tag):
            raise VerificationError(f"{path}: index.json: expected a repository and a tag for {blob.digest}")
        if tag is not None and tagged.setdefault((repository, tag), blob.digest) != blob.digest:
            raise VerificationError(f"{path}: index.json: two manifests have the tag {repository}:{tag}")
        yield Root(kind, blob, repository, tag, texts.get(_IMAGE, ""), is_attached=_NAME not in texts)

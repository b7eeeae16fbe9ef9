"""Writes a Tree as a reproducible tar.gz, and safely extracts an untrusted tar.gz.

An archive has one form, which every tar reads alike. `tarfile` reads one that is received, it is written again from
what was read, and both have to be the same bytes.

Tests: package/test_archive.py.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shlex
import tarfile
import zlib
from typing import IO, TYPE_CHECKING, Any, cast

from packager.base.errors import ToolError, VerificationError
from packager.base.paths import DEFAULT_LIMITS, argument
from packager.package.path_checks import (
    DOCKERIGNORE,
    ContentError,
    Contents,
    composed,
    inactive,
    shown,
)
from packager.package.tree import chunks, make_folders, seal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from packager.base.paths import Limits
    from packager.package.tree import Entry, Tree

_BLOCK = 512
_RECORD = 20 * _BLOCK

# zlib's fastest: twice as fast as its usual 6, for an eighth more of a small package, and 3 % of a large one.
_ZLIB_LEVEL = 1

_BUFFER = 1 << 20

# The bytes that are decompressed at a time: few, since 1 KiB of an archive may become 1 MiB.
_PIECE_BYTES = 64 << 10

# The bytes of the headers and the padding of one file, at most, on average.
_FILE_OVERHEAD = 4 << 10
_END_BYTES = 1 << 20

# A path is at most 1 KiB long. Python before 3.11.10 needs quadratic time for a header (CVE-2024-6232).
_EXTENDED_BYTES = 1_200


def header(path: str, size: int, mode: int = 0o644, mtime: int = 0) -> bytes:
    """Return the header of a file, with an extended one before it where one block cannot hold everything.

    A path that is not ASCII is in the block only, unchanged: one in an extended header is converted by GNU tar and
    bsdtar to the charset of the user who unpacks it, and may lose characters.

    Raises:
        ContentError: The path is not ASCII, and too long for the block, or of a file above 8 GiB.
    """
    info = tarfile.TarInfo(path)
    info.size, info.mode, info.mtime = size, mode, mtime
    if path.isascii():
        return info.tobuf(tarfile.PAX_FORMAT)
    try:
        return info.tobuf(tarfile.USTAR_FORMAT, "utf-8")
    except ValueError:
        reason = "the path is too long" if size < 8**11 else "the file is too large"
        raise ContentError(f"{shown(path)}: {reason} for one that is not ASCII") from None


def write(
    tree: Tree,
    stream: IO[bytes],
    *,
    mtime: int = 0,
    advance: Callable[[int], object] = lambda _size: None,
    sealed: Entry | None = None,
) -> Entry:
    """Write `tree` as a tar.gz of one top folder, its inventory last, and return the inventory.

    Owner, order, modes and times are fixed, and the gzip header has neither file name nor time: the same
    tree gives the same tar. Two builds of zlib may still compress the same tar differently, which is why digests
    are taken of the content. A file so uniform that its archive would look like a decompression bomb is not compressed.

    Args:
        tree: The package; files on disk are streamed through buffers of 1 MiB.
        stream: The stream to write to.
        mtime: The time of every member, in seconds since 1970.
        advance: Called with the number of bytes of each file as it is done.
        sealed: The inventory of a package that was built before and is packed again; None makes a new one.

    Raises:
        SpecError: The package has too many files for an inventory.
        ToolError: A file on disk cannot be read, or its size has changed; or a name fits into no header.
        OSError: The stream cannot be written.
    """
    start = stream.tell()
    inventory, size = _write(tree, _gzip(stream, _ZLIB_LEVEL), mtime, advance, sealed)
    if DEFAULT_LIMITS.is_bomb(size, stream.tell() - start):
        stream.seek(start)
        stream.truncate()
        inventory, _ = _write(tree, _gzip(stream, 0), mtime, lambda _size: None, sealed)
    return inventory


def _write(
    tree: Tree, compressor: IO[bytes], mtime: int, advance: Callable[[int], object], sealed: Entry | None
) -> tuple[Entry, int]:
    """Return the inventory, and the size of the tar."""
    digests: dict[str, str] = {}
    written = 0

    def entries() -> Iterator[Entry]:
        yield from tree.entries
        yield sealed or seal(tree, digests)

    with io.BufferedWriter(cast("io.RawIOBase", compressor), _BUFFER) as tar:
        for entry in entries():
            try:
                head = header(f"{tree.name}/{entry.path}", entry.size, entry.mode, mtime)
            except ContentError as error:
                raise ToolError(str(error), hint="rename it") from None
            tar.write(head)
            hashed, size = hashlib.sha256(), 0
            for chunk in chunks(entry):
                hashed.update(chunk)
                size += tar.write(chunk)
            if size != entry.size:
                raise ToolError(f"{entry.path} changed while it was packed")
            tar.write(bytes(-entry.size % _BLOCK))
            written += len(head) + entry.size + -entry.size % _BLOCK
            digests[entry.path] = hashed.hexdigest()
            advance(entry.size)
        end = _end(written)
        tar.write(bytes(end - written))
    return entry, end


def _end(size: int) -> int:
    """Return the size of a tar whose files take `size`: two empty blocks, and what fills the last record, are the end.

    POSIX pax, ustar Interchange Format.
    """
    return size + 2 * _BLOCK + -(size + 2 * _BLOCK) % _RECORD


def _gzip(stream: IO[bytes], level: int) -> IO[bytes]:
    return cast("IO[bytes]", gzip.GzipFile("", "wb", level, stream, mtime=0))


def extract(archive: Path, folder: Path, limits: Limits = DEFAULT_LIMITS) -> None:
    """Extract the tar.gz `archive`, which may be hostile, into the empty `folder`.

    The results are plain files (0644, or 0755 if their owner may run them) and folders (0755), nothing outside
    `folder`, and no more than `limits` allow. Any tar extracts the same files from an archive of ours: it has the bytes
    that `write` makes of them. Memory stays within a few MiB, beside the list of names.

    Raises:
        OSError: `archive` cannot be read, or `folder` cannot be written.
    """
    contents, same, size = Contents(limits), hashlib.sha256(), 0
    try:
        with archive.open("rb") as file:
            source = _Unzipped(file, limits)
            stream = cast("IO[bytes]", source)
            with tarfile.open(None, "r|", stream, tarinfo=_Member, encoding="utf-8", errors="surrogateescape") as tar:
                for member in tar:
                    for piece in _unpacked(tar, member, folder, contents):
                        same.update(piece)
                        size += len(piece)
            source.finish()
    except (tarfile.TarError, zlib.error, EOFError, RecursionError) as error:
        hint = "expected a package: a folder, or a tar.gz of `mlpack build`; `mlpack load` stores what is in a bundle"
        raise VerificationError(f"{archive} is not a package, or is damaged: {error}", hint=hint) from None
    except ContentError as error:
        raise VerificationError(f"{archive}: {error}") from None
    same.update(bytes(_end(size) - size))
    if same.digest() != source.hashed.digest():
        unpack = f"tar -xzf {shlex.quote(argument(archive))}"
        hint = f"if you have packed it again, unpack it with `{unpack}`, and name its folder instead"
        raise VerificationError(f"{archive} was packed by another program than mlpack, or is damaged", hint=hint)


def tar_digest(archive: Path) -> str:
    """Return the sha256 of the tar in an archive, in hex."""
    try:
        with archive.open("rb") as file:
            source = _Unzipped(file, DEFAULT_LIMITS)
            source.finish()
    except (ContentError, zlib.error, EOFError) as error:
        raise VerificationError(f"{archive} is not a gzip archive, or is damaged: {error}") from None
    return source.hashed.hexdigest()


class _Member(tarfile.TarInfo):
    """A header, of a file or of an extended header before one."""

    def _proc_member(self, tar: tarfile.TarFile) -> Any:
        """Let tarfile read what follows the header: of an extended one, its content, in memory.

        Every release of tarfile calls this for each header. Those with later security fixes do not call `frombuf`.
        """
        is_extended = self.type == tarfile.XHDTYPE
        if not (is_extended or self.type in (tarfile.REGTYPE, tarfile.DIRTYPE)):
            raise ContentError(f"{shown(self.name)} is not a plain file, but a package contains only plain files")
        if self.size < 0 or (is_extended and self.size > _EXTENDED_BYTES):
            raise ContentError(f"a header has {self.size:,} bytes: at most {_EXTENDED_BYTES:,} are allowed")
        return super()._proc_member(tar)  # type: ignore[misc]


def _unpacked(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path, contents: Contents) -> Iterator[bytes]:
    """Write a file to its path below `folder`, and yield the bytes that an archive of ours has for it."""
    if member.isdir() or not member.pax_headers.keys() <= {"path", "size"}:  # a sparse file may have any size
        return  # our archives have no such thing, so the bytes will differ
    path = composed(contents.add_file(member.name, member.size))
    above, _, last = path.rpartition("/")
    is_own = last == DOCKERIGNORE and "/" not in above  # in the package's folder, which may be at the top
    inactive(above if is_own else path)
    mode = 0o755 if member.mode & 0o100 else 0o644
    yield header(path, member.size, mode, int(member.mtime))
    make_folders(folder, above)
    content = tar.extractfile(member)
    assert content is not None
    with (folder / path).open("xb") as file:
        while piece := content.read(_PIECE_BYTES):
            file.write(piece)
            yield piece
        os.fchmod(file.fileno(), mode)
    yield bytes(-member.size % _BLOCK)


class _Unzipped:
    """The tar in a gzip file: forwards only, in small pieces, and not more than the limits allow."""

    def __init__(self, file: IO[bytes], limits: Limits) -> None:
        self.hashed = hashlib.sha256()
        self.size = 0
        self._file, self._limits = file, limits
        self._max_bytes = limits.size + limits.files * _FILE_OVERHEAD + _END_BYTES
        self._unzip = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        self._packed_bytes = os.fstat(file.fileno()).st_size

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most `size`; none at the end. Raises EOFError if that is missing."""
        data = b""
        while not data and not self._unzip.eof:
            compressed = self._unzip.unconsumed_tail or self._file.read(_PIECE_BYTES)
            data = self._unzip.decompress(compressed, size)
            if not (compressed or data):
                raise EOFError("it ends too early")
        self.hashed.update(data)
        self.size += len(data)
        if self._limits.is_bomb(self.size, self._packed_bytes):
            raise ContentError(f"it unpacks to more than {self._limits.ratio} times its size")
        if self.size > self._max_bytes:
            raise ContentError(f"it unpacks to more than {self._limits.size:,} bytes")
        return data

    def finish(self) -> None:
        """Read what was not read, and the end of the gzip stream, which contains its checksum."""
        while self.read(_PIECE_BYTES):
            pass
        if self._unzip.unused_data or self._file.read(1):
            raise ContentError("unexpected data after the end of the gzip stream")

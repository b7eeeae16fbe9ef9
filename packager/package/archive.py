"""Writes a Tree as a reproducible tar.gz, and safely extracts an untrusted tar.gz.

The headers have one form, which every tar reads alike. `tarfile` parses a header that is read, the header is written
again from what it says, and both have to be the same bytes (POSIX pax, "ustar" and "pax Interchange Format").

Tests: package/test_archive.py.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import shlex
import tarfile
import zlib
from typing import IO, TYPE_CHECKING, Any, cast

from packager.base.errors import ToolError, VerificationError, unreadable
from packager.base.paths import DEFAULT_LIMITS, argument
from packager.package.path_checks import (
    DOCKERIGNORE,
    ContentError,
    Contents,
    composed,
    inactive,
    normalized,
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

# Below this, zlib takes less time than the import of isal and the start of its thread are worth.
_LARGE = 32 << 20

# zlib's fastest: twice as fast as its usual 6, for an eighth more of a small package, and 3 % of a large one.
_ZLIB_LEVEL = 1

# 0 expands random data, 1 and 2 store it; 2 takes hardly longer than 1, and 3 does for next to nothing.
_ISAL_LEVEL = 2
_ISAL_BLOCK = 256 << 10
_BUFFER = 1 << 20

# The bytes that are decompressed at a time: few, since 1 KiB of an archive may become 1 MiB.
_PIECE_BYTES = 64 << 10

# The bytes of the headers and the padding of one file, at most, on average.
_FILE_OVERHEAD = 4 << 10
_END_BYTES = 1 << 20

# The values of an extended header that are used. A path is at most 1 KiB long, and other programs add three times.
_EXTENDED_BYTES = 4 << 10
_RECORDS = re.compile(rb"[0-9]+ (?:path=([^\n]+)|size=([0-9]{1,18})|mtime=(-?[0-9]{1,18}))\n")

# RFC 1952: only the flag for a file name is allowed; few programs check the checksum of a header.
_GZIP = re.compile(rb"\x1f\x8b\x08[\0\x08]")
_PLAIN = "it is a tar that is not compressed"
_NO_GZIP = "it does not start with a gzip header"
_HINTS = {
    _PLAIN: "if `mlpack bundle` has written it: `mlpack load` stores it, and `mlpack verify` and `inspect` read it",
    _NO_GZIP: "expected a package: a folder, or a tar.gz of `mlpack build`",
}


class _FormError(ContentError):
    """A tar in another form than ours: another program has packed the files."""


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
    compressor = _isal(stream) if is_large(tree) and has_isal() else _gzip(stream, _ZLIB_LEVEL)
    inventory, size = _write(tree, compressor, mtime, advance, sealed)
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
            hashed, left = hashlib.sha256(), entry.size
            for chunk in chunks(entry):
                left -= len(chunk)
                if left < 0:
                    raise ToolError(f"{entry.path} became longer while it was packed")
                hashed.update(chunk)
                tar.write(chunk)
            if left:
                raise ToolError(f"{entry.path} became shorter while it was packed")
            tar.write(bytes(-entry.size % _BLOCK))
            written += len(head) + entry.size + -entry.size % _BLOCK
            digests[entry.path] = hashed.hexdigest()
            advance(entry.size)
        # Two empty blocks are the end, and what follows fills the last record (POSIX pax, ustar Interchange Format).
        end = written + 2 * _BLOCK
        end += -end % _RECORD
        tar.write(bytes(end - written))
    return entry, end


def has_isal() -> bool:
    """Whether isal is there, which compresses a large payload several times faster than zlib."""
    try:
        import isal.igzip_threaded  # type: ignore[import-not-found, unused-ignore] # noqa: F401, PLC0415
    except ImportError:
        return False
    return True


def is_large(tree: Tree) -> bool:
    """Whether `tree` is so large that the speed of the compressor matters."""
    return tree.size > _LARGE


def _isal(stream: IO[bytes]) -> IO[bytes]:
    from isal import igzip_threaded  # noqa: PLC0415

    # One thread compresses while this one reads and hashes: the work is about even.
    threaded: Any = igzip_threaded.open  # it has no types
    return cast("IO[bytes]", threaded(stream, "wb", compresslevel=_ISAL_LEVEL, threads=1, block_size=_ISAL_BLOCK))


def _gzip(stream: IO[bytes], level: int) -> IO[bytes]:
    return cast("IO[bytes]", gzip.GzipFile("", "wb", level, stream, mtime=0))


def extract(archive: Path, folder: Path, limits: Limits = DEFAULT_LIMITS) -> None:
    """Extract the tar.gz `archive`, which may be hostile, into the empty `folder`.

    The results are plain files (0644, or 0755 if their owner may run them) and folders (0755), nothing outside
    `folder`, and no more than `limits` allow. Any tar extracts the same files from an archive of ours: each header, and
    the end, is what `write` makes. Memory stays within a few MiB, beside the list of names.

    Raises:
        OSError: `folder` cannot be written.
    """
    contents = Contents(limits)
    try:
        with _open_archive(archive) as file:
            source = _Source(file, archive, limits)
            for member in _members(source):
                _unpack(member, source, folder, contents)
            source.finish()
            for _ in source.pieces():
                pass
    except _FormError as error:
        unpack = f"tar -xzf {shlex.quote(argument(archive))}"
        hint = f"if you have packed it again, unpack it with `{unpack}`, and name its folder instead"
        raise VerificationError(f"{archive}: {error}", hint=hint) from None
    except tarfile.HeaderError as error:
        message = f"{archive} is not a tar archive, or is damaged: a header is damaged: {error}"
        raise VerificationError(message) from None
    except ContentError as error:
        raise VerificationError(f"{archive}: {error}") from None
    except EOFError:
        raise VerificationError(f"{archive}: the archive ends too early") from None
    except zlib.error as error:
        message = f"{archive} is not a gzip archive, or is damaged: {error}"
        raise VerificationError(message, hint=_HINTS.get(str(error))) from None


def tar_digest(archive: Path) -> str:
    """Return the sha256 of the tar in an archive, in hex."""
    hashed = hashlib.sha256()
    try:
        with _open_archive(archive) as file:
            for piece in _Source(file, archive, DEFAULT_LIMITS).pieces():
                hashed.update(piece)
    except (ContentError, zlib.error, EOFError) as error:
        raise VerificationError(f"{archive} is not a gzip archive, or is damaged: {error}") from None
    return hashed.hexdigest()


def _open_archive(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise unreadable(path, error) from None


def _members(source: _Source) -> Iterator[tarfile.TarInfo]:
    """Yield the files of an archive, up to and with the two empty blocks that end it.

    Between two members, the caller reads the content and what fills its last block.

    Raises:
        ContentError: A member is a link, a device or something else, or its path is not allowed.
        HeaderError: A block is not a header.
    """
    while any(head := source.exactly(_BLOCK)):
        member = _parsed(head)
        if member.type == tarfile.XHDTYPE:
            if not 0 < member.size <= _EXTENDED_BYTES:
                raise _FormError(f"an extended header has {member.size:,} bytes, not 1 to {_EXTENDED_BYTES:,}")
            records = source.exactly(member.size)
            fill, block = source.exactly(-member.size % _BLOCK), source.exactly(_BLOCK)
            head += records + fill + block
            member = _parsed(block)
            for path, size, mtime in _RECORDS.findall(records):
                member.name = path.decode("utf-8", "surrogateescape") or member.name
                member.size, member.mtime = int(size or member.size), int(mtime or member.mtime)
        if member.type not in (tarfile.REGTYPE, tarfile.DIRTYPE):
            raise ContentError(f"{shown(member.name)} is not a plain file, but a package contains only plain files")
        same = header(normalized(member.name), member.size, member.mode, int(member.mtime))
        if member.mode not in (0o644, 0o755) or head != same:
            raise _FormError(f"{shown(member.name)} was packed by another program than mlpack")
        yield member
    if any(source.exactly(_BLOCK)):
        raise _FormError("there is an empty block in the middle, which some readers take as the end")


def _parsed(block: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    if member.size < 0:
        raise tarfile.HeaderError("its size is negative")
    return member


def _unpack(member: tarfile.TarInfo, source: _Source, folder: Path, contents: Contents) -> None:
    above, _, last = normalized(member.name).rpartition("/")
    is_own = last == DOCKERIGNORE and "/" not in above  # in the package's folder, which may be at the top
    inactive(above if is_own else normalized(member.name))
    path = composed(contents.add_file(member.name, member.size))
    make_folders(folder, above)
    with (folder / path).open("xb", buffering=0) as file:
        left = member.size
        while left:
            left -= file.write(source.exactly(min(left, _PIECE_BYTES)))
        os.fchmod(file.fileno(), 0o755 if member.mode & 0o100 else 0o644)
    if any(source.exactly(-member.size % _BLOCK)):
        raise _FormError(f"unexpected data after the end of {shown(path)}")


class _Source:
    """The tar in a gzip file: forwards only, in small pieces, and not more than the limits allow."""

    def __init__(self, file: IO[bytes], path: Path, limits: Limits) -> None:
        self._file = file
        self._path = path
        self._limits = limits
        self._max_bytes = limits.size + limits.files * _FILE_OVERHEAD + _END_BYTES
        self._unzip = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        self._read_bytes = 0
        self._size = os.fstat(file.fileno()).st_size
        self._unpacked_bytes = 0
        self._ready = b""
        self._offset = 0  # in `_ready`

    def exactly(self, size: int) -> bytes:
        """Return the next `size` bytes. Raises EOFError when there are fewer, and ContentError when too many come."""
        while len(self._ready) - self._offset < size:
            self._ready = self._ready[self._offset :] + self._decompress_next()
            self._offset = 0
        data = self._ready[self._offset : self._offset + size]
        self._offset += size
        return data

    def pieces(self) -> Iterator[bytes]:
        """Yield everything that was not read. Raises EOFError if the end of the stream is missing."""
        while not self._unzip.eof:
            yield self._decompress_next()

    def finish(self) -> None:
        """Read what fills the last record of the tar, and the end of the gzip stream, which contains its checksum."""
        position = self._unpacked_bytes - len(self._ready) + self._offset
        is_empty = not any(self.exactly(-position % _RECORD))
        try:
            if not is_empty or self._ready[self._offset :] or self._decompress_next():
                raise _FormError("unexpected data after the end of the archive")
        except EOFError:
            if not self._unzip.eof:
                raise
        if self._unzip.unused_data or self._read(1):
            raise _FormError("unexpected data after the end of the gzip stream")

    def _decompress_next(self) -> bytes:
        """Return the next bytes, at least one. Raises EOFError at the end."""
        data = b""
        while not data:
            if self._unzip.eof:
                raise EOFError
            compressed = self._unzip.unconsumed_tail or self._read(_PIECE_BYTES)
            if self._read_bytes == len(compressed) and not _GZIP.match(compressed) and not self._unpacked_bytes:
                raise zlib.error(_PLAIN if compressed[257:262] == b"ustar" else _NO_GZIP)
            data = self._unzip.decompress(compressed, _PIECE_BYTES)
            if not compressed and not data:
                raise EOFError
        self._unpacked_bytes += len(data)
        if self._limits.is_bomb(self._unpacked_bytes, max(self._size, self._read_bytes)):
            raise ContentError(f"it unpacks to more than {self._limits.ratio} times its size")
        if self._unpacked_bytes > self._max_bytes:
            raise ContentError(f"it unpacks to more than {self._limits.size:,} bytes")
        return data

    def _read(self, size: int) -> bytes:
        try:
            data = self._file.read(size)
        except OSError as error:
            raise unreadable(self._path, error) from None
        self._read_bytes += len(data)
        return data

"""Tree -> tar.gz, the same bytes every time; and a tar from anybody -> a folder, safely.

The only importer of tarfile.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
import zlib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, cast

from packager.contents import DEFAULT, ContentError, Contents, normal, shown
from packager.errors import ToolError, VerificationError, unreadable
from packager.tree import chunks, seal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from packager.contents import Limits
    from packager.tree import Entry, Tree

# Below this, zlib takes less time than the import of isal and the start of its thread are worth.
_LARGE = 32 << 20

# zlib's fastest: twice as fast as its usual 6, for an eighth more of a small package, and 3 % of a large one.
_ZLIB_LEVEL = 1

# 0 expands what is random, 1 and 2 store it; 2 takes hardly longer than 1, and 3 does for next to nothing.
_ISAL_LEVEL = 2
_ISAL_BLOCK = 256 << 10
_BUFFER = 1 << 20

# tarfile holds a header's extension (a long path, say) in memory, however long it claims to be.
_HEADER_BYTES = 1 << 20

# What the headers and the padding of one file take at most, on average.
_FILE_OVERHEAD = 4 << 10

# Below this much output no ratio is a bomb's.
_FREE_BYTES = 16 << 20


def write(
    tree: Tree,
    stream: IO[bytes],
    *,
    mtime: int = 0,
    advance: Callable[[int], object] = lambda _size: None,
    sealed: Entry | None = None,
) -> Entry:
    """Write `tree` as a tar.gz of one top folder, its manifest last, and return the manifest.

    Owner, order, modes and times are fixed, and neither file name nor time stands in the gzip header: the same
    tree gives the same tar. Two builds of zlib may still compress the same tar differently, which is why digests
    are taken of the content.

    Args:
        tree: What to write; files on disk are streamed through buffers of 1 MiB.
        stream: Where to.
        mtime: Seconds since 1970 that every member carries.
        advance: Called with the number of bytes of each file as it is done.
        sealed: The manifest of a package that was built before and is packed again; None makes a new one.

    Raises:
        ToolError: A file on disk cannot be read, or is no longer as long as it was.
        OSError: The stream cannot be written.
    """
    digests = {}
    written = 0
    compressor = _compressor(stream, large=tree.size > _LARGE)
    with io.BufferedWriter(cast("io.RawIOBase", compressor), _BUFFER) as tar:

        def add(entry: Entry) -> None:
            nonlocal written
            info = tarfile.TarInfo(f"{tree.name}/{entry.path}")
            info.size, info.mode, info.mtime = entry.size, entry.mode, mtime
            header = info.tobuf(tarfile.PAX_FORMAT)
            tar.write(header)
            hashed, left = hashlib.sha256(), entry.size
            for chunk in chunks(entry):
                left -= len(chunk)
                if left < 0:
                    raise ToolError(f"{entry.path} became longer while it was packed")
                hashed.update(chunk)
                tar.write(chunk)
            if left:
                raise ToolError(f"{entry.path} became shorter while it was packed")
            padding = bytes(-entry.size % tarfile.BLOCKSIZE)
            tar.write(padding)
            written += len(header) + entry.size + len(padding)
            digests[entry.path] = hashed.hexdigest()
            advance(entry.size)

        for entry in tree.entries:
            add(entry)
        manifest = sealed or seal(tree, digests)
        add(manifest)
        # Two empty blocks are the end, and what follows fills the last record (POSIX pax, ustar Interchange Format).
        end = written + 2 * tarfile.BLOCKSIZE
        tar.write(bytes(end - written + -end % tarfile.RECORDSIZE))
    return manifest


def extract(archive: Path, folder: Path, limits: Limits = DEFAULT) -> None:
    """Unpack the tar.gz `archive`, whoever made it, into the empty `folder`.

    What comes out are plain files (0644, or 0755 where their owner may run them) and folders (0755), nothing
    outside `folder`, and no more than `limits` allow. Memory stays within a few MiB, beside the list of names.

    Raises:
        VerificationError: It is damaged, or holds what no package does; what came before that is in `folder`.
        ToolError: `archive` cannot be read.
        OSError: `folder` cannot be written.
    """
    contents = Contents(limits)
    try:
        with _open_archive(archive) as compressed, gzip.GzipFile(fileobj=compressed) as unzipped:
            source = _Source(cast("IO[bytes]", unzipped), compressed, archive, limits)
            with tarfile.open(fileobj=cast("IO[bytes]", source), mode="r:", encoding="utf-8") as tar:
                while (info := tar.next()) is not None:
                    _unpack(tar, info, folder, contents)
                    # Kept, these would let an archive fill the memory with headers.
                    tar.members.clear()  # type: ignore[attr-defined, unused-ignore]
                    tar.pax_headers = {}
            source.finish()
    except ContentError as error:
        raise VerificationError(f"{archive}: {error}") from None
    except EOFError:
        raise VerificationError(f"{archive}: the archive ends too early") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise VerificationError(f"{archive} is not a gzip archive, or is damaged: {error}") from None
    except (tarfile.TarError, ValueError, OverflowError, RecursionError) as error:
        said = str(error).partition("\n")[0]
        raise VerificationError(f"{archive} is not a tar archive, or is damaged: {said}") from None


@dataclass(frozen=True, slots=True)
class Received:
    """What came of a tar: how many files and bytes, and the names of links and devices, which were left out."""

    files: int
    size: int
    skipped: tuple[str, ...]


def receive(stream: IO[bytes], folder: Path, advance: Callable[[int], object] = lambda _size: None) -> Received:
    """Unpack a tar, as it comes, into a `folder` that may hold things already; a file of the same name is replaced.

    Nothing is written outside `folder`, or through a link in it; a file appears when it is complete.

    Raises:
        VerificationError: The tar is damaged or breaks off, or a name in it may not stand in a folder.
        OSError: `folder` cannot be written.
    """
    files, size, skipped = 0, 0, []
    try:
        with tarfile.open(fileobj=stream, mode="r|", encoding="utf-8", errors="surrogateescape") as tar:
            while (info := tar.next()) is not None:
                tar.members.clear()  # type: ignore[attr-defined, unused-ignore]
                path = normal(info.name)
                _refuse_links(folder, path)
                if info.isdir():
                    _make(folder, path)
                elif info.type in (tarfile.REGTYPE, tarfile.AREGTYPE):
                    _receive_file(tar, info, folder / path, folder, advance)
                    files, size = files + 1, size + info.size
                else:
                    skipped.append(shown(path))
    except ContentError as error:
        raise VerificationError(str(error)) from None
    except (tarfile.TarError, EOFError, ValueError, OverflowError, RecursionError) as error:
        said = str(error).partition("\n")[0]
        raise VerificationError(f"what arrived is no whole tar: {said}") from None
    return Received(files, size, tuple(skipped))


def fast() -> bool:
    """Whether isal is there, which compresses a large payload several times faster than zlib."""
    try:
        import isal.igzip_threaded  # type: ignore[import-not-found, unused-ignore] # noqa: F401, PLC0415
    except ImportError:
        return False
    return True


def is_large(tree: Tree) -> bool:
    """Whether `tree` is so large that the speed of the compressor matters."""
    return tree.size > _LARGE


def _compressor(stream: IO[bytes], *, large: bool) -> IO[bytes]:
    if large and fast():
        from isal import igzip_threaded  # noqa: PLC0415

        # One thread compresses while this one reads and hashes: the work is about even.
        threaded: Any = igzip_threaded.open  # it has no types
        return cast("IO[bytes]", threaded(stream, "wb", compresslevel=_ISAL_LEVEL, threads=1, block_size=_ISAL_BLOCK))
    return cast("IO[bytes]", gzip.GzipFile("", "wb", _ZLIB_LEVEL, stream, mtime=0))


def _open_archive(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise unreadable(path, error) from None


def _unpack(tar: tarfile.TarFile, info: tarfile.TarInfo, folder: Path, contents: Contents) -> None:
    if info.isdir():
        _make(folder, contents.add_folder(info.name))
        return
    if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or info.issparse():
        raise ContentError(f"{shown(info.name)} is {_kind(info)}, and a package holds plain files only")
    if info.mode & 0o7000:
        raise ContentError(f"{shown(info.name)} has the mode {info.mode & 0o7777:04o}")
    path = folder / contents.add_file(info.name, info.size)
    _make(folder, path.parent.relative_to(folder).as_posix())
    with cast("IO[bytes]", tar.extractfile(info)) as member, path.open("xb") as file:
        while chunk := member.read(_BUFFER):  # all of it: tarfile raises ReadError when the archive ends before
            file.write(chunk)
    path.chmod(0o755 if info.mode & 0o100 else 0o644)


def _receive_file(
    tar: tarfile.TarFile, info: tarfile.TarInfo, path: Path, folder: Path, advance: Callable[[int], object]
) -> None:
    _make(folder, path.parent.relative_to(folder).as_posix())
    part = path.with_name(f".mlpack-{os.getpid()}.part")
    try:
        with cast("IO[bytes]", tar.extractfile(info)) as member, part.open("xb") as file:
            while chunk := member.read(_BUFFER):
                file.write(chunk)
                advance(len(chunk))
        part.chmod(0o755 if info.mode & 0o100 else 0o644)
        os.utime(part, (info.mtime, info.mtime))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _refuse_links(folder: Path, path: str) -> None:
    step = folder
    for part in path.split("/"):
        step /= part
        if step.is_symlink() and step != folder:
            raise ContentError(f"{shown(path)}: {step} is a link, which may lead anywhere")


def _make(folder: Path, path: str) -> None:
    step = folder
    for part in path.split("/"):
        step /= part  # an empty path is the root itself
        if not step.is_dir():
            step.mkdir()
            step.chmod(0o755)


def _kind(info: tarfile.TarInfo) -> str:
    kinds = {
        tarfile.SYMTYPE: "a link",
        tarfile.LNKTYPE: "a hard link",
        tarfile.CHRTYPE: "a device",
        tarfile.BLKTYPE: "a device",
        tarfile.FIFOTYPE: "a pipe",
    }
    return kinds.get(info.type, "a sparse file" if info.issparse() else "of an unusual type")


class _Source:
    """What tarfile reads an archive from: forwards only, in small pieces, and not more than the limits allow."""

    def __init__(self, unzipped: IO[bytes], compressed: IO[bytes], path: Path, limits: Limits) -> None:
        self._unzipped = unzipped
        self._compressed = compressed
        self._path = path
        self._limits = limits
        self._most = limits.size + limits.files * _FILE_OVERHEAD + _HEADER_BYTES
        self._position = 0
        self._last = b""

    def tell(self) -> int:
        return self._position

    def read(self, size: int) -> bytes:
        if size > _HEADER_BYTES:
            raise ContentError("a header is larger than any file's")
        data = b""
        while len(data) < size and (piece := self._read(size - len(data))):
            data += piece
        self._last = data
        return data

    def seek(self, position: int) -> int:
        if position < self._position:
            raise ContentError("a header points backwards")
        while self._position < position:
            if not self._read(min(position - self._position, _BUFFER)):
                raise EOFError
        return self._position

    def finish(self) -> None:
        """Read to the end of the gzip stream, whose checksum stands there.

        tarfile takes a damaged header, and a missing end, for the end; so another reader may see more files.
        """
        if not self._last:
            raise EOFError
        if any(self._last):
            raise ContentError("a header in the middle is damaged")
        while data := self._read(_BUFFER):
            if any(data):
                raise ContentError("there is more behind the end of the archive")

    def _read(self, size: int) -> bytes:
        try:
            data = self._unzipped.read(size)
        except gzip.BadGzipFile:
            raise
        except OSError as error:
            raise unreadable(self._path, error) from None
        self._position += len(data)
        if self._position > _FREE_BYTES and self._position > self._limits.ratio * self._compressed.tell():
            raise ContentError(f"it unpacks to more than {self._limits.ratio} times its size")
        if self._position > self._most:
            raise ContentError(f"it unpacks to more than {self._limits.size:,} bytes")
        return data

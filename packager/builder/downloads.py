"""Fetches the downloads of a spec into a cache, by their digests. Tests: app/test_downloads.py."""

from __future__ import annotations

import os
import re
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from packager.base import privatefolder, web
from packager.base.errors import ToolError, VerificationError, reason
from packager.base.limits import DEFAULT
from packager.modelspec.files import SourceFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packager.base.fields import Download
    from packager.base.web import Progress

_FOLDER = "downloads"


def fetched(download: Download, cache: Path, progress: Progress) -> tuple[SourceFile, str]:
    """Return a download as a file of the cache, and its digest; without one in the spec, it is fetched again.

    Args:
        download: The file to fetch: its URL and, if the spec has one, its digest.
        cache: The folder of mlpack's caches; it is created.
        progress: Shows how far it has come.

    Raises:
        ToolError: The file could not be fetched, or the cache cannot be used.
        VerificationError: The file has another digest than the spec says.
    """
    folder = cache / _FOLDER
    try:
        privatefolder.make(folder)
        digest = download.sha256
        if digest is None or not _is_whole(folder / digest, digest):
            with _part(folder, digest or "unknown") as part:
                digest = web.download(download.url, part, digest, limit=DEFAULT.size, progress=progress)
                part.replace(folder / digest)
        file = folder / digest
        return SourceFile(download.path, file, file.stat().st_size, executable=False), digest
    except OSError as error:
        raise ToolError(f"the cache {folder} cannot be used: {reason(error)}", hint="set XDG_CACHE_HOME") from None


def _is_whole(file: Path, digest: str) -> bool:
    """Return whether the cache has the file with this digest; a file with another digest is removed."""
    try:
        info = file.lstat()
    except FileNotFoundError:
        return False
    if stat.S_ISREG(info.st_mode) and info.st_uid == os.getuid() and web.digest_of(file) == digest:
        return True
    file.unlink()
    return False


@contextmanager
def _part(folder: Path, name: str) -> Iterator[Path]:
    """Yield a file that only this process writes to; after an error its content stays for the next attempt."""
    kept = folder / f"{name}.part"
    part = folder / f"{name}.{os.getpid()}.part"
    for path in (kept, *folder.glob(f"{name}.*.part")):
        pid = re.fullmatch(r".*\.([0-9]+)\.part", path.name)
        if pid is None or not _is_running(int(pid[1])):
            with suppress(FileNotFoundError):  # another process was faster
                path.rename(part)
                break
    if part.is_symlink() or (part.exists() and not part.is_file()):
        part.unlink()
    try:
        yield part
    except VerificationError:
        part.unlink(missing_ok=True)
        raise
    finally:
        with suppress(FileNotFoundError):
            part.rename(kept)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True

"""Checks the paths in a package: each must name one file below the root on every system. Tests: test_hostile.py."""

from __future__ import annotations

import re
import unicodedata

from packager.base.masking import shortened
from packager.base.paths import DEFAULT_LIMITS, Limits

_PATH_BYTES = 1_024
_PART_BYTES = 255
_DEPTH = 64


class ContentError(Exception):
    """A file or path that is not allowed in a package; the message says which, and why."""


class Contents:
    """The files and folders of one package, taken one by one.

    Two paths are the same if a file system that ignores case and Unicode form takes them for the same.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._seen: dict[str, tuple[str, bool]] = {}  # each path, and whether it is a file's
        self._size = 0

    def add_folder(self, path: str) -> str:
        """Take the folder `path` and return its plain form. Raises ContentError."""
        plain = normalized(path)
        self._take(plain, is_file=False)
        return plain

    def add_file(self, path: str, size: int) -> str:
        """Take the file `path` and return its plain form. Raises ContentError."""
        plain = normalized(path)
        if not plain:
            raise ContentError("a file has no name")
        self._take(plain, is_file=True)
        self._size += size
        if size < 0 or self._size > self._limits.size:
            raise ContentError(f"the files are larger than {self._limits.size:,} bytes in total")
        return plain

    def _take(self, path: str, *, is_file: bool) -> None:
        """Take a path, and the folders that lead to it."""
        key = _key(path)
        known_path, is_known_file = self._seen.get(key, (path, is_file))
        if known_path != path:
            raise ContentError(f"{shown(path)} and {shown(known_path)} are the same name where case is ignored")
        if is_file != is_known_file:
            raise ContentError(f"{shown(path)} is both a file and a folder")
        if key in self._seen:
            if is_file:
                raise ContentError(f"{shown(path)} occurs twice")
            return
        self._seen[key] = (path, is_file)
        if len(self._seen) > self._limits.files:
            raise ContentError(f"there are more than {self._limits.files:,} files and folders")
        if above := path.rpartition("/")[0]:
            self._take(above, is_file=False)


def _key(path: str) -> str:
    """Return the form of a path that is equal for two paths which some file systems do not distinguish."""
    if path.isascii():
        return path.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def normalized(path: str) -> str:
    """Return `path` without the `./` and doubled slashes that some archivers write; empty for the root itself.

    Args:
        path: With `/`; bytes that are not UTF-8 as surrogates (PEP 383), as os gives them.

    Raises:
        ContentError: The path is absolute, climbs, is not UTF-8, contains control characters, or is too long.
    """
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise ContentError(f"{shown(path)}: the name is not UTF-8") from None
    plain_ascii = path.isascii() and path.isprintable()
    if not plain_ascii and any(unicodedata.category(character) == "Cc" for character in path):
        raise ContentError(f"{shown(path)}: the name contains control characters")
    if path.startswith("/"):
        raise ContentError(f"{shown(path)}: the path is absolute")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ContentError(f"{shown(path)}: the path leads out of the package")
    has_long_part = size > _PART_BYTES and any(len(part.encode()) > _PART_BYTES for part in parts)
    if size > _PATH_BYTES or len(parts) > _DEPTH or has_long_part:
        raise ContentError(f"{shown(path)}: the path is too long or too deep")
    return "/".join(parts)


def composed(path: str) -> str:
    """Return `path`, which is in Unicode's form NFC.

    Some readers of archives, and some file systems, put names into that form, and others leave them.
    """
    if not unicodedata.is_normalized("NFC", path):
        raise ContentError(f"{path!a}: the name is not in Unicode form NFC, to which some readers convert it")
    return path


def inactive(path: str) -> str:
    """Return `path`. Raises ContentError if programs act on a part of it by its name, or may take it for another name.

    HFS+ ignores characters that are not shown.
    """
    if not path.isascii() and any(unicodedata.category(character) == "Cf" for character in path):
        raise ContentError(f"{shown(path)}: the name contains invisible characters")
    part = active_part(path)
    if part is not None:
        raise ContentError(f"{shown(path)}: a package contains no file or folder with the name {shown(part)}")
    return path


def active_part(path: str) -> str | None:
    """Return the part of `path` that programs act on by its name; None if it has none.

    git, direnv, editors and others run the commands in files such as `.git`, `.envrc` or `.vscode`, as soon as a
    shell or an editor opens the folder. To git, a folder with a file HEAD may be a repository, too. Some file systems
    take other names for these, in short form, such as GIT~1 (FAT, NTFS).
    """
    for part in path.split("/") if path != DOCKERIGNORE else ():
        if part.startswith(".") or part.strip(". ").lower() == "head" or _SHORT_NAME.search(part):
            return part
    return None


DOCKERIGNORE = ".dockerignore"
"""The only file of a package whose name starts with a dot; it is in the package's own folder."""

_SHORT_NAME = re.compile(r"~[0-9]+ *(\.|$)")


def shown(path: str) -> str:
    """Return `path` for a message: short, and escaped where a terminal would not show it as it is."""
    short = shortened(path, 120)
    return short if short.isprintable() and short.strip() == short and short else ascii(short)

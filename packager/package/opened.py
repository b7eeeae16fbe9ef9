"""Opens a package: a folder in place, or an archive, which is extracted for as long as it is used.

Its files are read so that every later step sees the same bytes.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import contextmanager, nullcontext
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from packager.base import paths, workfolder
from packager.base.errors import MlpackError, ToolError, UsageError, VerificationError, reason, show_paths, unreadable
from packager.base.paths import DEFAULT_LIMITS
from packager.base.problems import similar
from packager.base.values import Value, replace
from packager.package import archive, inventory, layout, outside, tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from packager.base.paths import Limits
    from packager.package.outside import OutsideOverlay


DEFAULT_OVERLAY = "multi-node"
"""The overlay to use if none is named, in a package that has it."""


class Reader:
    """The files of one package, each of which must not change after it was first read.

    Files are judged, rendered and applied at different times. Digests are kept, and not contents: a package may
    be larger than memory.
    """

    def __init__(
        self, folder: Path, shown: Callable[[str], str], edited: Mapping[str, bytes] = MappingProxyType({})
    ) -> None:
        self.folder = folder  # the folder with the files
        self.shown = shown  # returns the name of a path of the package for messages
        self._edited = edited
        self._digests: dict[str, str] = {}

    def edited(self, contents: Mapping[str, bytes]) -> Reader:
        """Return a reader of the same files, which must not change either, with other contents in some, by path."""
        reader = Reader(self.folder, self.shown, contents)
        reader._digests = self._digests
        return reader

    @property
    def added(self) -> tuple[str, ...]:
        """The paths of files that are not there yet."""
        return tuple(path for path in self._edited if not (self.folder / path).exists())

    def read(self, path: str, max_bytes: int) -> bytes:
        """Return the content of a file; of one that is longer than `max_bytes` bytes, a byte more than these.

        Raises:
            VerificationError: The file is not a plain one.
            ToolError: The file cannot be read, or has changed since it was read first.
        """
        if path in self._edited:
            return self._edited[path][: max_bytes + 1]
        content = paths.read_start(self.folder, path, self.shown(path), max_bytes + 1)
        if len(content) <= max_bytes:
            digest = hashlib.sha256(content).hexdigest()
            if self._digests.setdefault(path, digest) != digest:
                raise ToolError(
                    f"{self.shown(path)} changed while the package was read",
                    hint="try again when no program is writing to it",
                )
        return content

    def digest(self, path: str) -> str:
        """Return the sha256 of a file, in hex: of the bytes read first, if it was read before."""
        if path in self._edited:
            return hashlib.sha256(self._edited[path]).hexdigest()
        if path not in self._digests:
            try:
                with paths.open_below(self.folder, path) as stream:
                    self._digests[path] = hashlib.file_digest(stream, "sha256").hexdigest()
            except paths.NotPlainError:
                raise VerificationError(f"{self.shown(path)} is not a plain file") from None
            except OSError as error:
                raise unreadable(self.shown(path), error) from None
        return self._digests[path]


class Package(Value, frozen=True):
    """A package on disk."""

    name: str  # the name in the inventory, whatever the folder is called
    folder: Path  # the folder with the files: the one that the user named, or the one that the archive was unpacked to
    source: Path  # the folder or the archive, as the user named it
    # the names of its overlays with workloads: the default one first when there is one, then by name
    overlays: tuple[str, ...]
    digest: str  # `sha256:…` of the inventory
    inventory: Mapping[str, Any]  # the content of the inventory
    reader: Reader  # reads its files, and refuses a file that has changed since an earlier check read it
    # the overlay outside of the package that the user named, whose files are in the place of the package's ones;
    # None for a package
    outside: OutsideOverlay | None = None

    @property
    def sequence(self) -> tuple[str, ...]:
        """The overlays that run one after the other, as its inventory says; nothing says that there are all of them."""
        return tuple(self.inventory.get("sequence", ()))

    @property
    def version(self) -> str | None:
        """The version, as its inventory has it; None if its spec has none."""
        version = self.inventory.get("version")
        return None if version is None else str(version)

    @property
    def workspace(self) -> str | None:
        """The claim that the overlay `workspace` creates, as its inventory says; None if it has no such overlay."""
        claim = self.inventory.get("workspace")
        return None if claim is None else str(claim)

    @property
    def applied(self) -> tuple[str, ...]:
        """The names of everything that can be applied: its overlays, and the one that creates the workspace's claim."""
        return (*self.overlays, layout.WORKSPACE) if self.workspace else self.overlays

    @property
    def top(self) -> str:
        """The folder in the archive that contains the package; empty for a package at the top, or a folder."""
        is_inside = self.folder != self.source and self.folder.parent.name == workfolder.FOLDER
        return self.folder.name if is_inside else ""

    def overlay(self, name: str) -> Path:
        """Return the folder of the overlay `name`."""
        return self.folder / layout.overlay(name)

    def sealed(self, path: str) -> bytes | None:
        """Return the content that a file which people may edit was sealed with; None if the inventory has it not."""
        lines: list[str] | None = self.inventory["editable"].get(path)
        return None if lines is None else "\n".join(lines).encode(errors="surrogatepass")

    def shown(self, path: str) -> str:
        """Return the name of the file `path` of the package for messages: below the path that the user named."""
        return str(self.outside.place(path)) if self.outside else _shown(self.source, path)


@contextmanager
def opened(path: Path, *, limits: Limits = DEFAULT_LIMITS, shown_as: Path | None = None) -> Iterator[Package]:
    """Open the package at `path`; the folder that an archive was unpacked to is deleted when the block ends.

    Its files have names that every system can hold, and are plain files: there is no link, pipe or device among them.
    `packager.verify` judges the rest.

    Args:
        path: A folder, or a link to one, or a tar.gz.
        limits: The limits of its contents.
        shown_as: The path in messages instead of `path`, if that is a temporary folder.
    """
    if not paths.exists(path):
        raise not_found(path)
    if overlay := outside.find(path):
        with _opened_outside(overlay, limits) as package:
            yield package
        return
    source = shown_as or path
    with (
        nullcontext(path) if paths.is_folder(path) else _unpacked(path, limits) as folder,
        _named_in_errors(folder, source),
    ):
        sealed = inventory.content(folder)
        values = inventory.parsed(sealed, folder)
        entries = tree.walk(folder, limits)
        names = [name for entry in entries if (name := layout.overlay_of(entry.path))]
        if values.get("workspace") is not None:  # this overlay only creates a claim
            names = [name for name in names if name != layout.WORKSPACE]
        overlays = tuple(sorted(names, key=lambda name: (name != DEFAULT_OVERLAY, name)))
        if len(overlays) > layout.MAX_OVERLAYS:
            raise VerificationError(f"{folder} has {len(overlays):,} overlays: expected at most {layout.MAX_OVERLAYS}")
        yield Package(
            name=values["package"],
            folder=folder,
            source=source,
            overlays=overlays,
            digest=f"sha256:{hashlib.sha256(sealed).hexdigest()}",
            inventory=values,
            reader=Reader(folder, partial(_shown, source)),
        )


@contextmanager
def _opened_outside(overlay: OutsideOverlay, limits: Limits) -> Iterator[Package]:
    """Open the package of an overlay outside of it, with the overlay in its place, and with no other overlay."""
    with opened(overlay.package, limits=limits) as package:
        if package.digest != overlay.digest:
            raise overlay.mismatch(package.digest, package.version)
        if overlay.name not in package.overlays:
            raise VerificationError(f"{overlay.folder}: {overlay.package} has no overlay {overlay.name!r}")
        values = {key: value for key, value in package.inventory.items() if key not in ("sequence", "workspace")}
        with outside.view(overlay, values) as folder, _named_in_errors(folder, overlay.folder):
            tree.walk(folder, limits)
            yield replace(
                package,
                folder=folder,
                source=overlay.folder,
                overlays=(overlay.name,),
                inventory=values,
                reader=Reader(folder, lambda path: str(overlay.place(path))),
                outside=overlay,
            )


def _shown(source: Path, path: str) -> str:
    return str(source / path) if source.is_dir() else f"{source}:{path}"


def check_replaceable(path: Path) -> None:
    """Refuse to replace the content of `path` unless it is a package, an empty folder, or a link to a folder."""
    if not paths.is_folder(path):
        raise UsageError(f"{path} is not a folder")
    if path.is_symlink() or next(path.iterdir(), None) is None:
        return
    try:
        inventory.read(path)
    except VerificationError as error:
        hint = "move it to another place, or build into another folder with -d"
        raise UsageError(f"{error}; it was left unchanged", hint=hint) from None


@contextmanager
def _named_in_errors(folder: Path, path: Path) -> Iterator[None]:
    """Let errors name the user's path, and not the temporary folder of an unpacked archive."""
    try:
        yield
    except MlpackError as error:
        if folder != path:
            for place in dict.fromkeys((str(folder), os.path.realpath(folder))):
                show_paths(error, {f"{place}/": f"{path}:", place: str(path)})
        raise


def not_found(path: Path) -> UsageError:
    """Return the error for a path of a package that does not exist."""
    hint = "`mlpack build MODEL` makes a package, and `mlpack list` shows the models"
    return UsageError(f"there is no {path}", hint=hint)


@contextmanager
def _unpacked(path: Path, limits: Limits) -> Iterator[Path]:
    if not paths.is_file(path):
        raise UsageError(f"{path} is neither a file nor a folder")
    with workfolder.temporary() as work:
        try:
            archive.extract(path, work, limits)
        except OSError as error:
            raise ToolError(f"{path} cannot be unpacked: {reason(error)}") from None
        yield root(path, work)


def root(path: Path, work: Path) -> Path:
    """Return the package's folder in an unpacked archive: the only one at the top, or the top itself."""
    entries = sorted(work.iterdir())
    for folder in (work, *entries[:1]):
        if (folder / layout.INVENTORY).is_file() and (folder == work or len(entries) == 1):
            return folder
    names = ", ".join(entry.name for entry in entries[:5]) or "nothing"
    raise VerificationError(f"{path} is not a package: {names} contains no {layout.INVENTORY}")


def chosen_overlays(package: Package, overlay: str | None) -> tuple[str, ...]:
    """Return the requested overlay; if none is requested, all overlays, the default one first."""
    if not package.overlays:
        raise UsageError(f"{package.source} has no overlays")
    if overlay is None:
        return package.overlays
    if overlay not in package.overlays:
        message = f"{package.source} has no overlay {overlay!r}; it has: {', '.join(package.overlays)}"
        raise UsageError(message, hint=similar(overlay, package.overlays))
    return (overlay,)

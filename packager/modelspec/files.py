"""Finds and measures the files that a spec names, which must be inside the spec's folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.errors import reason
from packager.base.problems import Fault, similar
from packager.base.values import Value, replace
from packager.kubernetes import configmap
from packager.modelspec import patterns
from packager.modelspec.patterns import is_excluded
from packager.package.path_checks import active_part, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from packager.base.yamlio import Location
    from packager.modelspec.model import Spec

    Sources = Callable[[str, Location, set[str]], Iterable["SourceFile"]]

_MAX_CODE_FILES = 10_000


class SourceFile(Value, frozen=True):
    """A file on disk that goes into the package."""

    name: str  # the path below the spec's folder, with `/`
    path: Path  # the path on disk
    size: int  # in bytes
    executable: bool  # whether its owner may execute it
    place: Location = ()  # the entry of the spec's lists that names the file
    # the bytes, if the file is code; None if they were not read, because there are too many
    content: bytes | None = None
    encoded: int | None = None  # the size in a ConfigMap as JSON; None if the bytes were not read

    def first_line(self) -> bytes:
        """Return the first line with its end, or the first 200 bytes of it."""
        if self.content is not None:
            return self.content[: self.content.find(b"\n", 0, 200) + 1 or 200]
        with self.path.open("rb") as stream:
            return stream.readline(200)


class SpecFiles(Value, frozen=True):
    """The files of a spec."""

    files: tuple[SourceFile, ...]  # the code for the ConfigMaps, once for each list of the spec that names it
    assets: tuple[SourceFile, ...]  # files of any size
    dockerfile: SourceFile | None  # the image's
    # the paths in folders of assets that are left out: see `packager.modelspec.patterns.is_excluded`
    left_out: tuple[str, ...] = ()
    left_out_code: tuple[str, ...] = ()  # the same of a folder of code, or where a pattern matches
    downloads: tuple[str, ...] = ()  # the paths of the files that a build fetches, below `assets`
    documentation: tuple[SourceFile, ...] = ()  # the Markdown files of the README's sections

    def code(self, lists: Collection[Location]) -> tuple[SourceFile, ...]:
        """Return the code that these lists of the spec name, each file once."""
        files: dict[str, SourceFile] = {}
        for file in self.files:
            if file.place[:-1] in lists:
                files.setdefault(file.name, file)
        return tuple(files.values())

    @property
    def notes(self) -> tuple[tuple[str, str], ...]:
        """Each excluded path, with the note for the user."""
        hints = {True: "a package contains no such name", False: "list it there to include it"}
        lists = (("assets", self.left_out), ("files", self.left_out_code))
        return tuple(
            (path, f"is not included in the {name}; {hints[active_part(path) is not None]}")
            for name, paths in lists
            for path in paths
        )


def collect(folder: Path, spec: Spec) -> tuple[SpecFiles, list[Fault]]:
    """Find every file that `spec` names below `folder`.

    Returns:
        The files that can be used, and why each of the others cannot: missing, not a file, or a link that leaves
        the folder (links inside it are followed: the package holds none).
    """
    faults: list[Fault] = []
    root = folder.resolve()

    def add(name: str, location: Location) -> SourceFile | None:
        source = source_file(root, name)
        if isinstance(source, SourceFile):
            return source
        faults.append(Fault(location, source, _similar_name_hint(root, name)))
        return None

    def sources(name: str, location: Location, left_out: set[str]) -> Iterable[SourceFile]:
        """Yield the files that one entry of a list names; add the reasons why others cannot be used."""
        if part := active_part(name):
            message = f"a package contains no file or folder with the name {shown(part)}"
            faults.append(Fault(location, message, "rename it" if location[0] == "assets" else None))
            return
        is_pattern = location[0] != "assets" and ("*" in name or "?" in name)
        if not is_pattern and not _is_folder(root, name):
            hint = _similar_name_hint(root, name) if location[0] != "assets" else None
            found: Iterable[SourceFile | str] = (source_file(root, name),)
        else:
            hint, found = None, (_matched if is_pattern else walk)(root, name, left_out)
        for source in found:
            if isinstance(source, SourceFile):
                yield source
            else:
                faults.append(Fault(location, source, hint))

    code = _Code(faults)
    files = [file for place, names in spec.code_lists() for file in code.files(place, names, sources)]
    dockerfile = add(spec.image.dockerfile, ("image", "dockerfile")) if spec.image.dockerfile else None
    pages = [add(entry.file, ("documentation", index, "file")) for index, entry in enumerate(spec.documentation)]
    assets: dict[str, SourceFile] = {}
    left_out: set[str] = set()
    for index, name in enumerate(spec.assets):
        for source in sources(name, ("assets", index), left_out):
            assets[source.name] = replace(source, place=("assets", index))
    return SpecFiles(
        tuple(files),
        tuple(assets[name] for name in sorted(assets)),
        dockerfile,
        tuple(sorted(left_out - set(spec.assets))),
        tuple(sorted(code.left_out.difference(*(names for _, names in spec.code_lists())))),
        tuple(download.path for download in spec.downloads),
        tuple(file for file in pages if file is not None),
    ), faults


class _Code:
    """Reads the code that the lists of a spec name: each file once, unless it is too much anyway."""

    def __init__(self, faults: list[Fault]) -> None:
        self.left_out: set[str] = set()  # the excluded paths, of folders and of matches of patterns
        self._faults = faults
        self._contents: dict[str, tuple[bytes, int]] = {}

    def files(self, place: Location, names: Sequence[str], sources: Sources) -> list[SourceFile]:
        """Return the code of one list, in its order, each file once."""
        files: dict[str, SourceFile] = {}
        remaining = configmap.CODE_PARTS * configmap.CODE_BYTES
        for index, name in enumerate(names):
            location = (*place, index)
            for source in sources(name, location, self.left_out):
                if source.name in files:
                    continue
                remaining -= source.size
                if remaining >= 0 and source.name not in self._contents:
                    content = source.path.read_bytes()
                    self._contents[source.name] = content, configmap.encoded_size(content)
                of_file = self._contents[source.name] if remaining >= 0 else (None, None)
                files[source.name] = replace(source, place=location, content=of_file[0], encoded=of_file[1])
                if len(files) > _MAX_CODE_FILES:
                    message = f"there are more than {_MAX_CODE_FILES:,} files"
                    self._faults.append(Fault(place, message, at_key=True))
                    return list(files.values())
        return list(files.values())


def _matched(root: Path, pattern: str, left_out: set[str]) -> Iterator[SourceFile | str]:
    """Yield the files that a pattern matches, or errors; add excluded files to `left_out`."""
    names = ((name, None) for name in patterns.matches(root, pattern, left_out))
    try:
        yield from _usable(root, root, names, left_out, ("found none", "", f" that match {pattern}"))
    except OSError as error:
        yield f"{error.filename} cannot be read: {reason(error)}"


def _usable(  # noqa: PLR0913, PLR0917 - what both ways to list files differ in
    root: Path,
    top: Path,
    names: Iterable[tuple[str, os.DirEntry[str] | None]],
    left_out: set[str],
    nothing: tuple[str, str, str],
    errors: Sequence[OSError] = (),
) -> Iterator[SourceFile | str]:
    """Yield the files, or errors; add excluded files to `left_out`.

    If there is no file and no error, the message is made of `nothing`: what was found, and the ends of the message and
    of "files".
    """
    count, excluded_before = 0, len(left_out)
    for name, entry in names:
        source = source_file(root, name, entry)
        is_link = entry.is_symlink() if entry else (root / name).is_symlink()
        if active_part(name) or (is_link and _leads_to_excluded(source, root, top)):
            left_out.add(name)
        else:
            count += 1
            yield source
    if not count and not errors:
        found = nothing[0] if len(left_out) == excluded_before else "found only files that are excluded"
        yield f"expected files{nothing[2]}, {found}{nothing[1]}"


def source_file(root: Path, name: str, entry: os.DirEntry[str] | None = None) -> SourceFile | str:
    """Return the file `name` below `root`, or the reason why it cannot be used.

    Args:
        root: The spec's folder, without links.
        name: The file's path in it.
        entry: The file's entry in its folder, if the folder's path has no links: looking for links in each part of each
            path takes longer than all else.
    """
    try:
        may_leave = entry is None or entry.is_symlink()
        if entry is None or may_leave:
            real = (root / name).resolve(strict=True)
            info = real.stat()
        else:
            real = Path(entry.path)
            info = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return f"expected a file, found none: {name}"
    except (OSError, RuntimeError) as error:
        return f"{name} cannot be read: {(getattr(error, 'strerror', None) or str(error)).lower()}"
    problem = None
    if may_leave and not real.is_relative_to(root):
        problem = f"{name} is a link that leaves the folder"
    elif stat.S_ISDIR(info.st_mode):
        problem = f"expected a file, found a folder: {name}"
    elif not stat.S_ISREG(info.st_mode):
        problem = f"expected a file, found a special file: {name}"
    elif not os.access(real, os.R_OK):
        problem = f"{name} cannot be read: permission denied"
    # The name that the file's bytes spell in UTF-8, whatever the locale took them for.
    in_utf8 = name if name.isascii() else os.fsencode(name).decode("utf-8", "surrogateescape")
    return problem or SourceFile(in_utf8, real, info.st_size, bool(info.st_mode & stat.S_IXUSR))


def _similar_name_hint(root: Path, name: str) -> str | None:
    """Return a hint for a missing file: an existing one with a similar name."""
    path = root / name
    try:
        beside = [entry.name for entry in path.parent.iterdir()]
    except OSError:  # no folder, or one that may not be listed
        return None
    if path.name in beside:
        return None
    above = name.rpartition("/")[0]
    return similar(name, [f"{above}/{entry}" if above else entry for entry in beside])


def walk(root: Path, name: str, left_out: set[str]) -> Iterator[SourceFile | str]:
    """Yield the files below the folder `name`, or errors; add excluded files to `left_out`."""
    top = (root / name).resolve()
    errors: list[OSError] = []

    def names() -> Iterator[tuple[str, os.DirEntry[str]]]:
        pending = [(name, str(top))]
        while pending:
            above, folder = pending.pop()
            try:
                with os.scandir(folder) as scanned:
                    entries = sorted(scanned, key=lambda entry: entry.name)
            except OSError as error:
                errors.append(error)
                continue
            paths = {f"{above}/{entry.name}": entry for entry in entries}
            left_out.update(path for path, entry in paths.items() if is_excluded(entry.name))
            kept = [(path, entry) for path, entry in paths.items() if not is_excluded(entry.name)]
            yield from ((path, entry) for path, entry in kept if not entry.is_dir(follow_symlinks=False))
            folders = [(path, entry.path) for path, entry in kept if entry.is_dir(follow_symlinks=False)]
            pending += reversed(folders)

    yield from _usable(root, top, names(), left_out, ("found an empty folder", f": {name}", ""), errors)
    yield from (f"{error.filename} cannot be read: {reason(error)}" for error in errors)


def _is_folder(root: Path, name: str) -> bool:
    """Whether `name` is a folder below `root`, or a link to one that is."""
    top = root / name
    try:
        return top.is_dir() and top.resolve().is_relative_to(root)
    except OSError:
        return False


def _leads_to_excluded(source: SourceFile | str, root: Path, top: Path) -> bool:
    """Return whether a link leads to an excluded file."""
    if isinstance(source, str):
        return False
    below = source.path.relative_to(top if source.path.is_relative_to(top) else root)
    return any(map(is_excluded, below.parts))

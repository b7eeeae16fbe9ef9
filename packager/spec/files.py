"""Finds and measures the files that a spec names, which must be inside the spec's folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.errors import reason
from packager.base.faults import Fault
from packager.base.problems import similar
from packager.base.values import Value, replace
from packager.kubernetes import configmap
from packager.spec import excluded

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from packager.base.yamlio import Location
    from packager.spec.model import Spec

_MAX_CODE_FILES = 10_000


class SourceFile(Value, frozen=True):
    """A file on disk that goes into the package.

    Attributes:
        name: Its path below the spec's folder, with `/`.
        path: Where it is.
        size: In bytes.
        executable: Whether its owner may execute it.
        place: Which entry of the spec's lists names it.
        encoded: Its size in a ConfigMap as JSON; None where that was not measured, because there is too much.
    """

    name: str
    path: Path
    size: int
    executable: bool
    place: Location = ()
    encoded: int | None = None


class SpecFiles(Value, frozen=True):
    """The files of a spec.

    Attributes:
        files: Code, for the ConfigMaps: what each list of the spec names, once for each list.
        assets: Files of any size.
        dockerfile: The image's.
        left_out: The paths in folders of assets that are left out: see `packager.spec.excluded`.
        left_out_code: The same of a folder of code, or where a pattern matches.
        downloads: The paths of the files that a build fetches, below `assets`.
        documentation: The Markdown files of the README's sections.
    """

    files: tuple[SourceFile, ...]
    assets: tuple[SourceFile, ...]
    dockerfile: SourceFile | None
    left_out: tuple[str, ...] = ()
    left_out_code: tuple[str, ...] = ()
    downloads: tuple[str, ...] = ()
    documentation: tuple[SourceFile, ...] = ()

    def code(self, lists: Collection[Location]) -> tuple[SourceFile, ...]:
        """Return the code that these lists of the spec name, each file once."""
        files: dict[str, SourceFile] = {}
        for file in self.files:
            if file.place[:-1] in lists:
                files.setdefault(file.name, file)
        return tuple(files.values())

    @property
    def notes(self) -> tuple[tuple[str, str], ...]:
        """Each path that is left out, and what to tell the user of it."""
        lists = (("assets", self.left_out), ("files", self.left_out_code))
        hint = "list it there to include it"
        return tuple((path, f"is not included in the {name}; {hint}") for name, paths in lists for path in paths)


def collect(folder: Path, spec: Spec) -> tuple[SpecFiles, list[Fault]]:
    """Find every file that `spec` names below `folder`.

    Returns:
        The files that can be used, and why each of the others cannot: missing, not a file, or a link that leaves
        the folder (links inside it are followed: the package holds none).
    """
    faults: list[Fault] = []
    root = folder.resolve()

    def add(name: str, location: Location) -> SourceFile | None:
        source = _source_file(root, name)
        if isinstance(source, SourceFile):
            return source
        faults.append(Fault(location, source, _similar_name_hint(root, name)))
        return None

    files: list[SourceFile] = []
    left_out_code: set[str] = set()
    for place, names in spec.code_lists():
        files += _code(root, place, names, add, faults, left_out_code)
    dockerfile = add(spec.image.dockerfile, ("image", "dockerfile")) if spec.image.dockerfile else None
    pages = [add(entry.file, ("documentation", index, "file")) for index, entry in enumerate(spec.documentation)]
    assets: dict[str, SourceFile] = {}
    left_out: set[str] = set()
    for index, name in enumerate(spec.assets):
        for source in _walk(root, name, left_out):
            if isinstance(source, SourceFile):
                assets[source.name] = replace(source, place=("assets", index))
            else:
                faults.append(Fault(("assets", index), source))
    return SpecFiles(
        tuple(files),
        tuple(assets[name] for name in sorted(assets)),
        dockerfile,
        tuple(sorted(left_out - set(spec.assets))),
        tuple(sorted(left_out_code.difference(*(names for _, names in spec.code_lists())))),
        tuple(download.path for download in spec.downloads),
        tuple(file for file in pages if file is not None),
    ), faults


def _code(  # noqa: PLR0913, PLR0917 - the last two are what it adds to
    root: Path,
    place: Location,
    names: Sequence[str],
    add: Callable[[str, Location], SourceFile | None],
    faults: list[Fault],
    left_out: set[str],
) -> list[SourceFile]:
    """Return the code of one list, in its order, each file once; add to `faults` and to `left_out`.

    Each file is measured as a part of a ConfigMap, as long as they are not too many anyway.
    """
    files: dict[str, SourceFile] = {}
    remaining = configmap.CODE_PARTS * configmap.CODE_BYTES
    for index, name in enumerate(names):
        here = (*place, index)
        sources: Iterable[SourceFile | str | None]
        if "*" in name or "?" in name:
            sources = _matched(root, name, left_out)
        elif _is_folder(root, name):
            sources = _walk(root, name, left_out)
        else:
            sources = (add(name, here),)
        for source in sources:
            if isinstance(source, str):
                faults.append(Fault(here, source))
            elif source is not None and source.name not in files:
                remaining -= source.size
                measured = configmap.encoded_size(source.path.read_bytes()) if remaining >= 0 else None
                files[source.name] = replace(source, place=here, encoded=measured)
                if len(files) > _MAX_CODE_FILES:
                    faults.append(Fault(place, f"there are more than {_MAX_CODE_FILES:,} files", at_key=True))
                    return list(files.values())
    return list(files.values())


def _matched(root: Path, pattern: str, left_out: set[str]) -> Iterator[SourceFile | str]:
    """Yield the files that a pattern matches, or what is wrong with them; add to `left_out` what is left out."""
    from packager.spec import patterns  # noqa: PLC0415 - few specs have any

    count, excluded_before = 0, len(left_out)
    try:
        for name in patterns.matches(root, pattern, left_out):
            source = _source_file(root, name)
            if (root / name).is_symlink() and _leads_to_excluded(source, root, root):
                left_out.add(name)
                continue
            count += 1
            yield source
    except OSError as error:
        yield f"{error.filename} cannot be read: {reason(error)}"
        return
    if not count:
        what = "found only files that are excluded" if len(left_out) > excluded_before else "found none"
        yield f"expected files that match {pattern}, {what}"


def _source_file(root: Path, name: str, folder: str | None = None) -> SourceFile | str:
    """Return the file `name` below `root`, or what is wrong with it.

    Args:
        root: The spec's folder, without links.
        name: The file's path in it.
        folder: The folder that holds the file, below `root` and without links, where that is known: looking for links
            in each part of each path takes longer than all else.
    """
    try:
        real = Path(folder, name.rpartition("/")[2]) if folder else root / name
        info = real.lstat() if folder else None
        if info is None or stat.S_ISLNK(info.st_mode):
            real = (root / name).resolve(strict=True)
            info = real.stat()
    except FileNotFoundError:
        return f"expected a file, found none: {name}"
    except (OSError, RuntimeError) as error:
        return f"{name} cannot be read: {(getattr(error, 'strerror', None) or str(error)).lower()}"
    problem = None
    if not real.is_relative_to(root):
        problem = f"{name} is a link that leaves the spec's folder"
    elif stat.S_ISDIR(info.st_mode):
        problem = f"expected a file, found a folder: {name}"
    elif not stat.S_ISREG(info.st_mode):
        problem = f"expected a file, found a special file: {name}"
    elif not os.access(real, os.R_OK):
        problem = f"{name} cannot be read: permission denied"
    return problem or SourceFile(_utf8(name), real, info.st_size, bool(info.st_mode & stat.S_IXUSR))


def _utf8(name: str) -> str:
    """Return the name that the file's bytes spell in UTF-8, whatever the locale took them for."""
    return os.fsencode(name).decode("utf-8", "surrogateescape")


def _similar_name_hint(root: Path, name: str) -> str | None:
    """Return a hint for a file that is not there: the one beside it with nearly this name."""
    path = root / name
    try:
        beside = [entry.name for entry in path.parent.iterdir()]
    except OSError:  # no folder, or one that may not be listed
        return None
    if path.name in beside:
        return None
    above = name.rpartition("/")[0]
    return similar(name, [f"{above}/{entry}" if above else entry for entry in beside])


def _walk(root: Path, name: str, left_out: set[str]) -> Iterator[SourceFile | str]:
    """Yield the files at and below `name`, or what is wrong with them; add to `left_out` what is left out."""
    if not _is_folder(root, name):
        yield _source_file(root, name)
        return
    top = (root / name).resolve()
    errors: list[OSError] = []
    count, excluded_before = 0, len(left_out)
    for folder, folders, names in os.walk(top, onerror=errors.append):
        here = Path(name, Path(folder).relative_to(top)).as_posix()
        paths = {entry: f"{here}/{entry}" if here != "." else entry for entry in (*folders, *names)}
        left_out_here = {entry for entry in paths if excluded.is_excluded(entry)}
        left_out |= {paths[entry] for entry in left_out_here}
        folders[:] = sorted(set(folders) - left_out_here)
        links = [entry for entry in folders if Path(folder, entry).is_symlink()]
        for entry in sorted({*names, *links} - left_out_here):
            source = _source_file(root, paths[entry], folder)
            if _leads_to_excluded(source, root, top):
                left_out.add(paths[entry])
                continue
            count += 1
            yield source
    yield from (f"{error.filename} cannot be read: {reason(error)}" for error in errors)
    if not count and not errors:
        what = "found only files that are excluded" if len(left_out) > excluded_before else "found an empty folder"
        yield f"expected files, {what}: {name}"


def _is_folder(root: Path, name: str) -> bool:
    """Whether `name` is a folder below `root`, or a link to one that is."""
    top = root / name
    try:
        return top.is_dir() and top.resolve().is_relative_to(root)
    except OSError:
        return False


def _leads_to_excluded(source: SourceFile | str, root: Path, top: Path) -> bool:
    """Whether a link leads to what would be left out itself."""
    if isinstance(source, str):
        return False
    below = source.path.relative_to(top if source.path.is_relative_to(top) else root)
    return any(map(excluded.is_excluded, below.parts))

"""Finds and measures the files that a spec names, which must be inside the spec's folder."""

from __future__ import annotations

import fnmatch
import itertools
import os
import posixpath
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.errors import reason
from packager.base.problems import Fault, similar
from packager.base.values import Value, replace
from packager.kubernetes import configmap
from packager.package.path_checks import active_part, shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from packager.base.yamlio import Location
    from packager.modelspec.model import Spec

# Without regard to case, as some file systems have it.
_NAMES = r"cvs|id_(rsa|dsa|ecdsa|ed25519)|thumbs\.db|__pycache__"
_EMPTY = "expected files, found an empty folder"


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


class SpecFiles(Value, frozen=True):
    """The files of a spec."""

    files: tuple[SourceFile, ...]  # the code for the ConfigMaps, once for each list of the spec that names it
    assets: tuple[SourceFile, ...]  # files of any size
    dockerfile: SourceFile | None  # the image's
    # the paths in folders of assets that are left out: see `is_excluded`
    left_out: tuple[str, ...] = ()
    left_out_code: tuple[str, ...] = ()  # the same of a folder of code, or where a pattern matches
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


def is_excluded(name: str) -> bool:
    """Whether a file or folder called `name` is left out: .git, .env, .ssh, __pycache__ and the like."""
    return active_part(name) is not None or re.fullmatch(_NAMES, name, re.IGNORECASE) is not None


def collect(folder: Path, spec: Spec) -> tuple[SpecFiles, list[Fault]]:
    """Find every file that `spec` names below `folder`.

    Returns:
        The files that can be used, and why each of the others cannot: missing, not a file, or a link that leaves
        the folder (links inside it are followed: the package holds none).
    """
    faults: list[Fault] = []
    root = folder.resolve()
    left_out: set[str] = set()
    left_out_code: set[str] = set()

    def usable(found: Iterable[SourceFile | Fault]) -> Iterator[SourceFile]:
        for source in found:
            if isinstance(source, SourceFile):
                yield source
            else:
                faults.append(source)

    def one(name: str, location: Location) -> SourceFile | Fault:
        source = source_file(root, name)
        return Fault(location, source, _similar_name_hint(root, name)) if isinstance(source, str) else source

    contents: dict[str, tuple[bytes, int]] = {}
    files: list[SourceFile] = []
    for place, names in spec.code_lists():
        named = [_named(root, name, (*place, index), left_out_code) for index, name in enumerate(names)]
        files += read_code(usable(itertools.chain(*named)), contents)
    dockerfile = [one(spec.image.dockerfile, ("image", "dockerfile"))] if spec.image.dockerfile else []
    pages = [one(entry.file, ("documentation", index, "file")) for index, entry in enumerate(spec.documentation)]
    assets = [
        source
        for index, name in enumerate(spec.assets)
        for source in usable(_named(root, name, ("assets", index), left_out))
    ]
    return SpecFiles(
        tuple(files),
        tuple(source for _, source in sorted({source.name: source for source in assets}.items())),
        next(usable(dockerfile), None),
        tuple(sorted(left_out - set(spec.assets))),
        tuple(sorted(left_out_code.difference(*(names for _, names in spec.code_lists())))),
        tuple(usable(pages)),
    ), faults


def _named(root: Path, name: str, location: Location, left_out: set[str]) -> Iterator[SourceFile | Fault]:
    """Yield the files that one entry of a list names, or why they cannot be used."""
    is_code = location[0] != "assets"
    if part := active_part(name):
        message = f"a package contains no file or folder with the name {shown(part)}"
        yield Fault(location, message, None if is_code else "rename it")
        return
    hint, found = None, walk(root, name, left_out)
    if is_code and ("*" in name or "?" in name):
        matched = sorted(walk(root, "", left_out, name), key=lambda one: getattr(one, "name", "").split("/"))
        found = iter(matched)
    elif not _is_folder(root, name):
        hint = _similar_name_hint(root, name) if is_code else None
        found = iter((source_file(root, name),))
    for source in found:
        yield Fault(location, source, hint) if isinstance(source, str) else replace(source, place=location)


def read_code(found: Iterable[SourceFile], contents: dict[str, tuple[bytes, int]]) -> Iterable[SourceFile]:
    """Return the code of one list, in its order, each file once, and read unless it is too much anyway."""
    files: dict[str, SourceFile] = {}
    remaining = configmap.CODE_PARTS * configmap.CODE_BYTES
    for source in found:
        if source.name in files:
            continue
        remaining -= source.size
        if remaining >= 0 and source.name not in contents:
            content = source.path.read_bytes()
            contents[source.name] = content, configmap.encoded_size(content)
        of_file = contents[source.name] if remaining >= 0 else (None, None)
        files[source.name] = replace(source, content=of_file[0], encoded=of_file[1])
    return files.values()


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
    if may_leave and not real.is_relative_to(root):
        return f"{name} is a link that leaves the folder"
    if not stat.S_ISREG(info.st_mode):
        found = "a folder" if stat.S_ISDIR(info.st_mode) else "a special file"
        return f"expected a file, found {found}: {name}"
    if not os.access(real, os.R_OK):
        return f"{name} cannot be read: permission denied"
    # The name that the file's bytes spell in UTF-8, whatever the locale took them for.
    in_utf8 = name if name.isascii() else os.fsencode(name).decode("utf-8", "surrogateescape")
    return SourceFile(in_utf8, real, info.st_size, bool(info.st_mode & stat.S_IXUSR))


def _similar_name_hint(root: Path, name: str) -> str | None:
    """Return a hint for a missing file: an existing one with a similar name."""
    above = posixpath.dirname(name)
    try:
        beside = [posixpath.join(above, entry.name) for entry in (root / above).iterdir()]
    except OSError:  # no folder, or one that may not be listed
        return None
    return None if name in beside else similar(name, beside)


def walk(root: Path, name: str, left_out: set[str], pattern: str = "") -> Iterator[SourceFile | str]:
    """Yield the files below the folder `name` that match, or errors; add excluded files that match to `left_out`.

    In a pattern, `*` and `?` stand for part of a name, `**` for any number of folders. As in a shell, no wildcard
    stands for the dot at the start of a name. Links to folders are not followed.
    """
    top = (root / name).resolve()
    steps, form = pattern.split("/"), re.compile(_form(pattern) if pattern else ".*", re.DOTALL)
    is_active, is_empty, excluded_before = bool(active_part(name)), True, len(left_out)
    pending = [(name, str(top))]
    while pending:
        above, folder = pending.pop()
        try:
            with os.scandir(folder) as scanned:
                entries = sorted(scanned, key=lambda entry: entry.name)
        except OSError as error:
            is_empty = False
            yield f"{error.filename} cannot be read: {reason(error)}"
            continue
        folders = []
        for entry in entries:
            path = f"{above}/{entry.name}" if above else entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            # A file of a folder that matches may have the last name of the pattern.
            inside = f"{path}/{re.sub('[*?]+', 'x', steps[-1])}"
            is_match = form.fullmatch(path) or (is_folder and form.fullmatch(inside))
            if is_active or (is_excluded(entry.name) and entry.name not in steps):
                left_out.update([path] if is_match else [])
            elif is_folder and (not pattern or _may_contain(path.split("/"), steps)):
                folders.append((path, entry.path))
            elif not is_folder and is_match and not (pattern and entry.is_dir()):
                source = source_file(root, path, entry)
                if entry.is_symlink() and _leads_to_excluded(source, root, top):
                    left_out.add(path)
                else:
                    is_empty = False
                    yield source
        pending += reversed(folders)
    if is_empty and len(left_out) > excluded_before:
        yield f"expected files{f' that match {pattern}' if pattern else ''}, found only files that are excluded"
    elif is_empty:
        yield f"expected files that match {pattern}, found none" if pattern else f"{_EMPTY}: {name}"


def _form(pattern: str) -> str:
    """Return the regular expression for the paths that a pattern matches."""
    wildcards = {"*": "[^/]*", "?": "[^/]"}
    *above, last = pattern.split("/")
    steps = [*above, "**", "*"] if last == "**" else [*above, last]
    forms = [
        "(?:[^/.][^/]*/)*"
        if step == "**"
        else (r"(?!\.)" if step[0] in "*?" else "") + "".join(wildcards.get(one, re.escape(one)) for one in step) + "/"
        for step in steps
    ]
    return "".join(forms).removesuffix("/")


def _may_contain(parts: Sequence[str], steps: Sequence[str]) -> bool:
    """Whether a folder may contain what a pattern matches."""
    plain = list(itertools.takewhile(lambda step: step != "**", steps))
    is_deep = len(parts) < len(steps) or len(plain) < len(steps)
    return is_deep and all(fnmatch.fnmatchcase(*pair) for pair in zip(parts, plain, strict=False))


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

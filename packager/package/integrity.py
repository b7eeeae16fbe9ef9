"""Compares a package's files with its inventory: missing, extra, changed or edited.

Folders that runs, or the user, have made beside the package's own are accepted: a storage option may mount its folder.

Tests: package/test_opened.py.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from typing import TYPE_CHECKING

from packager.base.errors import ToolError
from packager.base.paths import argument
from packager.base.problems import Problem
from packager.base.values import Value, field, replace
from packager.package import layout, path_checks, placement, tree
from packager.package.layout import INVENTORY, is_editable
from packager.package.options import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from packager.base.paths import Limits
    from packager.package.opened import Package

_ENV_BYTES = 1 << 20
"""The bytes of a ConfigMap that Kubernetes accepts; an env file becomes one."""

_ADDED_BYTES = 64 << 10
"""The most bytes of a file of a component that a site adds: more than people write, or read."""

_KUSTOMIZATIONS = frozenset(name.casefold() for name in layout.KUSTOMIZATIONS)


class Checked(Value, frozen=True):
    """The result of checking a package's files."""

    package: Package  # the package as if it had been sealed with the components of the options that were added
    problems: list[Problem]  # the problems of the files
    edits: list[str]  # the paths of the edited files that people may edit
    unread: list[ToolError]  # the errors about files that could not be read; such files are neither valid nor invalid
    notes: list[Problem] = field(default_factory=list)  # the files in the package's folder that are not part of it
    # the digest of all files, see `received_digest`; None if there are problems, or files unread
    received: str | None = None
    # the names of the options that were added to the package, as the build would have made them
    options: tuple[str, ...] = ()


def check(package: Package, limits: Limits) -> Checked:
    """Compare the package's files with its inventory."""
    entries = {entry.path: entry for entry in tree.walk(package.folder, limits)}
    problems: list[Problem] = list(_mode_problems(package, entries.pop(INVENTORY), "0644"))
    package, options = with_added_options(package, entries)
    sealed = package.inventory["files"]
    edits: list[str] = []
    unread: list[ToolError] = []
    for path in sealed:
        if not layout.is_part(path):
            problems.append(Problem(package.shown(path), 0, 0, "no build makes a file at this place of a package"))
        if path not in entries:
            problems.append(Problem(package.shown(path), 0, 0, "a file of the package is missing"))
            continue
        try:
            problems += _content_problems(package, entries[path], edits)
        except ToolError as error:
            unread.append(error)
        problems += _mode_problems(package, entries[path], sealed[path]["mode"])
    problems += _unlisted_files(package, entries, edits)
    for path, text in package.inventory["editable"].items():
        if hashlib.sha256("\n".join(text).encode(errors="surrogatepass")).hexdigest() != sealed[path]["sha256"]:
            message = f"the lines of {path_checks.shown(path)} here do not match its digest"
            problems.append(Problem(package.shown(INVENTORY), 0, 0, message))
    problems += _overlooked_kustomizations(package, entries)
    problems += _values_component(package)
    received = None if problems or unread else received_digest(package, edits)
    return Checked(package, problems, edits, unread, list(_notes(package, options)), received, options)


def with_added_options(package: Package, entries: Mapping[str, tree.Entry]) -> tuple[Package, tuple[str, ...]]:
    """Return a package as if it had been sealed with the options that were added to it since, and their names.

    These are options whose components have the digests that the build has put into the inventory.
    """
    expected = {name: digest for name, digest in package.inventory.get("options", {}).items() if name in BY_NAME}
    components: dict[str, dict[str, str]] = {}
    for path in sorted(entries.keys() - package.inventory["files"].keys()):
        name = layout.component_of(path)
        if name is not None and name in expected and entries[path].size <= _ADDED_BYTES:
            components.setdefault(name, {})[path] = package.reader.digest(path)
    added = [name for name, files in components.items() if tree.component_digest(files) == expected[name]]
    if not added:
        return package, ()
    digests = {path: digest for name in added for path, digest in components[name].items()}
    editable: dict[str, list[str]] = {}
    for path in filter(layout.is_placement, digests):
        built = placement.built(package.name)
        digests[path], editable[path] = hashlib.sha256(built).hexdigest(), built.decode().split("\n")
    files = {path: {"mode": "0644", "sha256": digest} for path, digest in digests.items()}
    sealed = {
        **package.inventory,
        "files": {**package.inventory["files"], **files},
        "editable": {**package.inventory["editable"], **editable},
    }
    return replace(package, inventory=sealed), tuple(added)


def received_digest(package: Package, edits: Iterable[str] = ()) -> str:
    """Return the digest of all files of the package as they are, edits included; `edits` may name added files.

    It is that of a list with a line for each file, of its sha256, two blanks and its path: what
    `find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum` prints in the folder that an archive
    was unpacked to. If a name has backslashes, GNU's sha256sum doubles them, and the line begins with one.
    """
    hashed = hashlib.sha256()
    for name in sorted({*package.inventory["files"], *edits, INVENTORY}):
        mark, escaped = "\\" * ("\\" in name), name.replace("\\", "\\\\")
        hashed.update(f"{mark}{package.reader.digest(name)}  ./{escaped}\n".encode())
    return f"sha256:{hashed.hexdigest()}"


def changed(package: Package) -> Iterator[str]:
    """Yield the path of each file that differs from its sealed digest."""
    for path, seal in package.inventory["files"].items():
        if (package.folder / path).exists() and package.reader.digest(path) != seal["sha256"]:
            yield path


def unlisted(package: Package, entries: Mapping[str, tree.Entry]) -> list[str]:
    """Return the paths of the files that the inventory does not list, and that neither a run nor a tool has written."""
    paths = sorted(entries.keys() - package.inventory["files"].keys())
    if package.folder != package.source:
        return paths
    return [path for path in paths if not (tree.is_of_tool(path) or _is_own(path))]


def _is_own(path: str) -> bool:
    """Whether a run, or the user, may have made a file: in a folder where no build makes files.

    Neither kubectl, git nor other programs act on its name.
    """
    is_known = path.rpartition("/")[2].casefold() in _KUSTOMIZATIONS or path_checks.active_part(path) is not None
    return "/" in path and not layout.is_part(path) and not is_known


def _content_problems(package: Package, entry: tree.Entry, edits: list[str]) -> Iterator[Problem]:
    """Yield a finding if a file differs from its sealed digest, or add it to `edits` if people may edit it."""
    path, file = entry.path, package.shown(entry.path)
    if is_editable(path) and entry.size > _ENV_BYTES:  # its digest would take seconds for a gigabyte
        yield Problem(file, 0, 0, f"the file is larger than {_ENV_BYTES >> 10:,} KiB, the limit of a Kubernetes object")
    elif package.reader.digest(path) != package.inventory["files"][path]["sha256"]:
        if is_editable(path) and package.sealed(path) is not None:
            edits.append(path)
        else:
            yield Problem(file, 0, 0, "the content differs from what the package was sealed with")


def _mode_problems(package: Package, entry: tree.Entry, mode: str) -> Iterator[Problem]:
    if f"{entry.mode:04o}" != mode:
        message = f"expected the mode {mode}, found {entry.mode:04o}"
        fix = shlex.join(["chmod", mode, argument(package.source / entry.path)])
        yield Problem(package.shown(entry.path), 0, 0, message, fix if package.folder == package.source else None)


def _notes(package: Package, options: Iterable[str]) -> Iterator[Problem]:
    """Yield a note for each option that was added, and for each thing in the folder that no command looks at."""
    for name in options:
        paths = [path for path in package.inventory["files"] if layout.component(path) == (name, layout.KUSTOMIZATION)]
        yield Problem(package.shown(paths[0] if paths else INVENTORY), 0, 0, f"option {name} added")
    for name in sorted(tree.IGNORED_NAMES):
        if os.path.lexists(package.folder / name):
            message = "it is not part of the package, and was not looked at; git runs programs that are named in it"
            yield Problem(package.shown(name), 0, 0, message)


def _unlisted_files(package: Package, entries: Mapping[str, tree.Entry], edits: list[str]) -> Iterator[Problem]:
    """Yield a finding for each unlisted file, or add it to `edits` if it is of a component that a site may add."""
    changed_options: dict[str | None, str] = {}
    for path in unlisted(package, entries):
        if layout.is_added(path) and entries[path].size <= _ADDED_BYTES and not entries[path].executable:
            edits.append(path)
        elif (name := layout.component_of(path)) in package.inventory.get("options", {}):
            changed_options.setdefault(name, path)
        else:
            message = "the package was not sealed with this file"
            fix = f"own manifests go to {layout.ADDED}/NAME: mlpack configure {argument(package.source)} --with ./NAME"
            is_manifest = path.startswith(f"{layout.OVERLAYS}/") and path.endswith((".yaml", ".yml"))
            yield Problem(package.shown(path), 0, 0, message, fix if is_manifest else None)
    for name, path in changed_options.items():
        message = f"the option {name} was changed after it was added"
        fix = f"mlpack configure {argument(package.source)} --with {name} adds it again"
        yield Problem(package.shown(path), 0, 0, message, fix)


def _overlooked_kustomizations(package: Package, entries: Mapping[str, tree.Entry]) -> Iterator[Problem]:
    """Yield a finding for each folder that kubectl accepts as an overlay and no check would look at."""
    # The folders in `quickstart` with kustomizations that overlays include, or may include as options.
    included = (f"{layout.SCRIPTS}/", layout.COMMON.partition("*")[0], f"{layout.ADDED}/")
    for path in sorted(path for path in entries if layout.overlay_of(path) is None):
        is_included = not path.startswith(f"{layout.QUICKSTART}/") or path.startswith(included)
        if path.rpartition("/")[2].casefold() in _KUSTOMIZATIONS and not is_included:
            message = "kubectl would use this as an overlay, but it is not one of the package's"
            hint = f"an overlay is {layout.kustomization('NAME')}"
            yield Problem(package.shown(path), 0, 0, message, hint)


def _values_component(package: Package) -> Iterator[Problem]:
    """Yield a finding if an overlay outside of the package lacks the component that puts its values into it."""
    if overlay := package.outside:
        for file, content in overlay.extras(package.name):
            if file.name == layout.KUSTOMIZATION and (not file.is_file() or file.read_bytes() != content):
                yield Problem(str(file), 0, 0, "it is not as `mlpack overlay` writes it", overlay.carry_over)

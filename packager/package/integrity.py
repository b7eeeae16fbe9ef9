"""Compares a package's files with its inventory: missing, extra, changed or edited. Tests: package/test_opened.py."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from typing import TYPE_CHECKING

from packager.base.errors import ToolError
from packager.base.paths import argument
from packager.base.problems import Problem
from packager.base.values import Value, field, replace
from packager.package import inventory, layout, outputs, path_checks, placement, tree
from packager.package.layout import INVENTORY, is_editable
from packager.package.options import BY_NAME
from packager.package.outputs import ENV_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from packager.base.limits import Limits
    from packager.package.opened import Package


_ADDED_BYTES = 64 << 10
"""The most bytes of a file of a component that a site adds: more than people write, or read."""

_INVENTORY_MODE = "0644"
_INCLUDED = (f"{layout.SCRIPTS}/", layout.COMMON[: layout.COMMON.index("*")], f"{layout.ADDED}/")
"""The folders in `quickstart` with kustomizations that overlays include, or may include as options."""

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
    """Compare the package's files with its inventory.

    Files that runs have written into the package's folder are accepted: a storage option may mount that folder.

    Raises:
        VerificationError: The folder contains something other than files of a package, such as a link.
        ToolError: A folder cannot be read.
    """
    entries = {entry.path: entry for entry in tree.walk(package.folder, limits)}
    problems: list[Problem] = list(_mode_problems(package, entries.pop(INVENTORY), _INVENTORY_MODE))
    package, options = with_added_options(package, entries)
    sealed = package.inventory["files"]
    edits: list[str] = []
    unread: list[ToolError] = []
    lines = _inventory_lines(package)
    for path in sealed:
        if not layout.is_part(path):
            problems.append(Problem(package.shown(path), 0, 0, "no build makes a file at this place of a package"))
        if path not in entries:
            message = f"{path} is listed here but missing"
            problems.append(Problem(package.shown(INVENTORY), lines.get(path, 1), 5, message))
            continue
        try:
            problems += _content_problems(package, entries[path], edits)
        except ToolError as error:
            unread.append(error)
        problems += _mode_problems(package, entries[path], sealed[path]["mode"])
    problems += _unlisted_files(package, entries, edits)
    problems += _mismatched_lines(package, lines)
    problems += _overlooked_kustomizations(package, entries)
    received = None if problems or unread else received_digest(package, edits)
    notes = [_option_note(package, name) for name in options]
    return Checked(package, problems, edits, unread, [*notes, *_ignored(package)], received, options)


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
    inventory = {
        **package.inventory,
        "files": {**package.inventory["files"], **files},
        "editable": {**package.inventory["editable"], **editable},
    }
    return replace(package, inventory=inventory), tuple(added)


def _option_note(package: Package, name: str) -> Problem:
    paths = [path for path in package.inventory["files"] if layout.component(path) == (name, layout.KUSTOMIZATION)]
    return Problem(package.shown(paths[0] if paths else INVENTORY), 0, 0, f"option {name} added")


def received_digest(package: Package, edits: Iterable[str] = ()) -> str:
    """Return the digest of all files of the package as they are, edits included; `edits` may name added files.

    It is that of a list with a line for each file, of its sha256, two blanks and its path: what
    `find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum` prints in the folder that an archive
    was unpacked to.
    """
    names = sorted({*package.inventory["files"], *edits, INVENTORY})
    lines = "".join(_listed(name, package.reader.digest(name)) for name in names)
    return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


def _listed(name: str, digest: str) -> str:
    """Return the line of GNU's sha256sum: if a name has backslashes, they are doubled and the line begins with one."""
    mark = "\\" if "\\" in name else ""
    return f"{mark}{digest}  ./{name.replace(mark, mark * 2) if mark else name}\n"


def _content_problems(package: Package, entry: tree.Entry, edits: list[str]) -> Iterator[Problem]:
    """Yield a finding if a file differs from its sealed digest, or add it to `edits` if people may edit it."""
    path, file = entry.path, package.shown(entry.path)
    may_be_edited = is_editable(path) and package.sealed(path) is not None
    if is_editable(path) and entry.size > ENV_BYTES:  # its digest would take seconds for a gigabyte
        yield Problem(file, 0, 0, f"the file is larger than {ENV_BYTES >> 10:,} KiB, the limit of a Kubernetes object")
        return
    if package.reader.digest(path) == package.inventory["files"][path]["sha256"]:
        return
    if may_be_edited:
        edits.append(path)
    else:
        yield Problem(file, 0, 0, "the content differs from what the package was sealed with")


def _mode_problems(package: Package, entry: tree.Entry, mode: str) -> Iterator[Problem]:
    if f"{entry.mode:04o}" != mode:
        message = f"expected the mode {mode}, found {entry.mode:04o}"
        fix = shlex.join(["chmod", mode, argument(package.source / entry.path)])
        yield Problem(package.shown(entry.path), 0, 0, message, fix if package.folder == package.source else None)


def _ignored(package: Package) -> Iterator[Problem]:
    """Yield a note for each thing in the package's folder that no command looks at."""
    for name in sorted(tree.IGNORED_NAMES):
        if os.path.lexists(package.folder / name):
            message = "it is not part of the package, and was not looked at; git runs programs that are named in it"
            yield Problem(package.shown(name), 0, 0, message)


def changed(package: Package) -> Iterator[str]:
    """Yield the path of each file that differs from its sealed digest."""
    for path, seal in package.inventory["files"].items():
        if (package.folder / path).exists() and package.reader.digest(path) != seal["sha256"]:
            yield path


def _unlisted_files(package: Package, entries: Mapping[str, tree.Entry], edits: list[str]) -> Iterator[Problem]:
    """Yield a finding for each unlisted file, or add it to `edits` if it is of a component that a site may add."""
    changed: dict[str | None, str] = {}
    for path in unlisted(package, entries):
        if layout.is_added(path) and entries[path].size <= _ADDED_BYTES and not entries[path].executable:
            edits.append(path)
            continue
        if (name := layout.component_of(path)) in package.inventory.get("options", {}):
            changed.setdefault(name, path)
            continue
        message = "the package was not sealed with this file"
        fix = f"own manifests go to {layout.ADDED}/NAME: mlpack configure {argument(package.source)} --with ./NAME"
        is_manifest = path.startswith(f"{layout.OVERLAYS}/") and path.endswith((".yaml", ".yml"))
        yield Problem(package.shown(path), 0, 0, message, fix if is_manifest else None)
    for name, path in changed.items():
        message = f"the option {name} was changed after it was added"
        fix = f"mlpack configure {argument(package.source)} --with {name} adds it again"
        yield Problem(package.shown(path), 0, 0, message, fix)


def unlisted(package: Package, entries: Mapping[str, tree.Entry]) -> list[str]:
    """Return the paths of the files that the inventory does not list, and that neither a run nor a tool has written."""
    paths = sorted(entries.keys() - package.inventory["files"].keys())
    if package.folder != package.source:
        return paths
    results = tuple(_results(package))
    return [path for path in paths if not tree.is_of_tool(path) and not (path.startswith(results) and _is_result(path))]


def _results(package: Package) -> Iterator[str]:
    """Yield the folders that the sealed spec lets pods write to, if their top folders contain no sealed files."""
    sealed_tops = {path.partition("/")[0] for path in package.inventory["files"]}
    for name in package.overlays:
        for _, folder in outputs.inside(package, layout.env(name), sealed=True):
            if folder.partition("/")[0] not in sealed_tops:
                yield f"{folder}/"


def _is_result(path: str) -> bool:
    """Return whether a run may have written the file: neither kubectl, git nor other programs act on its name."""
    return path.rpartition("/")[2].casefold() not in _KUSTOMIZATIONS and path_checks.active_part(path) is None


def _overlooked_kustomizations(package: Package, entries: Mapping[str, tree.Entry]) -> Iterator[Problem]:
    """Yield a finding for each folder that kubectl accepts as an overlay and no check would look at."""
    for path in sorted(path for path in entries if layout.overlay_of(path) is None):
        is_included = not path.startswith(f"{layout.QUICKSTART}/") or path.startswith(_INCLUDED)
        if path.rpartition("/")[2].casefold() in _KUSTOMIZATIONS and not is_included:
            message = "kubectl would use this as an overlay, but it is not one of the package's"
            hint = f"an overlay is {layout.kustomization('NAME')}"
            yield Problem(package.shown(path), 0, 0, message, hint)


def _mismatched_lines(package: Package, lines: dict[str, int]) -> Iterator[Problem]:
    """Yield a finding for every file whose lines, in the inventory, are not those of its digest there."""
    for path, text in package.inventory["editable"].items():
        seal = package.inventory["files"].get(path)
        if seal is None or hashlib.sha256("\n".join(text).encode(errors="surrogatepass")).hexdigest() != seal["sha256"]:
            message = f"the lines of {path_checks.shown(path)} here do not match its digest"
            yield Problem(package.shown(INVENTORY), lines.get(path, 1), 5, message)


def _inventory_lines(package: Package) -> dict[str, int]:
    """Return the line of each file in the inventory, as far as it has lines."""
    line_numbers: dict[str, int] = {}
    text = inventory.content(package.folder).decode("utf-8", "replace")
    for number, line in enumerate(text.splitlines(), start=1):
        if match := re.fullmatch(r'\s*"([^"\\]+)": \{.*', line):
            line_numbers[match[1]] = number
    return line_numbers

"""Compares a package's files with its inventory: missing, extra, changed, or edited where that is allowed."""

from __future__ import annotations

import hashlib
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base import envfile
from packager.base.errors import ToolError
from packager.base.paths import argument
from packager.base.problems import Problem
from packager.package import contents, inventory, layout, tree
from packager.package.editable import is_editable
from packager.package.layout import INVENTORY, OVERLAYS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.package.limits import Limits
    from packager.package.opened import Package


_OVERLAYS_PARENT = OVERLAYS[: OVERLAYS.rindex("/") + 1]
_KUSTOMIZATIONS = frozenset(name.casefold() for name in layout.KUSTOMIZATIONS)

_ENV_BYTES = 1 << 20
"""What Kubernetes takes of a ConfigMap, which an env file becomes."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of checking a package's files.

    Attributes:
        problems: What is wrong with them.
        edits: The paths of those that were edited, and may be.
        unread: Why some could not be read: these are neither good nor bad.
    """

    problems: list[Problem]
    edits: list[str]
    unread: list[ToolError]


def check(package: Package, limits: Limits) -> Checked:
    """Compare the package's files with its inventory.

    What runs of the package have written into it is no damage: a storage option may mount the package's own folder.

    Raises:
        VerificationError: Something in the folder is no file of a package: a link, say.
        ToolError: A folder cannot be read.
    """
    sealed = package.inventory["files"]
    entries = {entry.path: entry for entry in tree.walk(package.folder, limits) if entry.path != INVENTORY}
    problems: list[Problem] = []
    edits: list[str] = []
    unread: list[ToolError] = []
    lines = _inventory_lines(package)
    for path, seal in sealed.items():
        entry = entries.get(path)
        if entry is None:
            message = f"{path} is listed here but missing"
            problems.append(Problem(package.shown(INVENTORY), lines.get(path, 1), 5, message))
            continue
        file = package.shown(path)
        may_be_edited = is_editable(path)
        # No check reads a longer file, so its digest, which takes seconds for a gigabyte, is not computed either.
        is_too_long = may_be_edited and entry.size > _ENV_BYTES
        try:
            digest = None if is_too_long else package.reader.digest(path)
        except ToolError as error:
            unread.append(error)
            continue
        if digest != seal["sha256"]:
            if may_be_edited:
                edits.append(path)
            else:
                problems.append(Problem(file, 0, 0, "the content differs from what the package was sealed with"))
        if f"{entry.mode:04o}" != seal["mode"]:
            message = f"expected the mode {seal['mode']}, found {entry.mode:04o}"
            fix = shlex.join(["chmod", seal["mode"], argument(package.source / path)])
            problems.append(Problem(file, 0, 0, message, fix if package.folder == package.source else None))
    try:
        problems += _unlisted_files(package, entries)
    except ToolError as error:  # where runs write is not known
        unread.append(error)
    problems += _mismatched_lines(package, lines)
    problems += _overlooked_kustomizations(package, entries)
    return Checked(problems, edits, unread)


def _unlisted_files(package: Package, entries: Mapping[str, tree.Entry]) -> Iterator[Problem]:
    """Yield a finding for every file that the inventory does not list, and that no run has written."""
    results = tuple(_results(package, entries)) if package.folder == package.source else ()
    for path in sorted(entries.keys() - package.inventory["files"].keys()):
        if not path.startswith(results):
            yield Problem(package.shown(path), 0, 0, "the package was not sealed with this file")


def _results(package: Package, entries: Mapping[str, tree.Entry]) -> Iterator[str]:
    """Yield the folders in the package that its overlays write results to; none that the package has files in."""
    for name in package.overlays:
        path = layout.env(name)
        is_short = path in entries and entries[path].size <= _ENV_BYTES
        text = package.reader.read(path, _ENV_BYTES) if is_short else b""
        values = {line.key: line.value for line in envfile.lines(text)}
        root, output = (f"{values.get(key, '').rstrip('/')}/" for key in ("MODEL_DIR", "OUTPUT_DIR"))
        folder = output.removeprefix(root)
        if (
            len(root) > 1
            and folder not in (output, "")
            and not any(sealed.startswith(folder) for sealed in package.inventory["files"])
        ):
            yield folder


def _overlooked_kustomizations(package: Package, entries: Mapping[str, tree.Entry]) -> Iterator[Problem]:
    """Yield a finding for each folder that kubectl accepts as an overlay and no check would look at."""
    overlays = set(map(layout.kustomization, package.applied))
    for path in sorted(entries.keys() - overlays):
        if path.startswith(_OVERLAYS_PARENT) and path.rpartition("/")[2].casefold() in _KUSTOMIZATIONS:
            message = "kubectl would use this as an overlay, but it is not one of the package's"
            hint = f"an overlay is {layout.kustomization('NAME')}"
            yield Problem(package.shown(path), 0, 0, message, hint)


def _mismatched_lines(package: Package, lines: dict[str, int]) -> Iterator[Problem]:
    """Yield a finding for every file whose lines, in the inventory, are not those of its digest there."""
    for path, text in package.inventory.get("editable", {}).items():
        seal = package.inventory["files"].get(path)
        if seal is None or hashlib.sha256("\n".join(text).encode(errors="surrogatepass")).hexdigest() != seal["sha256"]:
            message = f"the lines of {contents.shown(path)} here do not match its digest"
            yield Problem(package.shown(INVENTORY), lines.get(path, 1), 5, message)


def _inventory_lines(package: Package) -> dict[str, int]:
    """Return the line of each file in the inventory, as far as it has lines."""
    line_numbers: dict[str, int] = {}
    text = inventory.content(package.folder).decode("utf-8", "replace")
    for number, line in enumerate(text.splitlines(), start=1):
        if match := re.fullmatch(r'\s*"([^"\\]+)": \{.*', line):
            line_numbers[match[1]] = number
    return line_numbers

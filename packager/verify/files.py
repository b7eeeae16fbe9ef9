"""A package's files against its manifest: missing, extra, changed; or edited, as some are meant to be."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from packager import tree
from packager.manifest import MANIFEST
from packager.problems import Problem

if TYPE_CHECKING:
    from packager.contents import Limits
    from packager.package import Package

# What the README tells people to edit, and what `mlpack configure` edits for them.
_EDITABLE = re.compile(
    r"quickstart/k8s/mlops/[^/]+/([^/]+\.env|[^/]*-?patch\.yaml|kustomization\.yaml)"
    r"|quickstart/common/[^/]+/k8s/mlops/((?!base/)[^/]+/[^/]+\.env|site/placement\.yaml|gpu/kustomization\.yaml)"
)


def check(package: Package, limits: Limits) -> tuple[list[Problem], list[str]]:
    """Return what is wrong with the package's files, and the files that were edited.

    Raises:
        VerificationError: Something in the folder is no file of a package: a link, say.
        ToolError: A file cannot be read.
    """
    sealed = package.manifest["files"]
    entries = {entry.path: entry for entry in tree.read(package.folder, limits).entries}
    problems: list[Problem] = []
    edits: list[str] = []
    lines = _lines(package)
    for path, seal in sealed.items():
        entry = entries.get(path)
        if entry is None:
            message = f"{path} is listed here, and missing"
            problems.append(Problem(package.shown(MANIFEST), lines.get(path, 1), 5, message))
            continue
        file = package.shown(path)
        if _digest(entry) != seal["sha256"]:
            if _EDITABLE.fullmatch(path):
                edits.append(file)
            else:
                problems.append(Problem(file, 0, 0, "the content is not what the package was sealed with"))
        if f"{entry.mode:04o}" != seal["mode"]:
            message = f"expected the mode {seal['mode']}, found {entry.mode:04o}"
            problems.append(Problem(file, 0, 0, message, f"chmod {seal['mode']} {file}"))
    problems += [
        Problem(package.shown(path), 0, 0, "the package was not sealed with this file")
        for path in sorted(entries.keys() - sealed.keys())
    ]
    return problems, edits


def _digest(entry: tree.Entry) -> str:
    hashed = hashlib.sha256()
    for chunk in tree.chunks(entry):
        hashed.update(chunk)
    return hashed.hexdigest()


def _lines(package: Package) -> dict[str, int]:
    """Return the line of the manifest that each file stands in, as far as it has lines."""
    found: dict[str, int] = {}
    text = (package.folder / MANIFEST).read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), start=1):
        if match := re.fullmatch(r'\s*"([^"\\]+)": \{.*', line):
            found[match[1]] = number
    return found

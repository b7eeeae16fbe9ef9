"""The entries of one kustomization, and the paths that they name: each in the package, or a finding."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from packager.contents import ContentError, normal, shown
from packager.problems import similar
from packager.verify.origins import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.verify.sources import Sources
    from packager.yamlio import Document, Location


class Entries:
    """What stands in a kustomization.

    Attributes:
        sources: What is noted of the overlay that draws it in.
        folder: The kustomization's, below the package's root.
        document: The kustomization itself.
    """

    def __init__(self, sources: Sources, folder: str, document: Document) -> None:
        self.sources = sources
        self.folder = folder
        self.document = document

    def entries(self, key: str, above: Location = ()) -> Iterator[tuple[Location, Any]]:
        """Yield each entry of the list at `key`, and where it stands; a finding, when it is no list."""
        holder: Any = self.document.data
        for step in above:
            holder = holder[step]
        value = holder.get(key)
        if isinstance(value, list):
            for index, entry in enumerate(value):
                yield (*above, key, index), entry
        elif value is not None:
            self.refuse((*above, key), "expected a list")

    def inside(self, entry: Any, location: Location) -> str | None:
        """Return the path in the package that `entry` names; None, and a finding, when it names none."""
        if not isinstance(entry, str) or not entry:
            self.refuse(location, "expected a path")
            return None
        path = posixpath.normpath(posixpath.join(self.folder, entry))
        if "://" in entry or "?" in entry or entry.startswith(("git@", "github.com/")):
            self.refuse(location, f"{shown(entry)} is fetched from elsewhere, and a package brings all it needs")
        elif path.startswith(("/", "..")):
            self.refuse(location, f"{shown(entry)} leads out of the package")
        elif not _can_be(path) or not self.sources.path(path).exists():
            folder = self.sources.path(posixpath.dirname(path))
            there = [found.name for found in folder.iterdir()] if _can_be(path) and folder.is_dir() else []
            self.refuse(location, f"there is no {shown(entry)}", similar(posixpath.basename(path), there))
        else:
            return path
        return None

    def file(self, entry: Any, location: Location) -> str | None:
        """Return the path of a file that has to lie below the kustomization; None, and a finding, if it does not."""
        path = self.inside(entry, location)
        if path is None:
            return None
        if not path.startswith(f"{self.folder}/"):
            self.refuse(location, "kustomize reads no file from outside the kustomization's folder")
        elif self.sources.path(path).is_dir():
            self.refuse(location, f"{shown(entry)} is a folder")
        else:
            return path
        return None

    def place(self, location: Location) -> Place:
        """Return where the value at `location` stands."""
        problem = self.document.problem(location, "")
        return Place(problem.file, problem.line, problem.column)

    def find(self, location: Location, message: str, hint: str | None = None) -> None:
        """Note a finding with a key, which kustomize puts up with."""
        self.sources.problems.append(self.document.problem(location, message, hint=hint, at_key=True))

    def refuse(self, location: Location, message: str, hint: str | None = None, *, at_key: bool = False) -> None:
        """Note a finding that kustomize refuses the overlay for."""
        self.sources.refuse(self.document.problem(location, message, hint=hint, at_key=at_key))


def _can_be(path: str) -> bool:
    """Whether a package can hold a file of this name; the system would not even look for one that is too long."""
    try:
        return bool(normal(path))
    except ContentError:
        return False

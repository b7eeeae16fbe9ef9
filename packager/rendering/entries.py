"""Reads the entries of a kustomization: their paths must be in the package. Tests: verify/test_messages.py."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Any

from packager.base.problems import similar
from packager.package.path_checks import ContentError, normalized, shown
from packager.rendering.origins import Position

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.yamlio import Document, Location
    from packager.rendering.sources import Sources


# Entries that kustomize reads as addresses even if a file or folder of this name exists: for files, those with a
# scheme (api/internal/loader, `IsRemoteFile`); for folders, also those with `user@`, GitHub and Azure's `_git/` without
# a scheme (api/internal/git, `NewRepoSpecFromURL`).
_REMOTE_FILE = re.compile(r"[:?]")
_REMOTE_FOLDER = re.compile(r"[:?]|^[^/]*@|^github\.com/|_git/", re.IGNORECASE)

# Each part is a name: not empty, and without characters that Go's net/url, a shell or a terminal interprets.
_PLAIN = re.compile(r"[\w.+@,-][\w.+@, -]*(/[\w.+@,-][\w.+@, -]*)*/?")


class Entries:
    """The entries of a kustomization."""

    def __init__(self, sources: Sources, folder: str, document: Document) -> None:
        self.sources = sources  # the files and problems of the overlay that includes the kustomization
        self.folder = folder  # the folder of the kustomization, below the package's root
        self.document = document  # the content of the kustomization

    def entries(self, key: str, above: Location = ()) -> Iterator[tuple[Location, Any]]:
        """Yield each entry of the list at `key` and its location; note a finding if the value is not a list."""
        holder: Any = self.document.data
        for step in above:
            holder = holder[step]
        value = holder.get(key)
        if isinstance(value, list):
            for index, entry in enumerate(value):
                yield (*above, key, index), entry
        elif value is not None:
            self.refuse((*above, key), "expected a list")

    def resolved(self, entry: Any, location: Location, remote: re.Pattern[str] = _REMOTE_FOLDER) -> str | None:
        """Return the path of the file or folder that `entry` names; None, with a finding, if the package has none.

        Args:
            entry: A path, from the kustomization's folder.
            location: The location of the entry.
            remote: The pattern of entries that kustomize reads as addresses.
        """
        if not isinstance(entry, str) or not entry:
            self.refuse(location, "expected a path")
            return None
        path = posixpath.normpath(posixpath.join(self.folder, entry))
        if remote.search(entry):
            self.refuse(location, f"{shown(entry)} is fetched from elsewhere, but a package must contain all it needs")
        elif path.startswith(("/", "..")):
            self.refuse(location, f"{shown(entry)} leads out of the package")
        elif not _is_possible_path(path) or not self.sources.exists(path):
            names = self.sources.names(posixpath.dirname(path)) if _is_possible_path(path) else []
            self.refuse(location, f"there is no {shown(entry)}", similar(posixpath.basename(path), names))
        elif not _PLAIN.fullmatch(entry):
            hint = "between '/' expected letters, digits, blanks and '._-+@,'"
            self.refuse(location, f"{shown(entry)} is not a plain path", hint)
        elif not self.sources.is_file(path) and not self.sources.is_folder(path):
            self.refuse(location, f"{shown(entry)} is neither a plain file nor a folder, or a link leads there")
        else:
            return path
        return None

    def file(self, entry: Any, location: Location) -> str | None:
        """Return the path of a file below the kustomization's folder; None, with a finding, if there is none."""
        path = self.resolved(entry, location, _REMOTE_FILE)
        if path is None:
            return None
        if not path.startswith(f"{self.folder}/"):
            self.refuse(location, "kustomize reads no files outside the kustomization's folder")
        elif self.sources.is_folder(path):
            self.refuse(location, f"{shown(entry)} is a folder")
        elif self.sources.read(path) is not None:
            return path
        return None

    def position(self, location: Location) -> Position:
        """Return the place of the value at `location`."""
        problem = self.document.problem(location, "")
        return Position(problem.file, problem.line, problem.column)

    def refuse(self, location: Location, message: str, hint: str | None = None, *, at_key: bool = False) -> None:
        """Note a finding for which kustomize would refuse the overlay."""
        self.sources.refuse(self.document.problem(location, message, hint=hint, at_key=at_key))


def _is_possible_path(path: str) -> bool:
    """Whether a package can contain this path; the system cannot look up a path that is too long."""
    try:
        return bool(normalized(path))
    except ContentError:
        return False

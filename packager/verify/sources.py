"""What an overlay is made of, as it is read: where things are written, and what is wrong with the files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager import yamlio
from packager.verify.origins import Place

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from packager.problems import Problem
    from packager.verify.origins import Origin
    from packager.yamlio import Document


class Sources:
    """The files of one overlay and of all that it draws in.

    Attributes:
        origins: Where things are written, in the order in which kustomize applies them.
        problems: What is wrong with the files.
        broken: Whether kustomize would refuse them, or must not be asked.
        components: The folder of each component, and where it is listed.
        shown: Says how messages name a path of the package.
        kustomizations: The overlay's own first, then those it draws in, the nearest first.
        start: Where the overlay begins: what a finding points at that has no better place.
    """

    def __init__(self, root: Path, shown: Callable[[str], str], start: str) -> None:
        self.origins: list[Origin] = []
        self.problems: list[Problem] = []
        self.broken = False
        self.components: list[tuple[str, Place]] = []
        self.kustomizations: list[Document] = []
        self.shown = shown
        self.start = Place(shown(start), 1, 1)
        self._root = root

    def path(self, path: str) -> Path:
        """Return where the package's file or folder `path` is on disk."""
        return self._root / path

    def refuse(self, problem: Problem) -> None:
        """Note a problem that kustomize would refuse the overlay for."""
        self.broken = True
        self.problems.append(problem)

    def documents(self, path: str) -> list[Document]:
        """Return the YAML documents of a file that is there; none when they cannot be read, which is noted."""
        with self.path(path).open("rb") as stream:
            documents, problems = yamlio.load_all(stream.read(yamlio.MAX_BYTES + 1), self.shown(path))
        for problem in problems:
            self.refuse(problem)
        return documents

"""Reads the texts of a cube, with references to its other keys and to the runner's own names replaced.

Tests: modelspec/importers/mlcube/test_read.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.modelspec.importers.mlcube.interpolation import WORKSPACES, InterpolationError, references, resolved
from packager.modelspec.importers.source import ForeignValue

if TYPE_CHECKING:
    from collections.abc import Mapping

MOUNT = "/mnt/mlcube"
"""The folder of a container below which each claim is mounted at its name."""


class Texts:
    """The texts of one cube.

    Attributes:
        show_workspace: Whether a text that a program gets contains the path of the workspace.
    """

    def __init__(self, root: ForeignValue) -> None:
        self.show_workspace = False
        self._root = root

    def text(self, entry: ForeignValue | None, symbols: Mapping[str, str] | None = None) -> str | None:
        """Return a scalar with its references replaced; None, with a problem, if that is not possible.

        Args:
            entry: The scalar.
            symbols: The replacements of the runner's own names; None where these names are not allowed.
        """
        text = entry.text() if entry else None
        if entry is None or text is None:
            return None
        try:
            for name in references(text):
                entry.source.mark(tuple(name.split(".")), whole=True)
                for length in range(1, name.count(".") + 1):
                    entry.source.mark(tuple(name.split(".")[:length]), whole=False)
            extra = {"name": text if entry.key == "name" else str(self._root.value.get("name", ""))}
            return resolved(text, self._root.value, {**extra, **(symbols or {})})
        except InterpolationError as error:
            entry.refuse(str(error), "write the value out, or set it with -P")
            return None

    def program(self, entry: ForeignValue | None, claim: str) -> ForeignValue | None:
        """Return a program's words with references replaced, those to the workspace by the mount of the claim."""
        folder = f"{MOUNT}/{claim}"
        text = self.text(entry, dict.fromkeys(WORKSPACES, folder))
        if entry is None or text is None:
            return None
        self.show_workspace |= folder in text and text != entry.value
        return ForeignValue(entry.source, entry.location, text)

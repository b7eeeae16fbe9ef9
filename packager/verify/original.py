"""Renders an overlay as it was sealed, to find what an edit has added."""

from __future__ import annotations

import posixpath
from functools import cached_property
from typing import TYPE_CHECKING

from packager.base import yamlio
from packager.base.errors import MlpackError, ToolError
from packager.base.values import replace
from packager.package import ids, kustomization, layout
from packager.rendering import render
from packager.verify import changes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from packager.base.runner import Runner
    from packager.rendering.overlay import RenderedOverlay
    from packager.rendering.sources import Sources
    from packager.verify.changes import Edits

_ROOT = "root"
"""The option with which a package is meant to run as user 0."""


class Original:
    """One overlay of a package without its edits, rendered when it is first needed, if edits change a file of it."""

    def __init__(self, edits: Edits, overlay: RenderedOverlay, kubectl: str, runner: Runner) -> None:
        self.edits = edits  # the edits of the package
        self._overlay = overlay
        self._kubectl = kubectl
        self._runner = runner
        self._renders: dict[tuple[bytes, ...], RenderedOverlay | None] = {}

    @cached_property
    def sealed(self) -> RenderedOverlay | None:
        """The overlay as it was sealed; None if it does not render.

        It has the present ids if it was sealed with the option `root`: the user is then expected to set them to 0. It
        has the present values of options if it does not render without: an option may be sealed on although its values
        are only set at the site.

        Raises:
            ToolError: There is no room for a copy, a file cannot be read, or kubectl timed out or printed too much.
        """
        return self._rendered(self._sealed_content) or self._rendered(self._sealed_content_with_site)

    @cached_property
    def permitted(self) -> RenderedOverlay | None:
        """The overlay with only those edits that change ids, values and switches; otherwise as `sealed`."""
        return self._rendered(self._permitted_content)

    def _rendered(self, content: Callable[[str], bytes]) -> RenderedOverlay | None:
        """Return the overlay with this content of the edited files; None if it does not render."""
        contents = {path: content(path) for path in self.edits.paths}
        sources = self._overlay.sources
        if self._reads_only_sealed_files(sources) and all(
            sources.files.get(path, new) == new for path, new in contents.items()
        ):
            return self._overlay
        key = tuple(contents.values())
        if key not in self._renders:
            self._renders[key] = self._render(contents)
        return self._renders[key]

    def _render(self, contents: Mapping[str, bytes]) -> RenderedOverlay | None:
        package = replace(self.edits.package, reader=self.edits.package.reader.edited(contents))
        outcome = render.render(package, self._overlay.name, (self._kubectl,), self._runner)
        if outcome.unchecked:
            raise ToolError(outcome.unchecked[0])
        return outcome.overlay if self._reads_only_sealed_files(outcome.sources) else None

    def _reads_only_sealed_files(self, sources: Sources) -> bool:
        """Whether no file that an overlay reads was added to the package."""
        return all(path in self.edits.package.inventory["files"] for path in sources.files)

    def _sealed_content(self, path: str) -> bytes:
        before = self.edits.package.sealed(path) or b""
        if layout.is_patch(path) and self._allows_root(posixpath.basename(posixpath.dirname(path))):
            return ids.with_ids_of(before, self._content(path))
        return before

    def _sealed_content_with_site(self, path: str) -> bytes:
        is_site = path.endswith(".env") and posixpath.basename(path) != layout.ENV
        return self._permitted_content(path) if is_site else self._sealed_content(path)

    def _permitted_content(self, path: str) -> bytes:
        before = self.edits.package.sealed(path) or b""
        return changes.permitted(path, before, self._content(path), self.edits.options)

    def _content(self, path: str) -> bytes:
        return self.edits.package.reader.read(path, yamlio.MAX_BYTES)

    def _allows_root(self, overlay: str) -> bool:
        """Whether an overlay was sealed with the option `root` on."""
        path = layout.kustomization(overlay)
        try:
            components = kustomization.components(self.edits.package.sealed(path) or b"")
        except (MlpackError, UnicodeDecodeError):
            return False
        return any(component.on and component.name == _ROOT for component in components)

"""Checks whether edits of a package need a weaker Pod Security level than the package as it was sealed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager import options as components
from packager.base.problems import Problem
from packager.kubernetes.podsecurity import Level
from packager.verify import changes, options, security

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.base.runner import Runner
    from packager.rendering.overlay import RenderedOverlay
    from packager.verify.changes import Edits
    from packager.verify.security import Exceeded


def lowered(
    overlay: RenderedOverlay, fields: Sequence[Exceeded], edits: Edits, kubectl: str, runner: Runner
) -> tuple[Exceeded, ...]:
    """Return which of `fields` an edit has brought, beyond what the package's own options ask for.

    Args:
        overlay: An overlay of the package, as it is.
        fields: Every field of it that exceeds the level "restricted".
        edits: What was edited in the package.
        kubectl: What renders the overlay as it was sealed.
        runner: What starts kubectl.

    Raises:
        ToolError: A file cannot be read, or there is no room for a copy.
    """
    if not fields or not edits.paths:
        return ()
    if not edits.all_known:
        order = list(Level)
        best = components.level(options.switched_on(overlay.sources))
        return tuple(field for field in fields if order.index(field.level) > order.index(best))
    if all(change.expected for change in edits.lines):
        return ()
    before = changes.before(edits, overlay.name, kubectl, runner)
    own = {_identity(field) for field in (security.exceeded(before) if before else ())}
    return tuple(field for field in fields if _identity(field) not in own)


def problems(fields: Sequence[Exceeded]) -> Iterator[Problem]:
    """Yield a finding for each field that an edit has brought."""
    for field in fields:
        message = (
            f"{field.manifest}: {field.field}: {field.reason}, which the package did not ask for when it was sealed"
        )
        yield Problem(*field.place, message, f"--pod-security {field.level} accepts it")


def _identity(field: Exceeded) -> tuple[str, str, str, str]:
    return field.level, field.manifest, field.field, field.reason

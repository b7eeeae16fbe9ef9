"""Checks whether edits need a weaker Pod Security level than the sealed package. Tests: verify/test_changes.py."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from packager.base.problems import Problem
from packager.package import layout
from packager.package.options import BY_NAME
from packager.verify import security

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.verify.original import Original
    from packager.verify.security import Exceeded


def lowered(fields: Sequence[Exceeded], original: Original) -> tuple[Exceeded, ...]:
    """Return the fields that an edit has added; switching on an option of the package is an edit, too.

    Args:
        fields: Every field of an overlay with its edits that exceeds the level "restricted".
        original: The overlay without its edits.

    Raises:
        ToolError: A file cannot be read, or there is no room for a copy.
    """
    if not fields or not original.edits.paths:
        return ()
    own = {_identity(field) for field in (security.exceeded(original.sealed) if original.sealed else ())}
    return tuple(field for field in fields if _identity(field) not in own and not _is_of_option(field))


def _is_of_option(field: Exceeded) -> bool:
    """Whether a field is a capability that a sealed component adds, which its option says that it needs."""
    folder = posixpath.dirname(posixpath.dirname(field.place.file))
    option = BY_NAME.get(posixpath.basename(folder))
    return (
        option is not None
        and field.reason in {security.capability_reason(name) for name in option.capabilities}
        and re.search(rf"(^|/){layout.common('[^/]+')}$", posixpath.dirname(folder)) is not None
    )


def problems(fields: Sequence[Exceeded]) -> Iterator[Problem]:
    """Yield a finding for each field that an edit has added."""
    for field in fields:
        message = (
            f"{field.manifest}: {field.field}: {field.reason}, which the package did not ask for when it was sealed"
        )
        yield Problem(*field.place, message, f"--pod-security {field.level} accepts it")


def _identity(field: Exceeded) -> tuple[str, str, str, str]:
    return field.level, field.manifest, field.field, field.reason

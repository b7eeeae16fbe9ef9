"""Creates the folder of a new model with a spec that builds without changes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, get_args

from packager.base import atomic
from packager.base.errors import UsageError
from packager.base.fields import LABEL_FORM
from packager.base.names import LETTER_FIRST
from packager.base.problems import similar
from packager.builder.render import scaffold, scaffolded
from packager.modelspec.model import AnyOverlay
from packager.modelspec.schema import json_schema

if TYPE_CHECKING:
    from pathlib import Path

_LONGEST_NAME = 40

_DEFAULT = "MPIJob"
"""The kind that uses the general scaffold; other kinds may have their own."""


def init(name: str, destination: Path, kind: str | None = None, rendezvous: str | None = None) -> tuple[Path, ...]:
    """Create the folder of a new model with a commented spec, a script and a Dockerfile, and return its files.

    The overlay on several nodes has the kind, one of `kinds`, whose pods find each other in one of its `ways`.
    """
    if not re.fullmatch(LETTER_FIRST, name) or len(name) > _LONGEST_NAME:
        raise UsageError(f"expected {LABEL_FORM}, found {name!r}")
    values = _values(kind or _DEFAULT, rendezvous)
    folder = destination / name
    with atomic.folder(folder, exists_hint="choose another name") as work:
        for path, content, executable in scaffold(name, **values):
            (work / path).write_text(content, encoding="utf-8")
            (work / path).chmod(0o755 if executable else 0o644)
        (work / "spec.schema.json").write_text(json.dumps(json_schema(), indent=2) + "\n", encoding="utf-8")
        work.chmod(0o755)
        return tuple(folder / entry for entry in sorted(path.name for path in work.iterdir()))


def kinds() -> tuple[str, ...]:
    """Return the kinds that the overlay of a new model on several nodes may have, the usual one first."""
    return _DEFAULT, *scaffolded()


def ways() -> dict[str, tuple[str, ...]]:
    """Return the ways in which pods can find each other, the usual one first, for each kind that has several."""
    return {kind.__name__: kind.ways for kind in get_args(AnyOverlay) if kind.ways and kind.__name__ in kinds()}


def _values(kind: str, rendezvous: str | None) -> dict[str, Any]:
    """Return the values for the templates of a kind's scaffold."""
    if kind not in kinds():
        *some, last = kinds()
        raise UsageError(f"--kind {kind}: expected {', '.join(some)} or {last}", hint=similar(kind, kinds()))
    values: dict[str, Any] = {} if kind == _DEFAULT else {"kind": kind}
    names = ways().get(kind, ())
    if rendezvous is not None and rendezvous not in names:
        message = f"--rendezvous {rendezvous}: expected one of {', '.join(names)}"
        raise UsageError(message if names else f"--rendezvous is for --kind {' or '.join(ways())}")
    if names:
        overlay = next(overlay for overlay in get_args(AnyOverlay) if overlay.__name__ == kind)
        values |= overlay.scaffold_values(rendezvous or names[0])
    return values

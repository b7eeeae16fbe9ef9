"""Creates the folder of a new model with a spec that builds without changes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from packager.base import atomic
from packager.base.errors import UsageError
from packager.base.fields import LABEL_FORM
from packager.base.names import LETTER_FIRST
from packager.base.problems import similar
from packager.build.render import scaffold, scaffolded
from packager.spec.schema import json_schema
from packager.workloads.jobset.rendezvous import RENDEZVOUS

if TYPE_CHECKING:
    from pathlib import Path

_LONGEST_NAME = 40

_DEFAULT = "MPIJob"
"""The kind of the scaffold that is no kind's own."""


def init(name: str, destination: Path, kind: str | None = None, rendezvous: str | None = None) -> tuple[Path, ...]:
    """Create the folder of a new model with a commented spec, a script and a Dockerfile, and return its files.

    Args:
        name: The model's name, and the folder's.
        destination: Where the folder is made.
        kind: The kind of its overlay on several nodes; MPIJob when None.
        rendezvous: How the pods of a JobSet find each other; `torch` when None.

    Raises:
        UsageError: It is not a name for a model, there is something of this name, or no kind or rendezvous of these
            names.
    """
    if not re.fullmatch(LETTER_FIRST, name) or len(name) > _LONGEST_NAME:
        raise UsageError(f"expected {LABEL_FORM}, found {name!r}")
    values = _values(kind, rendezvous)
    folder = destination / name
    with atomic.folder(folder, exists_hint="choose another name") as work:
        for path, content, executable in scaffold(name, **values):
            (work / path).write_text(content, encoding="utf-8")
            (work / path).chmod(0o755 if executable else 0o644)
        (work / "spec.schema.json").write_text(json.dumps(json_schema(), indent=2) + "\n", encoding="utf-8")
        work.chmod(0o755)
        return tuple(folder / entry for entry in sorted(path.name for path in work.iterdir()))


def _values(kind: str | None, rendezvous: str | None) -> dict[str, Any]:
    """Return what the scaffold of a kind reads."""
    kinds = (_DEFAULT, *scaffolded())
    if kind not in (None, *kinds):
        raise UsageError(f"--kind {kind}: expected {' or '.join(kinds)}", hint=similar(str(kind), kinds))
    if kind != "JobSet":
        if rendezvous is not None:
            raise UsageError("--rendezvous is for --kind JobSet")
        return {} if kind in (None, _DEFAULT) else {"kind": kind}
    way = rendezvous or "torch"
    if way not in RENDEZVOUS:
        raise UsageError(f"--rendezvous {way}: expected one of {', '.join(RENDEZVOUS)}", hint=similar(way, RENDEZVOUS))
    return {"kind": kind, "rendezvous": way, "roles": RENDEZVOUS[way].roles or ("worker",)}

"""Operators in a bundle: those that a package's workloads need, and their manifests. Tests: cli/test_bundle.py."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from packager.base import yamlio
from packager.base.errors import UsageError
from packager.base.problems import similar
from packager.cluster.operator_release import bundle
from packager.package import layout
from packager.workloads.kinds import kinds, operators

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from packager.base.progress import Tell
    from packager.cluster.operator_release import Bundle
    from packager.workloads.operator import Operator

Chosen = dict[str, Path | None]
"""The names of operators, each with the file of its manifest; None for upstream's."""


def chosen(texts: Sequence[str]) -> Chosen:
    """Return the operators that the user names, NAME or NAME=FILE each. Raises UsageError for an unknown name."""
    operators_by_name = operators()
    named: Chosen = {}
    for text in texts:
        name, _, file = text.partition("=")
        if name not in operators_by_name:
            message = f"--operator {name}: expected {' or '.join(sorted(operators_by_name))}, or NAME=FILE"
            raise UsageError(message, hint=similar(name, operators_by_name))
        named[name] = Path(file) if file else None
    return named


def needed(inventory: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of the operators that the workloads of a package need as it was built, each with the kind."""
    by_kind = {kind: workload.operator for kind, workload in kinds().items() if workload.operator}
    names = {by_kind[kind].short: kind for kind in _kinds(inventory) if kind in by_kind}
    return dict(sorted(names.items()))


def _kinds(inventory: Mapping[str, Any]) -> Iterator[str]:
    """Yield the kinds of the objects in the manifests of overlays, as they are sealed."""
    for path, lines in inventory.get("editable", {}).items():
        if path.startswith(f"{layout.OVERLAYS}/") and path.endswith(".yaml"):
            documents, _ = yamlio.load_all("\n".join(lines).encode(), path)
            for document in documents:
                if isinstance(document.data, dict):
                    yield str(document.data.get("kind"))


def manifests(named: Chosen, required: Mapping[str, str], tell: Tell) -> list[tuple[Operator, Bundle]]:
    """Return the operators of a bundle with their manifests.

    Args:
        named: The operators that the user names.
        required: The operators that the package needs, each with the kind of workload that needs it.
        tell: Receives a line for each operator that is added, and for each manifest that mlpack is not tested with.

    Raises:
        ToolError: A manifest cannot be fetched or read.
        VerificationError: The digest of upstream's manifest is not the pinned one.
        UsageError: A file contains no manifests.
    """
    releases = operators()
    read = []
    for name in sorted({*named, *required}):
        operator, file = releases[name], named.get(name)
        if name not in named:
            tell(f"{required[name]} needs {operator.name} {operator.version}: fetching {operator.url}")
        hint = f"download it another way and pass it with --operator {name}=FILE"
        hint += "; --no-operators leaves it out, for a cluster that has it"
        manifest = bundle(operator, file, hint=hint)
        if not manifest.is_pinned:
            tell(f"note: {file} differs from upstream's manifest of {operator.version}")
        read.append((operator, manifest))
    return read

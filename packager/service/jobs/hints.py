"""Words the hints of findings for the user of a job: what to fill in, instead of which file of a package to edit."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from packager.kubernetes import oomkilled
from packager.kubernetes.manifest import mapping
from packager.kubernetes.stopped import REDEPLOY_HINT
from packager.service.registry.description import FreeMapping, walk

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from packager.kubernetes.verdict import Finding, Verdict
    from packager.service.registry.definitions import Definition

_MEMORY = ("resources", "memory")

_FOR_OWNERS = re.compile(
    r"(?P<place>in the overlay(?:'s [a-z]+)?)|(?P<image>REGISTRY in mlops\.env)|, then deploy it with --replace"
    rf"|: `mlpack secret create [^`]*`|{re.escape(REDEPLOY_HINT)}"
)
"""The parts of hints that only the owner of a package can follow."""


def is_for_owners(verdict: Verdict) -> bool:
    """Whether a hint in a verdict is for the owner of a package, and not for the user of a job."""
    return any(
        finding.reason == oomkilled.REASON or _FOR_OWNERS.search(finding.hint or "") for finding in verdict.findings
    )


def reworded(verdict: Verdict, filled: Mapping[str, Any], definition: Definition) -> Verdict:
    """Return a verdict whose hints say what the user of a job can do.

    Args:
        verdict: What the cluster says of the job.
        filled: The values that its user has filled in.
        definition: Its definition, of the revision that it has.
    """
    template = f"the template {definition.body.task_template_name}"
    if definition.origin is not None:
        words = {"place": "in the package", "image": "env.REGISTRY in the definition's system_values"}
    else:
        words = {"place": f"in {template}", "image": f"the image in the definition or in {template}"}
    memory = _on_memory(filled, definition)
    return dataclasses.replace(verdict, findings=tuple(_with(finding, memory, words) for finding in verdict.findings))


def _with(finding: Finding, memory: str, words: Mapping[str, str]) -> Finding:
    hint = finding.hint or ""
    if finding.reason == oomkilled.REASON and oomkilled.HINT not in hint:
        hint = memory
    for own, other in ((oomkilled.HINT, memory), (oomkilled.LIKELY_HINT, memory), (REDEPLOY_HINT, "run it again")):
        hint = hint.replace(own, other)
    hint = _FOR_OWNERS.sub(lambda match: words[match.lastgroup] if match.lastgroup else "", hint)
    return dataclasses.replace(finding, hint=hint or None)


def _on_memory(filled: Mapping[str, Any], definition: Definition) -> str:
    memory = mapping(filled.get("resources")).get("memory")
    if definition.origin is not None:
        raised = "raise limits.memory in the package, and register its definition again"
    elif memory is not None:
        raised = f"raise resources.memory, which is {memory}"
    elif any(
        here == _MEMORY or (here == _MEMORY[:1] and isinstance(described, FreeMapping))
        for here, described in walk(definition.described)
    ):
        raised = "fill in resources.memory"
    else:
        raised = f"raise the memory limit in the template {definition.body.task_template_name}"
    return f"{raised}, or reduce the memory use"

"""Tries a template without a definition: each value that is missing is invented, and the objects are checked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.service.complaints import Complaint
from packager.service.registry import policy, template_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.service.registry.policy import Site
    from packager.service.registry.refusals import PolicyProblem
    from packager.service.registry.rendering import Renderer

_RELEASE = "trial-000000"
_VALUES = ("invented", "supposed", 1)
"""The values that are invented. A field that takes one of them is not wrong, and what names one is due to it."""


def complaints(template: str, renderer: Renderer, site: Site) -> list[Complaint]:
    """Return the problems of a template's objects that no values can repair, such as a misspelt field.

    A template that cannot be filled in with invented values has none here: the example of a definition tries it.

    Args:
        template: The text of the template, without faults of its own.
        renderer: Renders templates.
        site: The settings of the administrator.
    """
    names = template_values.Names(_RELEASE, "trial", "", "trial")
    values = template_values.template_values({}, {}, names)
    tries: list[Sequence[PolicyProblem]] = []
    for value in _VALUES:
        rendered = renderer.render(template, values, value)
        if rendered.problems:
            return []
        tries.append(policy.accept(rendered.objects, _RELEASE, "", site).problems)
    first, *others = tries
    return [
        _complaint(problem, _line(template, problem.key))
        for problem in first
        if all(problem in other for other in others)
    ]


def _complaint(problem: PolicyProblem, line: int) -> Complaint:
    place = f"line {line}: " if line else ""
    return Complaint("/template", f"{place}{problem.message}", problem.hint, line=line)


def _line(template: str, key: str) -> int:
    """Return the line of a key that a template has once; 0 for another key."""
    pattern = re.compile(rf"\s*(- )?{re.escape(key)}\s*:")
    lines = [number for number, line in enumerate(template.splitlines(), 1) if key and pattern.match(line)]
    return lines[0] if len(lines) == 1 else 0

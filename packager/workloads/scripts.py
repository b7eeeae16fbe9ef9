"""The scripts that pods run, as their manifests name them: the user's choice of one, and the one that fetches files.

Tests: configure/test_changes.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.problems import show, similar
from packager.kubernetes.manifest import mapping

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.workloads.pods import Pods

CHOICE = "SCRIPT"
"""The variable that says which of several scripts runs."""

_SCRIPTS = "mlpack/scripts"
"""The annotation of pods that lists the scripts among which CHOICE chooses."""

FETCH = "/etc/mlpack/runtime/sources.sh"
"""The script that fetches files. Its arguments: five for each file, `--`, and the program that follows."""


def choices(pods: Pods) -> tuple[str, ...]:
    """Return the scripts among which the user of pods chooses by CHOICE; none where there is nothing to choose."""
    listed = mapping(pods.metadata.get("annotations")).get(_SCRIPTS)
    return tuple(str(listed).split()) if listed is not None else ()


def wrong_choice(value: str, scripts: Sequence[str]) -> tuple[str, str | None]:
    """Return the message for a value of CHOICE that is not one of `scripts`, and the fix if there is a similar one."""
    return f"expected one of {', '.join(scripts)}, found {show(value)}", similar(value, scripts)

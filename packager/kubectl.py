"""The user's own kubectl: its argument lists, and what it says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.errors import RenderError
from packager.process import run

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Rendered:
    """What `kubectl kustomize` made of an overlay.

    Attributes:
        manifests: A YAML stream.
        warnings: What it wrote to stderr, line by line.
    """

    manifests: str
    warnings: tuple[str, ...]


# klog puts a level, a time, a process id and a line of kubectl's source before what it says.
_KLOG = re.compile(r'^[EWI]\d{4} [\d:.]+ +\d+ [^]]+\] (?:"command failed" err=)?', re.MULTILINE)

_SECONDS = 120.0
"""Far above what any overlay takes."""


def kustomize(folder: Path, *, program: str = "kubectl") -> Rendered:
    """Render the kustomization in `folder`.

    Raises:
        ToolError: There is no such kubectl, or it came to no end.
        RenderError: kubectl refused the kustomization.
    """
    done = run([program, "kustomize", str(folder)], timeout=_SECONDS)
    if done.returncode != 0:
        said = _KLOG.sub("", done.stderr).strip().removeprefix("error: ") or f"exit code {done.returncode}"
        raise RenderError(f"{program} kustomize: {said}")
    return Rendered(done.stdout, tuple(line for line in _KLOG.sub("", done.stderr).splitlines() if line.strip()))

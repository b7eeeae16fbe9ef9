"""Runs `kubectl kustomize`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base.errors import RenderError
from packager.base.masking import shortened
from packager.base.process import SYSTEM, Runner
from packager.base.values import Value
from packager.kubernetes.kubectl import KLOG

if TYPE_CHECKING:
    from pathlib import Path


class Rendered(Value, frozen=True):
    """The output of `kubectl kustomize` for an overlay."""

    manifests: str  # the YAML stream on stdout
    warnings: tuple[str, ...]  # the lines on stderr


MEMORY_BYTES = 256 << 20
"""The memory of kubectl, which takes 96 MiB for a bundled model, and 192 MiB for an output of 16 MiB.

Replacements can double a value as often as an author likes: without a limit, 24 KiB of them took 2.6 GiB in 30 seconds.
"""

_SECONDS = 30.0
"""The timeout in seconds, which no valid overlay comes near."""

_OUT_OF_MEMORY = re.compile(
    r"^(?:(?:fatal error|runtime): .*(?:out of|cannot allocate) memory|SIGSEGV: segmentation violation$)", re.MULTILINE
)
"""Words of Go's runtime. The garbage collector of Go 1.26 and 1.27 does not check whether it gets memory (`newSpanSPMC`
in runtime/mgcmark_greenteagc.go), and crashes without it. A crash of kubectl's own code begins with `panic: `."""

_LONGEST_WORD = 200
"""Characters of a word of kubectl's messages, which quote whole manifests."""

MAX_BYTES = 16 << 20
"""The most bytes that an overlay may render to; the output contains the code of the package."""


_FEWER_COLLECTIONS = {"GOGC": "off", "GOMEMLIMIT": f"{MEMORY_BYTES >> 21}MiB", "GOMAXPROCS": "4"}
"""Settings of Go's garbage collector, which takes a third of kubectl's time: none up to half of the memory.

On machines with many processors, Go would need more memory.
"""


def kustomize(folder: Path, *, program: str = "kubectl", runner: Runner = SYSTEM) -> Rendered:
    """Render the kustomization in `folder`.

    `folder` must contain only the files that `packager.rendering.kustomization` has read, which refuses addresses.

    Raises:
        RenderError: kubectl refused the kustomization, or printed nothing.
    """
    command = [program, "kustomize", str(folder)]
    done = runner.run(command, timeout=_SECONDS, max_bytes=MAX_BYTES, memory=MEMORY_BYTES, variables=_FEWER_COLLECTIONS)
    stderr = KLOG.sub("", done.stderr)
    if done.returncode != 0 and _OUT_OF_MEMORY.search(stderr):
        raise RenderError(f"{program} kustomize: the overlay takes more than {MEMORY_BYTES >> 20} MiB of memory")
    if done.returncode != 0:
        words = " ".join(shortened(word, _LONGEST_WORD) for word in stderr.split())
        reason = words.removeprefix("error: ") or f"exit code {done.returncode}"
        raise RenderError(f"{program} kustomize: {reason}")
    if not done.stdout.strip():
        raise RenderError(f"{program} kustomize printed nothing")
    return Rendered(done.stdout, tuple(line for line in stderr.splitlines() if line.strip()))

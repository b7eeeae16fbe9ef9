"""Lists the files that the pods of an overlay fetch before their program starts: the `sources` of its spec.

They are the only files that a package fetches, beside the packages of `requirements`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.kubernetes.manifest import listing
from packager.package.path_checks import shown
from packager.workloads.scripts import FETCH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.problems import Problem
    from packager.rendering.overlay import RenderedOverlay

_WORDS = 5
"""The arguments of the script for each source: its address, path, sha256 or -, size, secret or -."""


def notes(overlay: RenderedOverlay) -> Iterator[Problem]:
    """Yield a note about each file that pods fetch, once for each manifest."""
    noted: set[tuple[str, ...]] = set()
    for pods in overlay.pods:
        for location, container in pods.containers():
            words = [str(word) for word in listing(container.get("command"))]
            if FETCH not in words or "--" not in words:
                continue
            first, end = words.index(FETCH) + 1, words.index("--")
            for index in range(first, end - _WORDS + 1, _WORDS):
                url, path, digest, size, variable = words[index : index + _WORDS]
                identity = (str(pods.manifest), *words[index : index + _WORDS])
                if identity in noted:
                    continue
                noted.add(identity)
                how = f", with the secret {shown(variable)}" if variable != "-" else ""
                content = f"sha256 {shown(digest)}" if digest != "-" else "with the digests that are listed there"
                what = f"{shown(url)} to {shown(path)}: {shown(size)} bytes, {content}{how}"
                yield overlay.problem(pods.manifest, (*location, "command", index), f"its pods fetch {what}")

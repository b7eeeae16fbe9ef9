"""Lists the files that the pods of an overlay fetch before their program starts: the `sources` of its spec.

They are the only files that a package fetches, beside the packages of `requirements`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.kubernetes.manifest import listing
from packager.package.path_checks import shown
from packager.workloads.scripts import fetched

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.problems import Problem
    from packager.rendering.overlay import RenderedOverlay
    from packager.workloads.scripts import FetchedSource


def notes(overlay: RenderedOverlay) -> Iterator[Problem]:
    """Yield a note about each file that pods fetch, once for each manifest."""
    noted: set[tuple[str, FetchedSource]] = set()
    for pods in overlay.pods:
        for location, container in pods.containers():
            for index, source in fetched([str(word) for word in listing(container.get("command"))]):
                if (str(pods.manifest), source) in noted:
                    continue
                noted.add((str(pods.manifest), source))
                how = f", with the secret {shown(source.secret)}" if source.secret else ""
                digest = f"sha256 {shown(source.sha256)}" if source.sha256 else "with the digests that are listed there"
                what = f"{shown(source.address)} to {shown(source.path)}: {shown(source.size)} bytes, {digest}{how}"
                yield overlay.problem(pods.manifest, (*location, "command", index), f"its pods fetch {what}")

"""Prints tables of deployed workloads, for `history` and `status`. Tests: cli/test_history.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packager.cluster.history import Deployment


def deployed_rows(deployments: Iterable[Deployment], digest: str | None = None) -> list[tuple[str, ...]]:
    """Return a table; `digest` is that of the build that the user named."""
    rows: list[tuple[str, ...]] = [("DEPLOYED", "NAMESPACE", "WORKLOAD", "ENDED", "BUILD", "BY")]
    for item in deployments:
        when = item.created.astimezone().strftime("%Y-%m-%d %H:%M")
        build = build_words(item.digest, item.version, digest)
        rows.append((when, item.namespace, item.workload, item.ended or "-", build, item.deployed_by or "-"))
    return rows


def build_words(digest: str | None, version: str | None, named: str | None) -> str:
    """Return a build in words, and whether it is the one that the user named."""
    if digest is None:
        return "applied by kubectl"
    shown = f"{version} " if version else ""
    return shown + digest.removeprefix("sha256:")[:12] + (" (this one)" if digest == named else "")

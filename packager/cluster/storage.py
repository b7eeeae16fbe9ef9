"""Determines whether the results of a workload outlive its pods, and how to keep them. Tests: cli/test_deploy.py."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.errors import ClusterError
from packager.base.paths import argument
from packager.cluster.output import output_of
from packager.package.options import OPTIONS
from packager.workloads.pods import writes_to_claim

if TYPE_CHECKING:
    from packager.cluster.manifests import Manifests


def lost_with_pods(manifests: Manifests) -> str | None:
    """Return a sentence if the workload's results are deleted with its pods; None if they stay or there are none."""
    if manifests.kind.serves:
        return None
    pod_spec = manifests.kind.pod_template(manifests.workload)
    try:
        output = output_of(pod_spec, manifests.objects)
    except ClusterError:
        return None
    # A workload that a site has added need not write results; one that mounts a writable claim writes them there.
    if output.outlives_pods or writes_to_claim(pod_spec) or (manifests.index and output.volume is None):
        return None
    return f"results are lost when the pods are deleted: OUTPUT_DIR is on {output.storage}"


def kept_results(manifests: Manifests) -> str | None:
    """Return a sentence with the place of the workload's results; None if they are deleted with its pods."""
    try:
        output = output_of(manifests.kind.pod_template(manifests.workload), manifests.objects)
    except ClusterError:
        return None
    return f"OUTPUT_DIR is {output.storage}" if output.outlives_pods else None


def lasting_storage(package: Path | str) -> str:
    """Return the command that switches on lasting storage for a package, which is named as the user wrote it."""
    first, *others = (option.name for option in OPTIONS if {"output", "dataset"} <= set(option.places))
    command = shlex.join(["mlpack", "configure", argument(Path(package)), "--storage", first])
    return f"{command} (or {', '.join(others)})"

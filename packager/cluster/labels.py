"""The labels and annotations that a deploy adds to every object. Tests: cluster/test_manifests.py."""

from __future__ import annotations

DIGEST = "mlpack/digest"
"""Label, by the first 16 digits, and annotation, in full: the digest of the package that the object comes from."""

VERSION = "mlpack/version"
"""Annotation: the version of that package, if it has one."""

RENDERED = "mlpack/rendered"
"""Annotation: the digest of everything that was applied together, edits of the package included."""

DEPLOYED_BY = "mlpack/deployed-by"
"""Annotation: who deployed it, user@machine."""

HOLD = "mlpack/hold"
"""Annotation of a workload: the most seconds that its pods wait, after their programs, until results are copied."""

DEV = "mlpack/dev"
"""Annotation of a workload that `mlpack dev` has deployed: the digest of everything but its code."""

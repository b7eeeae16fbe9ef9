"""Defines the oldest kubectl that can render a package."""

from __future__ import annotations

OLDEST = 22
"""Kubernetes 1.22: the oldest kubectl whose kustomize reads a package."""

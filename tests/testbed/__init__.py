"""Runs a real Kubernetes cluster for the tests, built from package registries; see README.md beside this file."""

from tests.testbed.errors import ClusterError, ToolError
from tests.testbed.lifecycle import build_image, down, start, status, stop, up

__all__ = ["ClusterError", "ToolError", "build_image", "down", "start", "status", "stop", "up"]

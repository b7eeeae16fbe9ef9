"""A real Kubernetes cluster for the tests, out of package registries: README.md beside this file tells how."""

from tests.cluster.errors import ClusterError, ToolError
from tests.cluster.lifecycle import build_image, down, start, status, stop, up

__all__ = ["ClusterError", "ToolError", "build_image", "down", "start", "status", "stop", "up"]

"""A real Kubernetes cluster for the tests, out of package registries: README.md beside this file tells how."""

from tests.testbed.errors import ClusterError, ToolError
from tests.testbed.lifecycle import build_image, down, start, status, stop, up

__all__ = ["ClusterError", "ToolError", "build_image", "down", "start", "status", "stop", "up"]

"""Runs kubectl on the test cluster."""

import os

from tests.testbed.places import KUBECONFIG
from tests.testbed.process import run


def kubectl(*arguments: str, text: str | None = None) -> str:
    """Run kubectl as the cluster's administrator, and return its stdout."""
    program = os.environ.get("KUBECTL", "kubectl")
    return run([program, f"--kubeconfig={KUBECONFIG}", *arguments], text=text)

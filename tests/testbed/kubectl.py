"""kubectl on this cluster, whichever kubectl the environment names."""

import os

from tests.testbed.places import KUBECONFIG
from tests.testbed.process import run


def kubectl(*arguments: str, text: str | None = None) -> str:
    """Runs kubectl as the cluster's administrator and returns what it prints."""
    program = os.environ.get("KUBECTL", "kubectl")
    return run([program, f"--kubeconfig={KUBECONFIG}", *arguments], text=text)

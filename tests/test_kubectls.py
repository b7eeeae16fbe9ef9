from __future__ import annotations

import json
import subprocess

import pytest

from tests import kubectls
from tests.testbed import versions


def test_default_kubectl_has_the_version_of_the_test_cluster() -> None:
    assert versions.KUBERNETES.startswith(f"{kubectls.DEFAULT}.")
    done = subprocess.run(
        [kubectls.kubectl(), "version", "--client", "-o", "json"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["clientVersion"]["gitVersion"].startswith(f"v{kubectls.DEFAULT}.")


def test_kubectl_error_lists_pinned_versions() -> None:
    with pytest.raises(kubectls.UnavailableError, match=r"no kubectl 1\.29 is pinned; there are: 1\.30, 1\.31, "):
        kubectls.kubectl("1.29")

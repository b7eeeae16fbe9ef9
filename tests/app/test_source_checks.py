"""Tests of the findings of `mlpack doctor` about sources, of a package built with servers of the test."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from packager.base.runner import SYSTEM
from packager.cli.host import Host
from tests import demo
from tests.cli.test_doctor import Report
from tests.fake_cluster import healthy, item
from tests.web import Web, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import Mlpack

pytestmark = pytest.mark.thorough

CONTENT = b"12345"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
COMMIT = "0" * 40


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as web:
        web.put("/a", CONTENT)
        web.put("/private", b"", 403)
        web.put(f"/api/models/o/n/tree/{COMMIT}?recursive=true", [{"type": "file", "path": "m", "size": 50}])
        web.put(f"/o/n/resolve/{COMMIT}/m", b"x" * 50)
        web.put("/bucket/key", b"", 403)
        yield web


@pytest.fixture
def findings(
    mlpack: Mlpack, kubectl: Path, tmp_path: Path, web: Web, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[str]]:
    """A function that builds a package with sources, runs the doctor, and returns what it reports of them."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    cluster = healthy()
    cluster.objects.append(item("Secret", "demo", type="Opaque", data={"TOKEN": "eA==", "AWS_ACCESS_KEY_ID": "eA=="}))
    cluster.first = lambda argv: SYSTEM.run(argv) if argv[1] == "kustomize" else None

    def examine(*given: str, more: str = "") -> list[str]:
        listed = ", ".join(source.replace("WEB", web.url) for source in given)
        environment = f"environment: {{HF_ENDPOINT: '{web.url}', AWS_ENDPOINT_URL: '{web.url}'}}\n"
        model = demo.write(tmp_path / "model", f"{demo.SPEC}{environment}{more}sources: [{listed}]\n")
        assert mlpack("build", model, "--format", "dir").code == 0
        mlpack.host = Host(cluster)
        arguments = ("demo-fp32-training", "-n", "team", "--overlay", "single-node", "--kubectl", kubectl)
        report = Report(mlpack("doctor", *arguments, "-o", "json"))
        return [f"{one['state']}: {one['message']}" for one in report.findings if one["check"] == "sources"]

    return examine


def test_sources_with_the_expected_size_are_ok(findings: Callable[..., list[str]], web: Web) -> None:
    assert findings(
        f"{{from: 'WEB/a', to: OUTPUT_DIR/a, sha256: {DIGEST}, size: 5}}",
        f"{{from: 'hf://o/n@{COMMIT}', to: DATASET_DIR, size: 60}}",
    ) == [f"ok: {web.url}/a is there: 5 bytes", f"ok: hf://o/n@{COMMIT} is there: 50 bytes"]


def test_sources_that_pods_would_refuse_fail(findings: Callable[..., list[str]], web: Web) -> None:
    assert findings(
        f"{{from: 'WEB/a', to: OUTPUT_DIR/a, sha256: {DIGEST}, size: 6}}",
        f"{{from: 'WEB/private', to: OUTPUT_DIR/b, sha256: {DIGEST}, size: 5}}",
        f"{{from: 'WEB/none', to: OUTPUT_DIR/c, sha256: {DIGEST}, size: 5}}",
        f"{{from: 'hf://o/n@{COMMIT}', to: DATASET_DIR, size: 49}}",
    ) == [
        f"fails: {web.url}/a has 5 bytes, and the package expects 6",
        f"fails: {web.url}/private cannot be read, and the spec names no secret for it",
        f"fails: {web.url}/none was not found, and the spec names no secret for it",
        f"fails: hf://o/n@{COMMIT} has 50 bytes, and the package expects 49",
    ]


def test_server_that_does_not_answer_makes_the_result_unknown(findings: Callable[..., list[str]]) -> None:
    (found,) = findings(f"{{from: 'http://localhost:1/a', to: OUTPUT_DIR/a, sha256: {DIGEST}, size: 5}}")
    assert found.startswith("unknown: http://localhost:1/a could not be looked up: localhost:1 cannot be reached")

"""Test of a spec's keys for code on a real cluster, all at once, in a workload of each kind."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.e2e.site import CHECKOUT

if TYPE_CHECKING:
    from tests.e2e.site import Site

pytestmark = pytest.mark.usefixtures("mpi_image")

LARGE = 3 * (150 << 10)


def test_all_code_keys_of_a_spec_take_effect_in_each_kind(site: Site) -> None:
    """All workloads run as uid 12345 under "restricted"; the Pod runs the second of two scripts."""
    shutil.copytree(CHECKOUT / "tests/e2e/specs/code", site.folder / "model")
    (site.folder / "model/src/large").mkdir()
    for name in "abc":
        (site.folder / f"model/src/large/{name}.txt").write_text(name * (150 << 10))
    package = site.build("./model")
    site.run(f"mlpack configure {package} --uid 12345 --gid 12345")
    site.run(f"mlpack configure {package} --overlay single-node --set SCRIPT=other.sh")
    site.run(f"mlpack verify {package} --pod-security restricted")
    for overlay in ("multi-node", "one-job", "single-node", "nodes", "server"):
        site.run(f"kubectl -k {package}/quickstart/k8s/mlops/{overlay} apply")
    assert site.end_of_pod("code-single-node") == "Succeeded"
    site.run("kubectl wait --for=condition=Complete --timeout=600s job/code-one-job")
    assert site.end_of("code-multi-node") == "Succeeded"

    prepared = "prepared with 1 (two words) in src"
    assert site.run("kubectl logs code-single-node").splitlines() == [
        f"other.sh in src: 3 words (train two words other.sh), {LARGE} bytes, {prepared}"
    ]
    assert site.run("kubectl logs job/code-one-job").splitlines() == [
        f"other.sh in tools: 1 words (evaluate), {LARGE} bytes, prepared by a command"
    ]
    log = site.run(f"kubectl logs {site.launcher()}").splitlines()
    assert [line for line in log if line.startswith("run.sh")] == [
        f"run.sh in src: 3 words (train two words run.sh), {LARGE} bytes, {prepared}"
    ] * 2

    site.run("kubectl wait --for=condition=Completed --timeout=600s jobset/code-nodes")
    log = site.run("kubectl logs --selector=jobset.sigs.k8s.io/jobset-name=code-nodes --tail=-1").splitlines()
    assert log == [f"run.sh in src: 3 words (train two words run.sh), {LARGE} bytes, {prepared}"] * 2
    site.run("kubectl rollout status --timeout=600s deployment/code-server")
    assert site.run("kubectl logs deployment/code-server").splitlines() == [
        f"serve.sh in tools: 2 words (serve two words), {LARGE} bytes, prepared with 1 (two words) in tools"
    ]

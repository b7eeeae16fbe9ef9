"""Tests that the values of mlops.env and the ids of the patch reach every rank unchanged."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest

from tests.e2e.site import commands, thorough
from tests.e2e.test_mpi import become

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.site import Site

pytestmark = pytest.mark.usefixtures("mpi_image")

VALUES = {
    "SPACES": "  a  b ",
    "QUOTES": """'single' "double" `back`""",
    "DOLLAR": "$HOME ${HOME} $(hostname) $(MODEL_DIR)",
    "HASH": "# not a comment # at all",
    "EQUALS": "a=b=c",
    "UNICODE": "Grüße, 世界 🚀",
    "BACKSLASH": r"\n \\ \t",
    "SEMICOLON": "a;b & c | d > e",
    "EMPTY": "",
}


def multi_node(package: Path) -> Path:
    return package / "quickstart/k8s/mlops/multi-node"


def test_lines_added_to_mlops_env_reach_every_rank_verbatim(site: Site) -> None:
    package = site.build("hello-mpi")
    with (multi_node(package) / "mlops.env").open("a") as file:
        file.writelines(f"{key}={value}\n" for key, value in VALUES.items())
    site.run(commands(package, "multi-node")[0], cwd=package)
    assert site.end_of("hello-mpi-multi-node") == "Succeeded"
    log = site.log(site.launcher())
    for rank in ("0", "1"):
        for key, value in VALUES.items():
            shown = re.search(rf"^rank {rank}: {key}=(.*)$", log, flags=re.MULTILINE)
            assert shown, f"rank {rank} does not say {key}\n{log}"
            assert site.run(f"printf %s {shown[1]}") == value, (rank, key)


@pytest.mark.parametrize("ids", [(12345, 12346, 12347), thorough((1000, 1000, 1000))], ids=lambda ids: str(ids[0]))
def test_edits_of_root_and_ids_reach_every_rank(site: Site, ids: tuple[int, int, int]) -> None:
    package = site.build("hello-mpi")
    env = multi_node(package) / "mlops.env"
    env.write_text(env.read_text().replace("ROOT", "/srv/models"))
    become(package, *ids)
    site.run(commands(package, "multi-node")[0], cwd=package)
    assert site.end_of("hello-mpi-multi-node") == "Succeeded"
    log = site.log(site.launcher())
    for rank in ("0", "1"):
        assert re.search(rf"^rank {rank} of 2: .*, uid {ids[0]}, gid {ids[1]}$", log, flags=re.MULTILINE), log
        assert f"rank {rank}: OUTPUT_DIR=/srv/models/hello-mpi/output" in log
    launcher = site.get(f"pod {site.launcher()}")
    assert launcher["spec"]["securityContext"]["fsGroup"] == ids[2]


def test_overlay_of_a_user_adds_namespace_and_prefix(site: Site) -> None:
    package = site.build("hello-mpi")
    own = site.folder / "own"
    own.mkdir()
    overlays = [f"../{package.name}/quickstart/k8s/mlops/{overlay}" for overlay in ("multi-node", "single-node")]
    own.joinpath("kustomization.yaml").write_text(
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
        f"namespace: {site.namespace}\nnamePrefix: alice-\nresources: [{', '.join(map(shlex.quote, overlays))}]\n"
    )
    site.run("kubectl apply -k own")
    assert site.end_of("alice-hello-mpi-multi-node") == "Succeeded"
    assert site.end_of_pod("alice-hello-mpi-single-node") == "Succeeded"
    assert "rank 1 of 2: host alice-hello-mpi-multi-node-worker-1" in site.log(site.launcher())
    site.run("kubectl delete -k own")
    site.until(lambda: not site.left(), "everything to be gone")


@pytest.mark.thorough
def test_sixteen_ranks_run_on_eight_workers(site: Site) -> None:
    package = site.build(
        "hello-mpi",
        "--set overlays.multi-node.workers=8",
        "--set overlays.multi-node.slots_per_worker=2",
        "--set overlays.multi-node.resources.requests.cpu=10m",
    )
    site.run(commands(package, "multi-node")[0], cwd=package)
    assert site.end_of("hello-mpi-multi-node") == "Succeeded"
    hosts = re.findall(r"^rank \d+ of 16: host ([^,]+),", site.log(site.launcher()), flags=re.MULTILINE)
    assert sorted(hosts) == sorted([f"hello-mpi-multi-node-worker-{worker}" for worker in range(8)] * 2)


def test_overlays_pass_server_side_apply_dry_run_and_diff(site: Site) -> None:
    package = site.build("hello-mpi")
    for overlay in ("multi-node", "single-node"):
        folder = f"quickstart/k8s/mlops/{overlay}"
        dry = site.shell(f"kubectl apply -k {folder} --dry-run=server", cwd=package)
        assert (dry.returncode, dry.stderr) == (0, ""), dry.stderr
        done = site.shell(f"kubectl apply -k {folder} --server-side", cwd=package)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        # The operator may write the workload's status between the two readings that are compared.
        compare = f"kubectl diff -k {folder} --server-side"
        site.until(lambda compare=compare: site.shell(compare, cwd=package).returncode == 0, "no difference", 60)
    site.run("kubectl delete -k quickstart/k8s/mlops/multi-node", cwd=package)
    site.run("kubectl -k quickstart/k8s/mlops/multi-node apply", cwd=package)
    diff = site.shell("kubectl diff -k quickstart/k8s/mlops/multi-node", cwd=package)
    assert (diff.returncode, diff.stdout) == (0, ""), diff.stdout

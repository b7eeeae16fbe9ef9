"""Tests of hello-mpi, the half-minute check of a cluster: its commands, values, and overlays around its own."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.site import commands, last_json
from tests.e2e.test_mpi import become
from tests.released import RELEASES

if TYPE_CHECKING:
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


@pytest.mark.alone  # half a minute is measured on an otherwise idle machine
def test_every_rank_prints_its_host_and_user_within_half_a_minute(site: Site) -> None:
    package = site.build("hello-mpi")
    apply, logs, wait, delete = commands(package, "multi-node")
    begin = time.monotonic()
    site.run(apply, cwd=package)
    site.run(wait, cwd=package)
    assert time.monotonic() - begin < 30
    log = site.run(logs, cwd=package)
    for rank in (0, 1):
        assert f"rank {rank} of 2: host hello-mpi-multi-node-worker-{rank}, uid 1000, gid 1000" in log
    site.run(delete, cwd=package)
    site.until(lambda: not site.left(), "everything to be gone")


def test_package_of_the_earliest_version_is_deployed(site: Site) -> None:
    package = min(RELEASES.glob("*/hello-mpi.tar.gz"))
    site.run(f"mlpack deploy {package} --yes --timeout 10m")
    assert last_json(site.run(f"mlpack logs {package}"))["ranks"] == 2


def test_values_and_ids_reach_every_rank(site: Site) -> None:
    package = site.build("hello-mpi")
    site.run(f"mlpack configure {package} --workers 4")
    env = package / "quickstart/k8s/mlops/multi-node/mlops.env"
    lines = "".join(f"{key}={value}\n" for key, value in VALUES.items())
    env.write_text(env.read_text().replace("ROOT", "/srv/models") + lines)
    become(package, 12345, 12346, 12347)
    site.run(commands(package, "multi-node")[0], cwd=package)
    assert site.end_of("hello-mpi-multi-node") == "Succeeded"
    log = site.log(site.launcher())
    for rank in range(4):
        said = rf"^rank {rank} of 4: host hello-mpi-multi-node-worker-{rank}, .*uid 12345, gid 12346$"
        assert re.search(said, log, flags=re.MULTILINE), log
        assert f"rank {rank}: OUTPUT_DIR=/srv/models/hello-mpi/output" in log
        for key, value in VALUES.items():
            shown = re.search(rf"^rank {rank}: {key}=(.*)$", log, flags=re.MULTILINE)
            assert shown, f"rank {rank} does not say {key}\n{log}"
            assert site.run(f"printf %s {shown[1]}") == value, (rank, key)
    launcher = site.get(f"pod {site.launcher()}")
    assert launcher["spec"]["securityContext"]["fsGroup"] == 12347


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

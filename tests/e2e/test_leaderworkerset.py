"""Tests of a LeaderWorkerSet on a real cluster: a group serves together, starts again together, and is changed."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.e2e.site import last_json

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.site import Images, Site

NAME = "groups-serving-serving"
SHOWN = f"leaderworkerset/{NAME}"
LEADER = f"{NAME}-0"
ASK = "import urllib.request as r; print(r.urlopen('http://localhost:8080/').read().decode())"


def groups(site: Site, images: Images, *options: str) -> Path:
    """Build a package of the new model of `mlpack init`, with the image of its Dockerfile."""
    site.run("mlpack init --kind LeaderWorkerSet groups")
    alone = site.folder / "image"
    alone.mkdir()
    shutil.copy(site.folder / "groups/Dockerfile", alone)
    images.build(alone, "localhost/groups:1.0")
    folder = site.build("./groups", "--set overlays.serving.resources.requests.cpu=50m", *options)
    site.run(f"mlpack configure {folder} --uid 12345 --gid 12345 --fs-group 12345")
    return folder


@pytest.fixture
def package(site: Site, images: Images) -> Path:
    return groups(site, images)


def uids(site: Site) -> set[str]:
    output = "-o jsonpath='{.items[*].metadata.uid}'"
    return set(site.run(f"kubectl get pods -l leaderworkerset.sigs.k8s.io/name={NAME} {output}").split())


def test_group_serves_when_its_workers_have_joined(site: Site, package: Path) -> None:
    doctor = site.shell(f"mlpack doctor {package}")
    assert "LeaderWorkerSet" in doctor.stdout + doctor.stderr
    deploy = site.shell(f"mlpack deploy {package}")
    assert deploy.returncode == 0, deploy.stderr
    assert f"{SHOWN} serves: 1 of 1 groups serve" in deploy.stderr
    answer = last_json(site.run(f'kubectl exec {LEADER} -- python3 -c "{ASK}"'))
    assert answer == {"greeting": "hello", "leader": LEADER, "workers": {"1": f"{LEADER}-1"}}
    assert json.loads(site.run(f"mlpack status {package} -o json"))["phase"] == "serving"
    assert f"leader {LEADER} of 2 pods" in site.run(f"mlpack logs {package}")
    assert f"worker 1 of {LEADER}.{LEADER}" in site.run(f"mlpack logs {package} --worker 0")

    before = uids(site)
    site.run(f"kubectl delete pod {LEADER}-1")
    site.until(lambda: len(uids(site)) == 2 and not uids(site) & before, "a new group")
    site.run(f"kubectl wait --for=condition=Available --timeout=120s {SHOWN}")

    env = package / "quickstart/k8s/mlops/serving/mlops.env"
    env.write_text(env.read_text().replace("GREETING=hello", "GREETING=changed"))
    deploy = site.shell(f"mlpack deploy {package}")
    assert deploy.returncode == 0, deploy.stderr
    assert last_json(site.run(f'kubectl exec {LEADER} -- python3 -c "{ASK}"'))["greeting"] == "changed"

    site.run(f"mlpack delete {package} --yes")
    kinds = "leaderworkersets,statefulsets,services,poddisruptionbudgets"
    site.until(lambda: not site.run(f"kubectl get {kinds} -o name"), "everything to be deleted")

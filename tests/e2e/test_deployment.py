"""A Deployment on a real cluster: it serves, rolls without losing a request, and says why it cannot.

The cluster of `tests/testbed` has no kube-proxy, so what asks does so by a headless Service of the test's own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.e2e.site import CHECKOUT, last_json

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from tests.e2e.site import Site

pytestmark = pytest.mark.usefixtures("mpi_image")

SHOWN = "deployment/serve-server"
PODS = "--selector=app.kubernetes.io/instance=serve-server"
REACHED = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "reached"},
    "spec": {
        "clusterIP": "None",
        "selector": {"app.kubernetes.io/instance": "serve-server"},
        "ports": [{"port": 8080}],
    },
}


@pytest.fixture
def package(site: Site) -> Path:
    """A package that serves, and asks, as a user that the image does not know."""
    folder = site.build(str(CHECKOUT / "tests/e2e/specs/serve"))
    for patch in folder.glob("quickstart/k8s/mlops/*/*-patch.yaml"):
        patch.write_text(re.sub("runAsUser: .*", "runAsUser: 12345", patch.read_text()))
    return folder


def edit(package: Path, overlay: str, **values: object) -> None:
    """Set keys of an overlay's mlops.env."""
    env = package / f"quickstart/k8s/mlops/{overlay}/mlops.env"
    text = env.read_text()
    for key, value in values.items():
        text = re.sub(f"^{key}=.*$", f"{key}={value}", text, flags=re.MULTILINE)
    env.write_text(text)


def deploy(site: Site, package: Path) -> subprocess.CompletedProcess[str]:
    return site.shell(f"mlpack deploy {package} --overlay server")


def ask(site: Site, package: Path, **values: object) -> None:
    """Begin to ask for answers, all the time."""
    site.apply(REACHED)
    edit(package, "load", ADDRESS="reached", **values)
    site.run(f"mlpack deploy {package} --overlay load --no-wait -y")
    site.until(lambda: site.phase("serve-load") == "Running", "the load to begin")


def roll_and_lose_a_pod(site: Site, package: Path) -> dict[str, int]:
    """Roll the Deployment and delete one of its pods while it is asked; return which answers there were."""
    edit(package, "server", VERSION=2)
    rolled = deploy(site, package)
    assert rolled.returncode == 0, rolled.stderr
    [pod, *_] = site.run(f"kubectl get pods {PODS} -o name").split()
    site.run(f"kubectl delete {pod}")
    assert site.end_of_pod("serve-load") == "Succeeded"
    return last_json(site.log("serve-load"))


def test_it_serves_and_everything_of_it_is_deleted(site: Site, package: Path) -> None:
    done = deploy(site, package)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert f"{SHOWN} serves: 2 of 2 replicas serve\n" in done.stderr
    status = site.run(f"mlpack status {package} --overlay server")
    assert status.startswith(f"{SHOWN}  serving: 2 of 2 replicas serve\n")
    assert site.run(f"mlpack logs {package} --overlay server") == "version 1 serves /etc/hostname\n"
    assert site.run(f"mlpack exec {package} --overlay server -- id -u") == "12345\n"
    edit(package, "server", VERSION=2)
    assert deploy(site, package).returncode == 0
    assert len(site.run("kubectl get configmaps -o name --selector=app.kubernetes.io/name=serve").split()) == 4
    site.run(f"mlpack delete {package} --overlay server -y")
    site.until(lambda: not site.left(), "everything to be gone")


def test_a_bad_edit_leaves_the_old_replicas_and_is_told(site: Site, package: Path) -> None:
    assert deploy(site, package).returncode == 0
    before = set(site.run(f"kubectl get pods {PODS} -o name").split())
    edit(package, "server", MODEL="/no/where")
    done = deploy(site, package)
    assert done.returncode == 7, done.stderr
    assert "  | there is no model at /no/where\n" in done.stderr
    # Whichever comes first: the kubelet's third pause, or the end of `starts_within`.
    reason = "(CrashLoopBackOff|ProgressDeadlineExceeded)"
    assert re.search(f"error: {SHOWN} does not serve what was deployed: {reason}; it was left as it is\n", done.stderr)
    assert before < set(site.run(f"kubectl get pods {PODS} -o name").split())
    assert site.get(SHOWN)["status"]["availableReplicas"] == 2
    edit(package, "server", MODEL="/etc/hostname")
    assert deploy(site, package).returncode == 0


def test_no_request_is_lost_in_a_roll(site: Site, package: Path) -> None:
    assert deploy(site, package).returncode == 0
    ask(site, package, SECONDS=40, RATE=50)
    answers = roll_and_lose_a_pod(site, package)
    assert set(answers) == {"version 1", "version 2"}, answers


@pytest.mark.alone
def test_no_request_of_200_a_second_is_lost_in_a_minute(site: Site, package: Path) -> None:
    assert deploy(site, package).returncode == 0
    ask(site, package, SECONDS=60, RATE=200)
    answers = roll_and_lose_a_pod(site, package)
    assert set(answers) == {"version 1", "version 2"}, answers
    assert sum(answers.values()) == 12_000

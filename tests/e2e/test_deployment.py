"""Tests of a Deployment on a real cluster: service, rollout without a lost request, and a failed rollout.

The cluster of `tests/testbed` has no kube-proxy, so requests go through a headless Service that the test creates.
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.faults import component
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
    """Return a package with a server and a client, which run as a user that is not in the image."""
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
    """Deploy the client, which sends requests without a pause, when its name for the server leads to all replicas.

    The controller that writes the addresses of a Service may begin many seconds after the other ones.
    """
    site.apply(REACHED)
    site.until(lambda: ready_addresses(site) == 2, "the addresses of the replicas", 60)
    edit(package, "load", ADDRESS="reached", **values)
    site.run(f"mlpack deploy {package} --overlay load --no-wait -y")
    site.until(lambda: site.phase("serve-load") == "Running", "the load to begin")


def ready_addresses(site: Site) -> int:
    slices = site.get("endpointslices --selector=kubernetes.io/service-name=reached")["items"]
    return sum(one["conditions"].get("ready", False) for part in slices for one in part["endpoints"] or [])


def all_serve(site: Site) -> bool:
    counts = site.get(SHOWN)["status"]
    return [counts.get(field) for field in ("replicas", "updatedReplicas", "availableReplicas")] == [2, 2, 2]


def configure(site: Site, package: Path, *options: str) -> None:
    site.run(" ".join(["mlpack configure", str(package), "--overlay server", *options]))


def test_deployment_serves_with_each_option_and_is_deleted_completely(site: Site, package: Path) -> None:
    done = deploy(site, package)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert f"{SHOWN} serves: 2 of 2 replicas serve\n" in done.stderr
    status = site.run(f"mlpack status {package} --overlay server")
    assert status.startswith(f"{SHOWN}  serving: 2 of 2 replicas serve\n")
    assert site.run(f"mlpack logs {package} --overlay server") == "version 1 serves /etc/hostname\n"
    assert site.in_pod(f"{package} --overlay server", "id -u") == "12345\n"

    configure(site, package, "--with autoscale --set AUTOSCALE_MAX=5 --with expose --set EXPOSE=NodePort")
    edit(package, "server", VERSION=2)
    done = deploy(site, package)
    assert f"{SHOWN} serves: 2 of 2 replicas serve\n" in done.stderr, "an autoscaler takes over what there is"
    assert len(site.run("kubectl get configmaps -o name --selector=app.kubernetes.io/name=serve").split()) == 4
    scaling = site.get("hpa/serve-server")["spec"]
    assert scaling["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "serve-server"}
    assert (scaling["minReplicas"], scaling["maxReplicas"]) == (2, 5)
    assert scaling["metrics"][0]["resource"]["target"] == {"averageUtilization": 80, "type": "Utilization"}
    ports = exposed(site, "NodePort")
    assert ports[0]["nodePort"] >= 30_000

    configure(site, package, "--set EXPOSE=Ingress --set EXPOSE_HOST=a.example.org --set EXPOSE_CLASS=ours")
    assert deploy(site, package).returncode == 0
    status = site.run(f"mlpack status {package} --overlay server")
    assert "service/serve-server  exists\n" in status
    assert "ingress/serve-server  no address yet\n" in status
    assert "nodePort" not in exposed(site, "ClusterIP")[0]
    ingress = site.get("ingress/serve-server")["spec"]
    [rule] = ingress["rules"]
    backend = {"service": {"name": "serve-server", "port": {"name": "http"}}}
    assert (ingress["ingressClassName"], rule["host"]) == ("ours", "a.example.org")
    assert rule["http"]["paths"] == [{"backend": backend, "path": "/", "pathType": "Prefix"}]

    configure(site, package, "--set EXPOSE=LoadBalancer --without autoscale")
    done = deploy(site, package)
    for gone in ("ingress/serve-server", "horizontalpodautoscaler/serve-server"):
        assert f"{gone} is deleted: the overlay does not contain it any more\n" in done.stderr
    assert (done.returncode, exposed(site, "LoadBalancer")[0]["name"]) == (0, "http")

    configure(site, package, "--with autoscale --without expose")
    assert deploy(site, package).returncode == 0
    exposed(site, "ClusterIP")
    configure(site, package, "--without autoscale")
    site.run(f"mlpack delete {package} --overlay server -y")  # it also deletes objects of former options
    site.until(lambda: not site.left() and not site.run("kubectl get hpa,ingress,pdb -o name"), "everything to be gone")


def exposed(site: Site, kind: str) -> list[dict[str, Any]]:
    """Assert that the Service has this type, and return its ports."""
    spec = site.get("service/serve-server")["spec"]
    assert spec["type"] == kind
    return list(spec["ports"])


def test_failed_rollout_is_reported_and_leaves_the_old_replicas(site: Site, package: Path) -> None:
    assert deploy(site, package).returncode == 0
    before = set(site.run(f"kubectl get pods {PODS} -o name").split())
    edit(package, "server", MODEL="/no/where")
    done = deploy(site, package)
    assert done.returncode == 7, done.stderr
    assert "  | there is no model at /no/where\n" in done.stderr
    # The reason depends on which comes first: the kubelet's third pause, or the end of `starts_within`.
    reason = "(CrashLoopBackOff|ProgressDeadlineExceeded)"
    assert re.search(f"error: {SHOWN} does not serve what was deployed: {reason}; it was left as it is\n", done.stderr)
    assert before < set(site.run(f"kubectl get pods {PODS} -o name").split())
    assert site.get(SHOWN)["status"]["availableReplicas"] == 2
    edit(package, "server", MODEL="/etc/hostname")
    assert deploy(site, package).returncode == 0


@pytest.mark.thorough
@pytest.mark.alone
@pytest.mark.skipif("MLPACK_E2E_CONTEXT" in os.environ, reason="only the cluster of tests/testbed may be broken")
def test_deployment_answers_all_requests_during_a_rollout_and_a_kubelet_restart(site: Site, package: Path) -> None:
    """An edit is rolled out, a pod is deleted, and the only kubelet restarts, under 200 requests per second.

    Since Kubernetes 1.35, a restarted kubelet keeps the readiness of its pods, except of those that started in the last
    ten seconds before the restart (pkg/kubelet/prober/prober_manager.go, kubeletRestartGracePeriod).
    """
    assert deploy(site, package).returncode == 0
    ask(site, package, SECONDS=60, RATE=200)
    edit(package, "server", VERSION=2)
    rolled = deploy(site, package)
    assert rolled.returncode == 0, rolled.stderr
    pods = site.get(f"pods {PODS}")["items"]
    staying = [pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    site.run(f"kubectl delete pod {staying[0]}")
    site.until(lambda: all_serve(site), "another pod in the place of the deleted one", 60)
    time.sleep(11)
    component("stop", "kubelet")
    component("start", "kubelet")
    site.until(lambda: all_serve(site), "all replicas after the restart", 60)
    # Right after its restart, a kubelet cannot run commands in pods.
    enough = "kubectl exec serve-load -- sh -c 'touch \"$OUTPUT_DIR/enough\"'"
    site.until(lambda: site.shell(enough).returncode == 0, "a kubelet that runs commands", 60)
    assert site.end_of_pod("serve-load") == "Succeeded"
    answers = last_json(site.log("serve-load"))
    assert sum(answers.values()) >= 12_000
    assert answers.keys() == {"version 1", "version 2"}, answers

"""Tests of every verb with a Deployment, alone and beside an MPIJob, in a fake cluster."""

import re

import pytest

from packager.kubernetes.objects import Object
from tests.conftest import Mlpack, Outcome
from tests.fake_cluster import item
from tests.life import JOB, SERVER, Life
from tests.serving import manifest, replica, replica_set, report

WHERE = ("hello-mpi", "-n", "team")
DEPLOY = ("deploy", *WHERE, "--no-verify")
SHOWN = f"deployment/{SERVER}"


@pytest.fixture
def server(life: Life) -> Life:
    """The fake cluster, for a package whose first overlay contains a Deployment instead of an MPIJob."""
    life.served["apps/v1"] = ["Deployment"]
    rest = [obj for obj in life.overlays["multi-node"] if obj["kind"] != "MPIJob"]
    life.overlays["multi-node"] = [*rest, manifest()]
    return life


@pytest.fixture
def served(server: Life) -> Life:
    """The cluster of `server`, in which two replicas of the Deployment serve."""
    server._make(server.overlays["multi-node"])
    start(server)
    report(server, 2)
    return server


def start(life: Life) -> None:
    life.objects += [replica_set(), replica(0), replica(1)]


def messages_of(done: Outcome) -> list[str]:
    return [re.sub(r"^\d\d:\d\d  ", "", line) for line in done.stderr.splitlines()]


def test_deploy_ends_when_all_replicas_serve(mlpack: Mlpack, server: Life) -> None:
    server.moments = [lambda: None, lambda: start(server), lambda: report(server, 1), lambda: report(server, 2)]
    done = mlpack(*DEPLOY)
    assert (done.code, done.stdout) == (0, "")
    assert messages_of(done) == [
        f"{SHOWN} is deployed in the namespace team",
        "pending: 0 of 2 replicas serve",
        "running: 0 of 2 replicas serve",
        "running: 1 of 2 replicas serve",
        f"{SHOWN} serves: 2 of 2 replicas serve",
        "  its log:     mlpack logs hello-mpi -n team",
        "  delete it:   mlpack delete hello-mpi -n team",
    ]


def test_deploy_reports_that_earlier_rollout_serves(mlpack: Mlpack, served: Life) -> None:
    for index in range(2):
        served.find("Pod", f"{SERVER}-a-{index}")["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    newer = replica_set("b")
    newer["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": "2"}
    wrong = replica(5, "b", {"waiting": {"reason": "InvalidImageName", "message": "invalid reference format"}})
    served.overlays["multi-node"][-1]["spec"]["paused"] = False
    served.objects += [newer, wrong]
    served.moments = [lambda: report(served, 2, updatedReplicas=1, replicas=3)]
    done = mlpack(*DEPLOY)
    assert done.code == 7
    assert messages_of(done)[-6:] == [
        "stuck: the image a:1 cannot be pulled: invalid reference format",
        f"{SHOWN}: 2 pods of the earlier rollout serve until the new ones are ready",
        f"pod/{SERVER}-b-5: the image a:1 cannot be pulled: invalid reference format",
        "  hint: correct REGISTRY in mlops.env",
        f"error: {SHOWN} does not serve what was deployed: ErrImagePull; it was left as it is",
        "hint: correct it and deploy again, which needs no --replace, or delete it: mlpack delete hello-mpi -n team",
    ]


def test_deploy_changes_running_deployment_in_place(mlpack: Mlpack, served: Life) -> None:
    served.overlays["multi-node"][-1] = manifest(replicas=3)
    served.moments = [lambda: report(served, 2), lambda: report(served, 3, updatedReplicas=3)]
    done = mlpack(*DEPLOY)
    assert done.code == 0
    assert messages_of(done)[0] == f"{SHOWN} already exists with a different spec; the changes can be applied in place"
    assert messages_of(done)[-3] == f"{SHOWN} serves: 3 of 3 replicas serve"
    assert not any(call.startswith("delete") for call in served.calls)


@pytest.mark.usefixtures("served")
def test_status_counts_serving_replicas(mlpack: Mlpack) -> None:
    done = mlpack("status", *WHERE)
    assert (done.code, done.stdout.splitlines()[0]) == (0, f"{SHOWN}  serving: 2 of 2 replicas serve")
    answer = mlpack("status", *WHERE, "-o", "json").json
    assert (answer["phase"], answer["summary"]) == ("serving", "2 of 2 replicas serve")
    assert [pod["name"] for pod in answer["pods"]] == [f"{SERVER}-a-1", f"{SERVER}-a-0"]
    assert mlpack("status", *WHERE, "--watch").code == 0


@pytest.mark.usefixtures("served")
def test_results_refuses_deployment(mlpack: Mlpack) -> None:
    done = mlpack("results", "hello-mpi", "out", "-n", "team")
    error = f"error: {SHOWN} is a service and has no results\nhint: mlpack logs hello-mpi -n team\n"
    assert (done.code, done.stderr) == (2, error)


def test_delete_removes_objects_of_earlier_deploys(mlpack: Mlpack, served: Life) -> None:
    labels = {"app.kubernetes.io/managed-by": "mlpack", "app.kubernetes.io/name": "hello-mpi"}
    newest, earlier, another = (f"{SERVER}-env-{end}" for end in ("bbbbbbbbbb", "2456789bcd", "more"))
    current = item("ConfigMap", newest, metadata={"labels": labels}, data={})
    served.overlays["multi-node"] += [{**current, "apiVersion": "v1", "metadata": {"name": newest, "labels": labels}}]
    served.served |= {"policy/v1": ["PodDisruptionBudget"]}
    stranger = item("ConfigMap", f"{SERVER}-env-dddddddddd", metadata={"labels": {}})
    budget = {**item("PodDisruptionBudget", SERVER, metadata={"labels": labels}), "apiVersion": "policy/v1"}
    served.objects += [current, *(item("ConfigMap", name, metadata={"labels": labels}) for name in (earlier, another))]
    served.objects += [stranger, budget]
    assert mlpack("delete", *WHERE, "-y").code == 0
    left = [obj["metadata"]["name"] for obj in served.objects if obj["metadata"]["name"].startswith(f"{SERVER}-env")]
    assert left == [another, f"{SERVER}-env-dddddddddd"]
    assert not any(obj["kind"] == "PodDisruptionBudget" for obj in served.objects)


LABELS = {"app.kubernetes.io/managed-by": "mlpack", "app.kubernetes.io/name": "hello-mpi"}
APIS = {
    "Service": "v1",
    "PodDisruptionBudget": "policy/v1",
    "Ingress": "networking.k8s.io/v1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
}


def beside(kind: str, name: str = SERVER, labels: Object = LABELS) -> Object:
    """Return a companion object of the Deployment, of one of the kinds of APIS."""
    return {**item(kind, name, metadata={"labels": labels}), "apiVersion": APIS[kind]}


@pytest.fixture
def switched(served: Life) -> Life:
    """A served Deployment with a Service of the overlay, and an Ingress and an autoscaler of disabled options."""
    served.served |= {api: [kind] for kind, api in APIS.items() if "/" in api}
    service = beside("Service")
    template = {**service, "metadata": {"name": SERVER, "labels": LABELS}}
    served.overlays["multi-node"] += [template]
    served.objects += [service, beside("Ingress"), beside("HorizontalPodAutoscaler")]
    served.moments = [lambda: report(served, 2)]
    return served


def kinds_beside(life: Life) -> list[str]:
    return [obj["kind"] for obj in life.objects if obj["kind"] in APIS and obj["metadata"]["name"] == SERVER]


def test_deploy_deletes_objects_of_disabled_options(mlpack: Mlpack, switched: Life) -> None:
    switched.objects.append(beside("Ingress", f"{SERVER}-two"))
    done = mlpack(*DEPLOY)
    assert done.code == 0
    assert [line for line in messages_of(done) if "any more" in line] == [
        f"ingress/{SERVER} is deleted: the overlay does not contain it any more",
        f"horizontalpodautoscaler/{SERVER} is deleted: the overlay does not contain it any more",
    ]
    assert kinds_beside(switched) == ["Service"]
    assert switched.find("Ingress", f"{SERVER}-two")


@pytest.fixture
def autoscaled(served: Life) -> Life:
    """A Deployment whose three replicas were set by mlpack, and an overlay with an autoscaler instead of a number."""
    served.served |= {api: [kind] for kind, api in APIS.items() if "/" in api}
    live = served.find("Deployment", SERVER)
    live["spec"]["replicas"] = 3
    live["metadata"]["managedFields"] = [
        {"manager": "mlpack", "operation": "Apply", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
    ]
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": SERVER}
    metadata = {"name": SERVER, "labels": LABELS}
    autoscaler = {**beside("HorizontalPodAutoscaler"), "metadata": metadata, "spec": {"scaleTargetRef": target}}
    del served.overlays["multi-node"][-1]["spec"]["replicas"]
    served.overlays["multi-node"].append(autoscaler)
    served.moments = [lambda: report(served, 2)]
    return served


def kept_replicas(life: Life) -> int:
    """Return how many times only the number of replicas was applied."""
    return sum("--field-manager=mlpack-replicas" in call for call in life.calls)


def test_deploy_keeps_replicas_for_new_autoscaler(mlpack: Mlpack, autoscaled: Life) -> None:
    mlpack(*DEPLOY, "--no-wait")
    assert kept_replicas(autoscaled) == 1


def test_deploy_leaves_replicas_set_by_autoscaler(mlpack: Mlpack, autoscaled: Life) -> None:
    autoscaled.find("Deployment", SERVER)["metadata"]["managedFields"] = [
        {"manager": "mlpack", "operation": "Apply", "fieldsV1": {"f:spec": {"f:template": {}}}},
        {"manager": "kube-controller-manager", "subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
    ]
    mlpack(*DEPLOY, "--no-wait")
    assert kept_replicas(autoscaled) == 0


def test_status_lists_companion_objects(mlpack: Mlpack, switched: Life) -> None:
    switched.find("Service", SERVER)["spec"] = {"ports": [{"name": "http", "port": 8080}]}
    done = mlpack("status", *WHERE)
    assert (done.code, done.stdout.splitlines()[-1]) == (0, f"service/{SERVER}  exists")
    answer = mlpack("status", *WHERE, "-o", "json").json
    assert answer["beside"] == [{"object": f"service/{SERVER}", "state": "exists"}]


TRAINING, SERVING = f"mpijob/{JOB}", f"deployment/{SERVER}"


@pytest.fixture
def both(life: Life) -> Life:
    """The fake cluster, for a package whose first overlay contains a Deployment and, after it, an MPIJob."""
    life.served["apps/v1"] = ["Deployment"]
    life.overlays["multi-node"].insert(0, manifest())
    return life


@pytest.fixture
def deployed(both: Life) -> Life:
    """The cluster of `both`, in which the pods of both workloads run."""
    both.deploy()
    both.start()
    serve(both)
    return both


def serve(life: Life) -> None:
    life.objects += [replica_set(), replica(0), replica(1)]
    report(life, 2)


def nothing() -> None:
    """Change nothing at this moment."""


def test_deploy_follows_each_workload_to_its_end(mlpack: Mlpack, both: Life) -> None:
    both.moments = [nothing, both.start, lambda: serve(both), both.end]
    done = mlpack(*DEPLOY)
    assert (done.code, done.stdout) == (0, "")
    assert messages_of(done)[1:] == [
        f"{TRAINING}, {SERVING} are deployed in the namespace team",
        f"{TRAINING} pending: no pods yet",
        f"{TRAINING} running: pods: 3 running",
        f"{TRAINING} has succeeded",
        "  its log:     mlpack logs hello-mpi -n team",
        "  delete it:   mlpack delete hello-mpi -n team",
        f"{SERVING} serves: 2 of 2 replicas serve",
        f"  its log:     mlpack logs hello-mpi -n team --workload {SERVER}",
        "  delete it:   mlpack delete hello-mpi -n team",
    ]


def test_status_reports_both_workloads(mlpack: Mlpack, deployed: Life) -> None:
    done = mlpack("status", *WHERE)
    assert done.code == 0
    assert f"{TRAINING}  running: pods: 3 running" in done.stdout
    assert f"{SERVING}  serving: 2 of 2 replicas serve" in done.stdout
    answer = mlpack("status", *WHERE, "-o", "json").json
    assert (answer["workload"], [other["workload"] for other in answer["others"]]) == (TRAINING, [SERVING])
    deployed.end("Failed")
    assert mlpack("status", *WHERE).code == 7


def test_logs_use_main_or_selected_workload(mlpack: Mlpack, deployed: Life) -> None:
    begin = "2026-11-21T00:00:01.000000000Z"
    deployed.logs = {f"{JOB}-launcher-0": f"{begin} epoch 1\n", f"{SERVER}-a-1": f"{begin} ready\n"}
    assert mlpack("logs", *WHERE).stdout == "epoch 1\n"
    assert mlpack("logs", *WHERE, "--workload", SERVER).stdout == "ready\n"

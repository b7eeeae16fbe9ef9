"""The import of jobs of Kubeflow, and of JobSets; every leaf of a job is in the spec, or in a finding."""

from __future__ import annotations

import json
import re
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager.base.errors import ClusterError, MlpackError, SpecError
from packager.modelspec.importers import kubeflow
from packager.modelspec.importers.source import ForeignValue, Source
from packager.modelspec.importing import Imported, ModelDestination, import_jobs, read_cluster, write
from tests.modelspec.importers.results import check_package

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from packager.base.yamlio import Location
    from tests.conftest import Outcome

IMAGE = "registry.example/train:1"


def pod(container: str, *command: str, **fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": container, "image": IMAGE, "command": [*command], **fields}]}}


def job(kind: str, spec: dict[str, Any], version: str = "kubeflow.org/v1", name: str = "digits") -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def pytorch(command: tuple[str, ...] = ("python3", "train.py"), workers: int = 3, **more: Any) -> dict[str, Any]:
    replicas = {
        "Master": {"replicas": 1, "restartPolicy": "Never", "template": pod("pytorch", *command)},
        "Worker": {"replicas": workers, "restartPolicy": "Never", "template": pod("pytorch", *command)},
    }
    return job("PyTorchJob", {"pytorchReplicaSpecs": replicas, **more})


def tensorflow(**replicas: int) -> dict[str, Any]:
    template = pod("tensorflow", "python3", "train.py")
    roles = {role: {"replicas": count, "template": template} for role, count in replicas.items()}
    return job("TFJob", {"tfReplicaSpecs": roles})


def mpi(*command: str, version: str = "kubeflow.org/v2beta1", **more: Any) -> dict[str, Any]:
    roles = {"Launcher": {"template": pod("mpi", *command)}, "Worker": {"replicas": 2, "template": pod("mpi")}}
    del roles["Worker"]["template"]["spec"]["containers"][0]["command"]  # type: ignore[index]
    return job("MPIJob", {"slotsPerWorker": 2, "mpiReplicaSpecs": roles, **more}, version)


def imported(folder: Path, *objects: Any, sets: bool = False) -> tuple[dict[str, Any], Imported]:
    """Return the only overlay of the only model that objects make, and the import."""
    text = "---\n".join(map(yaml.safe_dump, objects)).encode()
    (outcome,) = import_jobs(text, "job.yaml", ModelDestination(folder), verb="jobset" if sets else "kubeflow")
    if isinstance(outcome, MlpackError):
        raise outcome
    spec = yaml.safe_load((outcome.folder / "spec.yaml").read_text(encoding="utf-8"))
    (overlay,) = spec["overlays"].values()
    return overlay, outcome


def test_pytorchjob_becomes_a_jobset_of_as_many_nodes(tmp_path: Path, kubectl: Path) -> None:
    overlay, result = imported(tmp_path, pytorch())
    assert overlay == {
        "kind": "JobSet",
        "rendezvous": "torch",
        "port": 23456,
        "command": ["python3", "train.py"],
        "roles": {"node": {"replicas": 4}},
        "retries": 0,
        "processes_per_node": 1,
    }
    check_package(result, tmp_path / "packages", kubectl)


@pytest.mark.parametrize(
    ("command", "number", "processes"),
    [
        (("python3", "train.py"), None, 1),  # the operator starts one process, however many GPUs there are
        (("torchrun", "train.py"), None, "auto"),
        (("python", "-m", "torch.distributed.run", "train.py"), None, "auto"),
        (("torchrun", "train.py"), "4", 4),
        (("bash", "run.sh"), "gpu", "per-gpu"),
    ],
)
def test_processes_are_those_that_the_operator_starts(
    tmp_path: Path, command: tuple[str, ...], number: str | None, processes: int | str
) -> None:
    more: dict[str, Any] = {"nprocPerNode": number} if number else {}
    overlay, _ = imported(tmp_path, pytorch(command, **more))
    assert overlay["processes_per_node"] == processes


def test_job_of_one_pod_has_the_variables_of_the_operator(tmp_path: Path) -> None:
    overlay, _ = imported(tmp_path, pytorch(workers=0))
    expected = {"MASTER_ADDR": "localhost", "MASTER_PORT": "23456", "RANK": "0", "WORLD_SIZE": "1"}
    assert (overlay["kind"], overlay["environment"]) == ("Job", expected | {"PET_NPROC_PER_NODE": "1"})


def test_elastic_policy_is_an_option(tmp_path: Path) -> None:
    policy = {"minReplicas": 2, "maxReplicas": 8, "maxRestarts": 5, "rdzvBackend": "c10d"}
    _, result = imported(tmp_path, pytorch(("torchrun", "train.py"), elasticPolicy=policy))
    assert result.build[3:] == ["--with", "elastic", "--site=ELASTIC_MIN=2", "--site=ELASTIC_RESTARTS=5"]


def test_hint_about_the_user_repeats_the_uid(tmp_path: Path) -> None:
    value = mpi("mpirun", "python3", "train.py", runPolicy={"cleanPodPolicy": "Running"})
    value["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["securityContext"] = {"runAsUser": 1000}
    _, result = imported(tmp_path, value)
    assert [str(finding).partition(".template.")[2] or finding.message for finding in result.findings] == [
        "spec.securityContext.runAsUser is not carried over (mlpack configure --uid 1000)",
        "spec.runPolicy.cleanPodPolicy is not carried over",
    ]


def test_tfjob_becomes_a_jobset_with_tf_config(tmp_path: Path, kubectl: Path) -> None:
    overlay, result = imported(tmp_path, tensorflow(Chief=1, Worker=2, PS=1))
    assert (overlay["kind"], overlay["rendezvous"], overlay["success"]) == ("JobSet", "tensorflow", ["chief"])
    assert {role: values["replicas"] for role, values in overlay["roles"].items()} == {"chief": 1, "worker": 2, "ps": 1}
    check_package(result, tmp_path / "packages", kubectl)
    alone, _ = imported(tmp_path / "alone", tensorflow(WORKER=1))
    assert (alone["kind"], "environment" in alone) == ("Job", False)


def test_mpijob_runs_the_program_that_mpirun_starts(tmp_path: Path, kubectl: Path) -> None:
    words = (
        "mpirun",
        "--allow-run-as-root",
        "-np",
        "4",
        "-x",
        "NCCL_DEBUG=INFO",
        "-mca",
        "pml",
        "ob1",
        "python3",
        "a.py",
    )
    overlay, result = imported(tmp_path, mpi(*words))
    assert overlay["command"] == ["python3", "a.py"]
    assert (overlay["workers"], overlay["slots_per_worker"], overlay["processes"]) == (2, 2, 4)
    assert overlay["environment"] == {"NCCL_DEBUG": "INFO", "OMPI_MCA_pml": "ob1"}
    check_package(result, tmp_path / "packages", kubectl)
    script = "until ssh w true; do sleep 1; done\nmpirun -np $NP \\\n  -x A=b ./run -b 8\n"
    overlay, result = imported(tmp_path / "script", mpi("bash", "-c", script, version="kubeflow.org/v1"))
    assert (overlay["command"], "processes" in overlay) == (["./run", "-b", "8"], False)
    messages = " ".join(finding.message for finding in result.findings)
    assert "of the launcher's script, only mpirun is carried over" in messages
    assert "v2beta1 uses ssh" in messages


RUNTIME = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "ClusterTrainingRuntime",
    "metadata": {"name": "torch-distributed"},
    "spec": {
        "mlPolicy": {"numNodes": 1, "torch": {"numProcPerNode": "auto"}},
        "template": {
            "spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": pod("node", "sleep")}}}]}
        },
    },
}


def test_trainjob_needs_its_runtime(tmp_path: Path) -> None:
    trainer = {"numNodes": 3, "command": ["torchrun", "train.py"], "resourcesPerNode": {"requests": {"cpu": 2}}}
    spec = {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer}
    train_job = job("TrainJob", spec, "trainer.kubeflow.org/v1alpha1")
    overlay, _ = imported(tmp_path, train_job, RUNTIME)
    assert (overlay["command"], overlay["roles"]["node"]["replicas"]) == (["torchrun", "train.py"], 3)
    assert overlay["roles"]["node"]["resources"] == {"requests": {"cpu": 2}}
    other = job("TrainJob", {"runtimeRef": {"name": "mine"}}, "trainer.kubeflow.org/v1alpha1")
    with pytest.raises(SpecError) as error:
        imported(tmp_path / "other", other)
    assert "kubectl get clustertrainingruntime mine -o yaml" in str(error.value.problems[0])


def jobset(*roles: tuple[str, int], **container: Any) -> dict[str, Any]:
    jobs = [
        {
            "name": name,
            "template": {"spec": {"parallelism": count, "completions": count, "template": pod("c", **container)}},
        }
        for name, count in roles
    ]
    return job("JobSet", {"replicatedJobs": jobs, "failurePolicy": {"maxRestarts": 2}}, "jobset.x-k8s.io/v1alpha2")


def test_jobset_keeps_its_roles(tmp_path: Path) -> None:
    overlay, _ = imported(tmp_path, jobset(("leader", 1), ("worker", 3)), sets=True)
    assert (overlay["rendezvous"], overlay["retries"]) == ("none", 2)
    assert {role: values["replicas"] for role, values in overlay["roles"].items()} == {"leader": 1, "worker": 3}
    index = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
    torch = [{"name": "MASTER_ADDR", "value": "digits-w-0-0.digits"}, {"name": "RANK", "valueFrom": index}]
    overlay, _ = imported(tmp_path / "torch", jobset(("w", 2), env=torch), sets=True)
    assert (overlay["rendezvous"], overlay["roles"]) == ("torch", {"node": {"replicas": 2}})
    with pytest.raises(SpecError, match="1 problem"):
        imported(tmp_path / "own", jobset(("w", 2), env=[{"name": "MINE", "valueFrom": index}]), sets=True)


def master_differs() -> dict[str, Any]:
    value = pytorch()
    value["spec"]["pytorchReplicaSpecs"]["Master"]["template"] = pod("pytorch", "python3", "serve.py")
    return value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (job("XGBoostJob", {}), "jobs of this kind are not imported: write a spec with rendezvous xgboost"),
        (job("PaddleJob", {}), "jobs of this kind are not imported: write a spec with rendezvous none"),
        (master_differs(), "the master has another program than the workers"),
        (mpi("bash", "run.sh"), "the launcher does not start mpirun itself"),
        (pytorch(workers="$NODES"), "expected a whole number, found '$NODES'"),  # type: ignore[arg-type]
    ],
)
def test_job_that_cannot_run_is_refused(tmp_path: Path, value: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError) as error:
        imported(tmp_path, value)
    assert message in error.value.problems[0].message


def test_lists_and_several_documents_make_a_model_each(mlpack: Callable[..., Outcome], tmp_path: Path) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [pytorch(), job("PaddleJob", {}, name="paddle")]}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}}
    documents = [listed, tensorflow(Worker=2) | {"metadata": {"name": "words"}}, claim]
    (tmp_path / "jobs.yaml").write_text("---\n".join(map(yaml.safe_dump, documents)), encoding="utf-8")
    done = mlpack("import", "kubeflow", "jobs.yaml", "-o", "models")
    assert (done.code, done.stdout) == (3, "models/digits/spec.yaml\nmodels/words/spec.yaml\n")
    assert done.stderr.endswith("2 imported, 1 failed\n")
    assert "'PersistentVolumeClaim' of 'v1' is not carried over: a package makes its own objects" in done.stderr
    assert mlpack("import", "jobset", "jobs.yaml").code == 3
    assert mlpack("import", "kubeflow").code == 2


class Cluster:
    """The objects of a cluster, by kind and name."""

    def __init__(self, **objects: Any) -> None:
        self.objects = {key.replace("__", "/").replace("_", "-"): value for key, value in objects.items()}

    def get(self, what: str) -> Any:
        return self.objects.get(what)


def test_job_of_a_cluster_is_read_with_its_runtime() -> None:
    spec = {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 2}}
    train_job = job("TrainJob", spec, "trainer.kubeflow.org/v1alpha1") | {"status": {"conditions": []}}
    cluster: Any = Cluster(trainjob__digits=train_job, clustertrainingruntime__torch_distributed=RUNTIME)
    (found,) = kubeflow.find(read_cluster(cluster, "trainjob/digits"), "trainjob/digits", "kubeflow")
    overlay = kubeflow.read(found).data["overlays"]["multi-node"]
    assert (overlay["command"], overlay["roles"]["node"]["replicas"]) == (["sleep"], 2)
    with pytest.raises(ClusterError, match="pytorchjob/none not found"):
        read_cluster(cluster, "pytorchjob/none")


# What jobs have, by the place in a role, its pod or its container; each is drawn at random.
OF_JOB = {
    "cleanPodPolicy": "Running",
    "backoffLimit": 4,
    "activeDeadlineSeconds": 600,
    "ttlSecondsAfterFinished": 7,
    "suspend": True,
    "managedBy": "kueue.x-k8s.io/multikueue",
    "schedulingPolicy": {"queue": "research", "minAvailable": 2, "priorityClass": "high", "minResources": {"cpu": 3}},
}
OF_POD = {
    "hostNetwork": True,
    "hostIPC": True,
    "dnsPolicy": "ClusterFirstWithHostNet",
    "schedulerName": "volcano",
    "priorityClassName": "high",
    "serviceAccountName": "trainer",
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "imagePullSecrets": [{"name": "pull"}, {"name": "other"}],
    "securityContext": {"runAsUser": 7},
    "initContainers": [{"name": "wait", "image": IMAGE, "command": ["sleep", "1"]}],
    "volumes": [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
        {"name": "code", "configMap": {"name": "code", "items": [{"key": "a", "path": "b"}]}},
    ],
    "enableServiceLinks": False,
}
OF_CONTAINER = {
    "imagePullPolicy": "Always",
    "workingDir": "/opt/model",
    "env": [
        {"name": "STEPS", "value": "3"},
        {"name": "NCCL_DEBUG", "value": "INFO"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "TOKEN"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "RANK", "value": "7"},
        {"name": "PATH", "value": "/bin"},
    ],
    "envFrom": [{"configMapRef": {"name": "more"}}],
    "resources": {"limits": {"nvidia.com/gpu": 2, "memory": "4Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}},
    "volumeMounts": [
        {"name": "shm", "mountPath": "/dev/shm"},
        {"name": "data", "mountPath": "/data", "readOnly": True},
    ],
    "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
    "livenessProbe": {"tcpSocket": {"port": 22}, "periodSeconds": 3},
    "lifecycle": {"preStop": {"exec": {"command": ["sync"]}}},
    "ports": [{"name": "metrics", "containerPort": 9000}],
    "stdin": True,
    "tty": True,
}


def drawn(random: Random, fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if random.random() < 0.4}


def generated(random: Random) -> dict[str, Any]:
    """Return a job with fields that are drawn at random; its roles have the same."""
    value = random.choice(
        (
            pytorch(random.choice((("python3", "train.py"), ("torchrun", "train.py", "--lr=1")))),
            tensorflow(Chief=1, Worker=2, PS=1, Evaluator=1),
            mpi("mpirun", "-np", "4", "--bind-to", "socket", "-x", "A=b", "python3", "train.py"),
        )
    )
    of_pod, of_container = drawn(random, OF_POD), drawn(random, OF_CONTAINER)
    (key,) = (key for key in value["spec"] if key.endswith("ReplicaSpecs"))
    for role in value["spec"][key].values():
        role["restartPolicy"] = random.choice(("Never", "OnFailure"))
        role["template"]["metadata"] = {"labels": {"team": "a"}, "annotations": {"sidecar.istio.io/inject": "false"}}
        role["template"]["spec"].update(json.loads(json.dumps(of_pod)))
        role["template"]["spec"]["containers"][0].update(json.loads(json.dumps(of_container)))
    value["spec"]["runPolicy"] = drawn(random, OF_JOB)
    value["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q", "owner": "me"}
    return value


def leaves(value: Any, location: Location = ()) -> Iterator[tuple[Location, Any]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, child in children:
        if isinstance(child, dict | list) and child:
            yield from leaves(child, (*location, step))
        else:
            yield (*location, step), child


# Names inside of a job, which refer to nothing else; and numbers of pods, which become one.
STRUCTURE = re.compile(
    r"apiVersion|kind|.*containers\[\d+\]\.name|.*\.volumeMounts\[\d+\]\..*|.*(replicas|completions|numNodes)|status\..*"
    r"|.*\.ports\[\d+\]\..*|spec\.runtimeRef\..*|metadata\.(creationTimestamp|generation|resourceVersion|uid|managedFields.*)"
)


def unaccounted(found: kubeflow.Found, draft: Any) -> list[str]:
    """Return the leaves of a job that are neither in the spec nor in a finding, nor the same in another role."""
    source = Source(found.document, draft, "", found.location)
    paths = {origin.comment.partition(": ")[2] for origin in draft.origins.values() if origin.file}
    told = {str(finding.message).partition(" ")[0] for finding in draft.findings}
    places = {(finding.line, finding.column) for finding in draft.findings}
    overlays = draft.data["overlays"].values()
    values = dict(leaves(source.root.value))
    lost: dict[Location, str] = {}
    for location, value in values.items():
        entry = ForeignValue(source, (*found.location, *location), value)
        path = entry.path
        above = [path[: match.start()] for match in re.finditer(r"[.\[]", path)]
        at = {(one.line, one.column) for one in (entry.problem(""), entry.problem("", at_key=True))}
        in_list = re.sub(r"\[\d+\]$|\.(name|value)$|\.valueFrom\..*", "", path)
        is_known = {path, in_list, f"{in_list}.value"} & paths or {path, *above} & told or at & places
        is_policy = location[-1] == "restartPolicy" and value == "Never"
        is_priority = "riorityClass" in path and value in [overlay.get("priority_class") for overlay in overlays]
        if not (STRUCTURE.fullmatch(path) or is_known or is_policy or is_priority or not value):
            lost[location] = path

    def is_in_another_role(location: Location) -> bool:
        others = (other for other in values if other[3:] == location[3:] and other[:2] == location[:2])
        return any(other not in lost and values[other] == values[location] for other in others)

    return [path for location, path in lost.items() if not is_in_another_role(location)]


@pytest.mark.parametrize("seed", range(12))
def test_every_leaf_is_in_the_spec_or_in_a_finding(tmp_path: Path, seed: int) -> None:
    value = generated(Random(seed))
    (found,) = kubeflow.find(yaml.safe_dump(value).encode(), "job.yaml", "kubeflow")
    draft = kubeflow.read(found)
    write(draft, ModelDestination(tmp_path))
    assert unaccounted(found, draft) == []
    (overlay,) = draft.data["overlays"].values()
    pods = overlay.get("workers") or sum(role["replicas"] for role in overlay["roles"].values())
    assert pods == {"PyTorchJob": 4, "TFJob": 5, "MPIJob": 2}[value["kind"]]
    without_advice = [finding for finding in draft.findings if finding.message.endswith("is not carried over")]
    assert [str(finding) for finding in without_advice if not finding.hint] == []

"""The places of pods in a manifest, and their roles, as every part of mlpack reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from packager.kubernetes.manifest import Manifest
from packager.workloads import structures

if TYPE_CHECKING:
    from packager.workloads.pods import Pods

TEMPLATE = "{spec: {containers: [{name: main}, {name: other}]}}"

JOB_SET = f"""\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {{name: j}}
spec:
  replicatedJobs:
    - {{name: driver, template: {{spec: {{template: {TEMPLATE}}}}}}}
    - {{name: trainer, replicas: 2, template: {{spec: {{parallelism: 4, template: {TEMPLATE}}}}}}}
"""

MPI_JOB = f"""\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {{name: j}}
spec:
  mpiReplicaSpecs:
    Launcher: {{template: {TEMPLATE}}}
    Worker: {{replicas: 3, template: {TEMPLATE}}}
"""


def pods(text: str) -> tuple[Pods, ...]:
    return structures.pods(Manifest(yaml.safe_load(text)))


def test_launcher_of_an_mpijob_is_main_and_workers_compute() -> None:
    launcher, workers = pods(MPI_JOB)
    assert (launcher.name, launcher.count, launcher.main, launcher.computes) == ("launcher", 1, True, False)
    assert (workers.name, workers.count, workers.main, workers.computes) == ("worker", 3, False, True)
    assert (launcher.port, workers.port) == (None, 2222)
    assert workers.labels == (("training.kubeflow.org/job-role", "worker"),)


def test_workers_without_a_valid_number_are_zero() -> None:
    """The defaults are those of mpi-operator."""
    for worker, count in [("{}", 0), ("{replicas: 0}", 0), ("{replicas: -1}", 0), ("x", 0)]:
        text = f"kind: MPIJob\nspec: {{mpiReplicaSpecs: {{Launcher: {{}}, Worker: {worker}}}}}\n"
        assert [pods.count for pods in pods(text)] == [1, count]


def test_roles_in_a_list_have_pods_and_field_paths() -> None:
    driver, trainer = pods(JOB_SET)
    assert (driver.role, driver.count) == ("driver", 1)
    assert (trainer.role, trainer.count) == ("trainer", 8)
    assert trainer.pointer == "/spec/replicatedJobs/1/template/spec/template/spec"
    assert trainer.field_path == "spec.replicatedJobs.[name=^trainer$].template.spec.template.spec"
    assert [container["name"] for _, container in trainer.containers()] == ["main", "other"]


def test_field_path_finds_a_name_that_yaml_quotes() -> None:
    for role in ["on", "No", "1st"]:
        (driver, _) = pods(JOB_SET.replace("name: driver", f'name: "{role}"'))
        step = f"[name=^[\"']?{role}[\"']?$]"
        assert driver.field_path == f"spec.replicatedJobs.{step}.template.spec.template.spec"


def test_pods_of_kubernetes_kinds_are_located() -> None:
    for kind, spec, pointer, count in [
        ("Pod", "", "/spec", 1),
        ("PodTemplate", "", "/template/spec", 1),
        ("Job", "parallelism: 3", "/spec/template/spec", 3),
        ("Deployment", "replicas: 2", "/spec/template/spec", 2),
        ("StatefulSet", "replicas: 0", "/spec/template/spec", 0),
        ("DaemonSet", "replicas: x", "/spec/template/spec", 1),
        ("CronJob", "", "/spec/jobTemplate/spec/template/spec", 1),
    ]:
        [group] = pods(f"kind: {kind}\nspec: {{{spec}}}\n")
        assert (group.pointer, group.count, group.name) == (pointer, count, kind.lower())


def test_pointer_and_field_path_escape_steps() -> None:
    for steps in ["a/b~c", "a.b"]:
        [group] = pods(f"kind: MPIJob\nspec: {{mpiReplicaSpecs: {{{steps!r}: {{}}}}}}\n")
        escaped = steps.replace("~", "~0").replace("/", "~1")
        assert group.pointer == f"/spec/mpiReplicaSpecs/{escaped}/template/spec"
        assert group.field_path == "spec.mpiReplicaSpecs." + steps.replace(".", r"\.") + ".template.spec"


def test_main_container_is_the_annotated_or_first_one() -> None:
    for template, container in [
        ("{spec: {containers: [{name: a}]}}", "a"),
        (
            "{metadata: {annotations: {kubectl.kubernetes.io/default-container: b}}, spec: {containers: [{name: a}]}}",
            "b",
        ),
        ("{spec: {containers: []}}", ""),
        ("{spec: {containers: x}}", ""),
        ("x", ""),
    ]:
        [group] = pods(f"kind: Job\nspec: {{template: {template}}}\n")
        assert group.container == container


def test_structures_recognize_listed_kinds_and_versions() -> None:
    for api, kind, known in [
        ("v1", "ConfigMap", True),
        ("batch/v1", "Job", True),
        ("networking.k8s.io/v1", "Ingress", True),
        ("kubeflow.org/v2beta1", "MPIJob", True),
        ("kubeflow.org/v1", "MPIJob", True),
        ("kubeflow.org/v1", "PyTorchJob", False),
        ("example.org/v1", "MPIJob", False),
        ("kubeflow.org/v2/beta1", "MPIJob", False),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", True),
        ("jobset.x-k8s.io/v1alpha2", "Other", False),
        ("batch/v1/x", "Job", False),
        ("", "Pod", False),
    ]:
        assert structures.is_known(Manifest({"apiVersion": api, "kind": kind})) is known


def test_pods_of_any_content_are_read_without_an_error() -> None:
    value: Any
    for value in [None, 7, "x", [], {"spec": []}, {"spec": {"replicatedJobs": {}}}]:
        for kind in ["MPIJob", "JobSet", "Job", "Pod", "Deployment"]:
            data = {**(value if isinstance(value, dict) else {"spec": value}), "kind": kind}
            for group in structures.pods(Manifest(data)):
                assert (group.container, list(group.containers()), list(group.volumes())) == ("", [], [])

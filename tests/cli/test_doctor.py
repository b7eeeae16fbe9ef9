"""Tests of `mlpack doctor` in a fake cluster: each check, its findings and fixes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.process import Finished
from packager.base.runner import SYSTEM
from packager.cli.host import Host
from packager.cluster import operator
from packager.kubernetes.kubectl.client import Kubectl
from packager.workloads.mpijob.life import MPI_OPERATOR
from tests import demo
from tests.fake_cluster import FakeCluster, healthy, item, lease, managed, node

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.conftest import Mlpack, Outcome

    Doctor = Callable[..., "Report"]

ALL = ["kubectl", "server", "kinds", "operator", "namespace", "permissions", "admission", "quota", "nodes"]
ALL += ["references", "names", "apply"]


class Report:
    """The exit code of a doctor, and its findings by check."""

    def __init__(self, outcome: Outcome) -> None:
        self.code = outcome.code
        self.findings: list[dict[str, Any]] = outcome.json["findings"]

    def not_ok(self) -> list[tuple[str, str]]:
        """Return check and state of each finding that is neither ok nor a note."""
        states = [(finding["check"], finding["state"]) for finding in self.findings]
        return [(check, state) for check, state in states if state not in ("ok", "note")]

    def of(self, check: str) -> list[tuple[str, str | None]]:
        return [(finding["message"], finding["fix"]) for finding in self.findings if finding["check"] == check]


@pytest.fixture
def cluster() -> FakeCluster:
    return healthy()


@pytest.fixture
def doctor(mlpack: Mlpack, kubectl: Path, package: Path, cluster: FakeCluster) -> Doctor:
    """A function that configures hello-mpi with its arguments, runs the doctor, and returns the report."""
    assert package.name == "hello-mpi"
    cluster.first = lambda argv: SYSTEM.run(argv) if argv[1] == "kustomize" else None
    mlpack.host = Host(cluster)

    def examine(*configured: str, overlay: str = "multi-node", accept: tuple[str, ...] = ()) -> Report:
        if configured:
            assert mlpack("configure", "hello-mpi", *configured).code == 0
        arguments: tuple[str | Path, ...] = ("--overlay", overlay, "--kubectl", kubectl, "-o", "json", *accept)
        return Report(mlpack("doctor", "hello-mpi", "-n", "team", *arguments))

    return examine


def test_doctor_passes_every_check_in_healthy_cluster_and_creates_nothing(doctor: Doctor, cluster: FakeCluster) -> None:
    report = doctor()
    assert (report.code, report.not_ok()) == (0, [])
    assert [finding["check"] for finding in report.findings] == ALL
    assert all("--dry-run=server" in call for call in cluster.calls if call.startswith("apply"))
    created = [call for call in cluster.calls if call.startswith("create") and "--dry-run=server" not in call]
    assert len(created) == 1, "only a review of permissions, which the server does not store"


def test_doctor_prints_one_line_for_each_finding(
    mlpack: Mlpack, doctor: Doctor, cluster: FakeCluster, kubectl: Path
) -> None:
    cluster.objects = [obj for obj in cluster.objects if obj["kind"] != "Namespace"]
    assert doctor().code == 1
    done = mlpack("doctor", "hello-mpi", "-n", "team", "--kubectl", kubectl)
    assert "fails   namespace    namespace team not found; fix: kubectl create namespace team" in done.stdout
    assert done.stderr == "1 of these would make it fail\n"
    assert len(done.stdout.splitlines()) == len(ALL)


def test_doctor_fails_for_old_kubectl(doctor: Doctor, cluster: FakeCluster) -> None:
    cluster.version = (21, 34)
    assert doctor().not_ok() == [("kubectl", "fails")]


def test_doctor_notes_server_two_versions_from_kubectl(doctor: Doctor, cluster: FakeCluster) -> None:
    cluster.version = (36, 34)
    server = next(finding for finding in doctor().findings if finding["check"] == "server")
    message = "v1.34.1, 2 minor versions from kubectl's: only one is supported"
    assert (server["state"], server["message"]) == ("note", message)


def test_doctor_reports_unreachable_server_as_unknown(doctor: Doctor, cluster: FakeCluster) -> None:
    cluster.version = (34, None)
    report = doctor()
    assert (report.code, report.not_ok()) == (6, [("server", "unknown")])


def test_doctor_names_served_version_of_unserved_kind(doctor: Doctor, cluster: FakeCluster) -> None:
    cluster.served["kubeflow.org/v1"] = cluster.served.pop("kubeflow.org/v2beta1")
    results = doctor().of("kinds")
    assert results == [("MPIJob is not served in kubeflow.org/v2beta1, only v1", "mlpack operator install mpi")]


@pytest.mark.parametrize(
    ("operator_objects", "message"),
    [
        (
            [lease(datetime(2020, 1, 1, tzinfo=UTC))],
            "its lease mpi-operator/mpi-operator was last renewed at 2020-01-01",
        ),
        ([item("Deployment", "mpi-operator", status={})], "its Deployment team/mpi-operator is not available"),
    ],
)
def test_doctor_fails_for_operator_that_does_not_run(
    doctor: Doctor, cluster: FakeCluster, operator_objects: list[dict[str, Any]], message: str
) -> None:
    cluster.objects = [obj for obj in cluster.objects if obj["kind"] != "Lease"] + operator_objects
    report = doctor()
    assert report.not_ok() == [("operator", "fails")]
    assert message in report.of("operator")[0][0]


def test_doctor_reports_operator_as_unknown_without_permission(doctor: Doctor, cluster: FakeCluster) -> None:
    cluster.objects = [obj for obj in cluster.objects if obj["kind"] != "Lease"]
    cluster.denied = {"list deployments", "list leases"}
    report = doctor()
    assert (report.code, report.not_ok()) == (6, [("operator", "unknown")])


def test_doctor_passes_without_permission_to_list_events(doctor: Doctor, cluster: FakeCluster) -> None:
    cluster.denied = {"list events"}
    report = doctor()
    grant = "kubectl create rolebinding mlpack-edit --clusterrole=edit --user=YOU -n team"
    message = "you may not list events in team: mlpack can then report fewer reasons for failures"
    assert (report.code, report.of("permissions")) == (0, [(message, grant)])


def test_doctor_requires_no_operator_for_pod(doctor: Doctor, cluster: FakeCluster) -> None:
    cluster.objects = [obj for obj in cluster.objects if obj["kind"] != "Lease"]
    report = doctor(overlay="single-node")
    assert (report.code, report.of("operator")) == (0, [])


def test_heartbeat_accepts_renewed_lease_despite_clock_difference() -> None:
    old = lease(datetime(2020, 1, 1, tzinfo=UTC))
    cluster = FakeCluster([old])

    def renew(_seconds: float) -> None:
        cluster.objects[0] = lease(datetime(2020, 1, 1, tzinfo=UTC) + timedelta(seconds=3))

    cluster.wait = renew
    assert operator.check_heartbeat(Kubectl(runner=cluster), MPI_OPERATOR).alive == "yes"


def test_heartbeat_rejects_lease_of_controller_that_stopped_seconds_ago() -> None:
    """The lease is valid for 15 seconds, and a running controller renews it every 3."""
    cluster = FakeCluster([lease(datetime.now(UTC) - timedelta(seconds=6))])
    beat = operator.check_heartbeat(Kubectl(runner=cluster), MPI_OPERATOR)
    assert (beat.alive, beat.evidence.partition(" at ")[0]) == (
        "no",
        "its lease mpi-operator/mpi-operator was last renewed",
    )


@pytest.mark.thorough
def test_doctor_fails_when_namespace_enforces_stricter_pod_security(doctor: Doctor) -> None:
    message, fix = doctor("--with", "root", accept=("--pod-security", "baseline")).of("namespace")[0]
    assert message.startswith("team enforces Pod Security restricted, and the overlay needs baseline: spec.")
    assert fix == "kubectl label --overwrite namespace team pod-security.kubernetes.io/enforce=baseline"


@pytest.mark.thorough
def test_doctor_omits_package_failures_accepted_by_options(mlpack: Mlpack, doctor: Doctor, kubectl: Path) -> None:
    doctor("--with", "root")
    arguments = ("doctor", "hello-mpi", "-n", "team", "--overlay", "single-node", "--kubectl", kubectl)
    refused = mlpack(*arguments)
    assert "fails   package      " in refused.stdout
    assert "when it was sealed; fix: --pod-security baseline accepts it\n" in refused.stdout
    accepted = mlpack(*arguments, "--pod-security", "baseline", "--allow", "Service")
    assert "fails   package      " not in accepted.stdout


def test_doctor_fails_for_namespace_that_is_being_deleted(doctor: Doctor, cluster: FakeCluster) -> None:
    cluster.objects[0]["status"]["phase"] = "Terminating"
    assert doctor().of("namespace")[0][0] == "team is being deleted"


def test_doctor_lists_missing_permissions_with_grants(doctor: Doctor, cluster: FakeCluster) -> None:
    cluster.denied = {"create mpijobs", "patch mpijobs", "get pods/log"}
    grant = "kubectl create rolebinding mlpack-{0} --clusterrole={0} --user=YOU -n team"
    assert doctor().of("permissions") == [
        ("you may not create, patch mpijobs.kubeflow.org in team", grant.format("kubeflow-mpijobs-edit")),
        ("you may not get pods/log in team", grant.format("edit")),
    ]


def test_doctor_fails_when_webhook_rejects_pods(doctor: Doctor, cluster: FakeCluster) -> None:
    response = (
        'Error from server: error when creating "/x/object.json": admission webhook "policy" denied the request: no'
    )
    cluster.refused["create"] = response
    report = doctor()
    assert report.not_ok() == [("admission", "fails")]
    assert report.of("admission")[0][0] == (
        'the pods of launcher and worker are rejected: admission webhook "policy" denied the request: no'
    )


@pytest.mark.parametrize(
    ("hard", "used", "message"),
    [
        ({"requests.cpu": "1"}, {"requests.cpu": "900m"}, "and 100m of 1 is left"),
        ({"cpu": "1"}, {"cpu": "1"}, "and nothing of 1 is left"),
    ],
)
def test_doctor_fails_when_quota_has_too_little_left(
    doctor: Doctor, cluster: FakeCluster, hard: dict[str, str], used: dict[str, str], message: str
) -> None:
    cluster.objects.append(item("ResourceQuota", "tight", spec={"hard": hard}, status={"hard": hard, "used": used}))
    report = doctor()
    assert report.not_ok() == [("quota", "fails")]
    assert message in report.of("quota")[0][0]
    assert report.of("quota")[0][1] == "kubectl describe resourcequota tight -n team"


@pytest.mark.parametrize(
    ("other_node", "message"),
    [
        (
            node(cpu="10m"),
            "even with nothing else running, no node could run launcher: node-1: 10m cpu left, 100m requested",
        ),
        (node(taints=[{"key": "gpu", "effect": "NoSchedule"}]), "node-1: taint gpu not tolerated"),
    ],
)
def test_doctor_fails_when_no_node_could_ever_run_pods(
    doctor: Doctor, cluster: FakeCluster, other_node: dict[str, Any], message: str
) -> None:
    cluster.objects = [other_node if obj["kind"] == "Node" else obj for obj in cluster.objects]
    report = doctor()
    assert report.not_ok() == [("nodes", "fails")]
    assert message in report.of("nodes")[0][0]


def test_doctor_fails_when_nodes_are_full(doctor: Doctor, cluster: FakeCluster) -> None:
    other = {"nodeName": "node-1", "containers": [{"resources": {"requests": {"cpu": "3900m"}}}]}
    cluster.objects.append(item("Pod", "other", spec=other, status={"phase": "Running"}))
    report = doctor()
    assert report.not_ok() == [("nodes", "fails")]
    assert report.of("nodes")[0][0].startswith(
        "not enough free resources for 1 launcher of 100m cpu and 64Mi memory, 2 workers of"
    )


def test_doctor_reports_nodes_as_unknown_without_permission(doctor: Doctor, cluster: FakeCluster) -> None:
    cluster.denied = {"list nodes"}
    report = doctor()
    assert (report.code, report.not_ok()) == (6, [("nodes", "unknown")])
    assert report.of("nodes") == [("you may not list nodes", "kubectl auth can-i list nodes -A")]


CLAIMS = ("--storage", "pvc", "--set", "OUTPUT_CLAIM=results", "--set", "DATASET_CLAIM=data")


def claim(name: str, *modes: str) -> dict[str, Any]:
    return item("PersistentVolumeClaim", name, spec={"accessModes": list(modes)}, status={"phase": "Bound"})


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (None, "claim results not found in team"),
        (
            claim("results", "ReadWriteOnce"),
            "results is ReadWriteOnce, and 2 pods mount it: they must all run on one node",
        ),
    ],
)
def test_doctor_fails_for_claims_that_block_pods(
    doctor: Doctor, cluster: FakeCluster, output: dict[str, Any] | None, expected: str
) -> None:
    cluster.objects += [claim("data", "ReadOnlyMany"), *([output] if output else []), node("another")]
    report = doctor(*CLAIMS)
    assert report.not_ok() == [("claims", "fails")]
    assert any(expected in message for message, _ in report.of("claims"))


def test_doctor_accepts_a_claim_of_one_node_on_a_cluster_of_one_node(doctor: Doctor, cluster: FakeCluster) -> None:
    cluster.objects += [claim("data", "ReadOnlyMany"), claim("results", "ReadWriteOnce")]
    report = doctor(*CLAIMS)
    assert report.not_ok() == []


@pytest.mark.thorough
def test_doctor_names_command_that_creates_workspace_claim(
    mlpack: Mlpack, doctor: Doctor, kubectl: Path, tmp_path: Path
) -> None:
    assert doctor().code == 0
    job = "kind: Job, claims: [{claim: data, path: /data}]"
    demo.write(tmp_path / "demo", demo.changed(f"kind: Pod => {job}", "workspace: data"))
    apply = "kubectl apply -k demo-fp32-training/quickstart/k8s/mlops/workspace"
    for name, form, fix in (
        ("demo-fp32-training", "dir", apply),
        ("demo-fp32-training.tar.gz", "tar.gz", "mlpack run demo-fp32-training.tar.gz"),
    ):
        assert mlpack("build", "./demo", "--format", form).code == 0
        arguments = ("--overlay", "single-node", "-n", "team", "--kubectl", kubectl, "-o", "json")
        report = Report(mlpack("doctor", name, *arguments))
        assert report.of("claims") == [("claim data not found in team", f"{fix} -n team")]


@pytest.mark.thorough
def test_doctor_fails_for_missing_or_wrongly_typed_pull_secret(doctor: Doctor, cluster: FakeCluster) -> None:
    report = doctor("--with", "pull-secret", "--set", "PULL_SECRET=registry")
    assert report.of("references")[0][0] == "secret registry for pulling images not found"
    cluster.objects.append(item("Secret", "registry", type="Opaque"))
    assert "of the type Opaque, which cannot be used to pull images" in doctor().of("references")[0][0]
    cluster.objects[-1]["type"] = "kubernetes.io/dockerconfigjson"
    assert doctor().not_ok() == []


@pytest.mark.thorough
def test_doctor_fails_for_missing_package_secret(mlpack: Mlpack, doctor: Doctor, cluster: FakeCluster) -> None:
    build = ("build", "hello-mpi", "--format", "dir", "--force")
    assert mlpack(*build, "--set", "secrets.HF_TOKEN.description=a", "--set", "secrets.KEY.description=b").code == 0
    report = doctor("--set", "SECRET=tokens")
    command = "kubectl create secret generic tokens -n team --from-env-file=secrets.env"
    assert report.not_ok() == [("references", "fails")]
    assert report.of("references") == [("the launcher refers to the Secret tokens, which does not exist", command)]
    cluster.objects.append(item("Secret", "tokens", type="Opaque"))
    assert doctor().not_ok() == []


@pytest.mark.thorough
def test_doctor_fails_for_missing_service_account(doctor: Doctor) -> None:
    account = ("--with", "service-account", "--set", "SERVICE_ACCOUNT=trainer")
    refused = [message for message, _ in doctor(*account).of("package")]
    assert any("runs as the service account 'trainer' of the namespace" in message for message in refused)
    report = doctor(accept=("--allow", "ServiceAccount"))
    assert report.of("package") == []
    assert report.of("references") == [
        (
            "the launcher refers to the ServiceAccount trainer, which does not exist",
            "kubectl create serviceaccount trainer -n team",
        )
    ]


def test_doctor_fails_for_object_names_of_other_owners(doctor: Doctor, cluster: FakeCluster) -> None:
    cluster.objects += [item("ConfigMap", "hello-mpi-env-multi-node"), item("Secret", "hello-mpi-multi-node-ssh")]
    cluster.objects[-1]["metadata"]["managedFields"] = [managed("bob", {"metadata": {}})]
    elsewhere = "use another namespace (-n), or another nameSuffix in the overlay's kustomization.yaml"
    assert doctor().of("names") == [
        (
            (
                "configmap/hello-mpi-env-multi-node already exists and does not belong to this package "
                "(managed by an unknown owner)"
            ),
            elsewhere,
        ),
        (
            "secret/hello-mpi-multi-node-ssh already exists and does not belong to this package (managed by bob)",
            elsewhere,
        ),
    ]


def test_doctor_reports_rejection_of_dry_run_apply(doctor: Doctor, cluster: FakeCluster) -> None:
    cluster.refused["apply"] = 'Error from server: admission webhook "names.example" denied the request: not this one'
    report = doctor()
    assert report.not_ok() == [("apply", "fails")]
    assert "not this one" in report.of("apply")[0][0]


LIST_MUTATORS = "kubectl get mutatingwebhookconfigurations,limitranges"


def test_doctor_notes_mutated_pods_and_checks_nodes_for_them(doctor: Doctor, cluster: FakeCluster) -> None:
    changed = {"nodeSelector": {"disk": "ssd"}, "restartPolicy": "Always"}
    cluster.admit = lambda pod: {**pod, "spec": {**pod["spec"], **changed}}
    report = doctor()
    assert (report.code, report.not_ok()) == (1, [("nodes", "fails")])
    change = "the cluster changes the pods of launcher and worker: spec.restartPolicy: Never -> Always"
    assert report.of("admission") == [("2 kinds of pod are admitted", None), (change, LIST_MUTATORS)]
    assert "node-1: no label disk=ssd" in report.of("nodes")[0][0]


def test_doctor_notes_mutated_workload(doctor: Doctor, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    carry_out = cluster.carry_out

    def change_slots(argv: Sequence[str]) -> Finished:
        done = carry_out(argv)
        if "apply" not in argv:
            return done
        answer = json.loads(done.stdout)
        [job] = [item for item in answer["items"] if item["kind"] == "MPIJob"]
        job["spec"]["slotsPerWorker"] = 7
        return Finished(0, json.dumps(answer), "")

    monkeypatch.setattr(cluster, "carry_out", change_slots)
    report = doctor()
    assert report.code == 0
    change = "the cluster changes mpijob/hello-mpi-multi-node: spec.slotsPerWorker: 1 -> 7"
    assert (change, LIST_MUTATORS) in report.of("apply")

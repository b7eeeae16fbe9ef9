"""Tests of `mlpack doctor` in a fake cluster: each check, its findings and fixes."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from packager.base.process import SYSTEM
from packager.cli.host import Host
from packager.cluster import operator
from packager.kubernetes.kubectl.client import Kubectl
from packager.workloads.mpijob.life import MPI_OPERATOR
from tests import demo
from tests.conftest import Mlpack, Outcome
from tests.fake_cluster import FakeCluster, healthy, item, lease, node
from tests.life import Life

ALL = ["kubectl", "server", "operator", "permissions", "admission", "quota", "nodes", "references", "apply"]


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


Doctor = Callable[..., Report]


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
    cluster.refused["apply"] = 'Error from server (NotFound): namespaces "team" not found'
    assert doctor().code == 1
    done = mlpack("doctor", "hello-mpi", "-n", "team", "--kubectl", kubectl)
    assert "fails   apply        namespace team not found; fix: kubectl create namespace team" in done.stdout
    assert done.stderr == "1 of these would make it fail\n"
    assert len(done.stdout.splitlines()) == len(ALL)


def without(kind: str, *objects: dict[str, Any]) -> Callable[[FakeCluster], object]:
    """Return a change of a cluster that replaces the objects of a kind."""

    def change(cluster: FakeCluster) -> None:
        cluster.objects = [obj for obj in cluster.objects if obj["kind"] != kind] + [*objects]

    return change


def adding(*objects: dict[str, Any]) -> Callable[[FakeCluster], object]:
    return lambda cluster: cluster.objects.extend(objects)


def denying(*words: str) -> Callable[[FakeCluster], object]:
    return lambda cluster: cluster.denied.update(words)


def quota(hard: dict[str, str], used: dict[str, str]) -> dict[str, Any]:
    return item("ResourceQuota", "tight", spec={"hard": hard}, status={"hard": hard, "used": used})


def never_renewed() -> dict[str, Any]:
    held = lease(datetime(2020, 1, 1, tzinfo=UTC))
    del held["spec"]["renewTime"], held["spec"]["leaseDurationSeconds"]
    return held


def claim(name: str, *modes: str) -> dict[str, Any]:
    return item("PersistentVolumeClaim", name, spec={"accessModes": list(modes)}, status={"phase": "Bound"})


def grant(role: str) -> str:
    return f"kubectl create rolebinding mlpack-{role} --clusterrole={role} --user=YOU -n team"


UNSERVED = 'no matches for kind "MPIJob" in version "kubeflow.org/v2beta1"'
REJECTED = 'Error from server: error when creating "/x/object.json": admission webhook "policy" denied the request: no'
FULL = {"nodeName": "node-1", "containers": [{"resources": {"requests": {"cpu": "3900m"}}}]}
ELSEWHERE = "use another namespace (-n), or another nameSuffix in the overlay's kustomization.yaml"
INSTALL = MPI_OPERATOR.installation()
AVAILABLE = {"conditions": [{"type": "Available", "status": "True"}]}
TAINTED = node(taints=[{"key": "gpu", "effect": "NoSchedule"}])
CLAIMS = ("--storage", "pvc", "--set", "OUTPUT_CLAIM=results", "--set", "DATASET_CLAIM=data")
DATA, ONE_NODE = claim("data", "ReadOnlyMany"), claim("results", "ReadWriteOnce")


class Case(NamedTuple):
    """A change of a healthy cluster, and what the doctor finds then."""

    change: Callable[[FakeCluster], object]
    states: dict[str, str]  # of the checks that are not ok
    check: str  # whose first finding has this message and fix
    message: str
    fix: str | None = None
    configured: tuple[str, ...] = ()


CASES = {
    "an old kubectl": Case(
        lambda cluster: setattr(cluster, "version", (21, 34)), {"kubectl": "fails"}, "kubectl", "v1.21"
    ),
    "a server two versions away": Case(
        lambda cluster: setattr(cluster, "version", (36, 34)),
        *({}, "server", "v1.34.1, 2 minor versions from kubectl's: only one is supported"),
    ),
    "no server": Case(lambda cluster: setattr(cluster, "version", (34, None)), {"server": "unknown"}, "server", ""),
    "another version of the kind": Case(
        lambda cluster: cluster.refused.update(apply=UNSERVED),
        *({"apply": "fails"}, "apply", "the cluster does not serve MPIJob (kubeflow.org/v2beta1)"),
    ),
    "an old lease": Case(
        without("Lease", lease(datetime(2020, 1, 1, tzinfo=UTC))),
        *({"operator": "fails"}, "operator", "its lease mpi-operator/mpi-operator was last renewed at 2020-01-01"),
    ),
    "a lease that was never renewed": Case(
        without("Lease", never_renewed()),
        *({"operator": "fails"}, "operator", "mpi-operator was last renewed at no time", INSTALL),
    ),
    "an operator that is not available": Case(
        without("Lease", item("Deployment", "mpi-operator", status={})),
        *({"operator": "fails"}, "operator", "its Deployment team/mpi-operator is not available"),
    ),
    "an available operator without a lease": Case(
        without("Lease", item("Deployment", "mpi-operator", status=AVAILABLE)),
        *({}, "operator", "mpi-operator is running: its Deployment team/mpi-operator is available"),
    ),
    "no permission to list events": Case(
        denying("list events"),
        *({}, "permissions", "you may not list events in team: mlpack can then report fewer reasons for failures"),
        grant("edit"),
    ),
    "no permission to create jobs": Case(
        denying("create mpijobs", "patch mpijobs"),
        *({"permissions": "fails"}, "permissions", "you may not create, patch mpijobs.kubeflow.org in team"),
        grant("kubeflow-mpijobs-edit"),
    ),
    "a webhook": Case(
        lambda cluster: cluster.refused.update(create=REJECTED),
        *({"admission": "fails"}, "admission", "the pods of launcher and worker are rejected: admission webhook"),
    ),
    "a small quota": Case(
        adding(quota({"services": "9", "requests.cpu": "1"}, {"requests.cpu": "900m"})),
        *({"quota": "fails"}, "quota", "and 100m of 1 is left", "kubectl describe resourcequota tight -n team"),
    ),
    "a full quota": Case(
        adding(quota({"cpu": "1"}, {"cpu": "1"})), {"quota": "fails"}, "quota", "and nothing of 1 is left"
    ),
    "a small node": Case(
        without("Node", node(cpu="10m")),
        *({"nodes": "fails"}, "nodes"),
        "even with nothing else running, no node could run launcher: node-1: 10m cpu left, 100m requested",
    ),
    "a taint": Case(without("Node", TAINTED), {"nodes": "fails"}, "nodes", "node-1: taint gpu not tolerated"),
    "a full node": Case(
        adding(item("Pod", "other", spec=FULL, status={"phase": "Running"})),
        *({"nodes": "fails"}, "nodes"),
        "not enough free resources for 1 launcher of 100m cpu and 64Mi memory, 2 workers of",
    ),
    "no permission to list nodes": Case(
        denying("list nodes"),
        *({"nodes": "unknown"}, "nodes", "you may not list nodes", "kubectl auth can-i list nodes -A"),
    ),
    "no permission to list pods": Case(
        denying("list pods"),
        *({"nodes": "unknown", "permissions": "fails"}, "nodes"),
        *("; you are not allowed to see what runs on them", "kubectl auth can-i list pods -A"),
    ),
    "objects of others": Case(
        adding(item("ConfigMap", "hello-mpi-env-multi-node")),
        *({"apply": "fails"}, "apply"),
        "already exist and belong to others: configmap/hello-mpi-env-multi-node (managed by an unknown owner)",
        ELSEWHERE,
    ),
    "no claim": Case(
        adding(DATA, node("another")), {"claims": "fails"}, "claims", "claim results not found in team", None, CLAIMS
    ),
    "a claim of one node": Case(
        adding(DATA, node("another"), ONE_NODE),
        *({"claims": "fails"}, "claims"),
        "results is ReadWriteOnce, and 2 pods mount it: they must all run on one node",
        *(None, CLAIMS),
    ),
    "a claim of one node on a cluster of one": Case(adding(DATA, ONE_NODE), {}, "claims", "", None, CLAIMS),
}


@pytest.mark.parametrize("name", CASES)
def test_doctor_reports_each_gap_of_a_cluster(doctor: Doctor, cluster: FakeCluster, name: str) -> None:
    case = CASES[name]
    case.change(cluster)
    report = doctor(*case.configured)
    assert dict(report.not_ok()) == case.states
    assert report.code == (1 if "fails" in case.states.values() else 6 if case.states else 0)
    findings = report.of(case.check)
    assert any(case.message in message and case.fix in (None, fix) for message, fix in findings), findings


def test_doctor_requires_no_operator_for_pod(doctor: Doctor, cluster: FakeCluster) -> None:
    without("Lease")(cluster)
    cluster.denied = {"list deployments", "list leases"}
    assert doctor().not_ok() == [("operator", "unknown")]
    report = doctor(overlay="single-node")
    assert (report.code, report.of("operator")) == (0, [])


@pytest.mark.parametrize(("age", "renewed", "alive"), [(10**6, 3, "yes"), (6, 0, "no")])
def test_heartbeat_is_a_renewal_despite_clock_differences(age: int, renewed: int, alive: str) -> None:
    """The lease is valid for 15 seconds, and a running controller renews it every 3."""
    begin = datetime.now(UTC) - timedelta(seconds=age)
    cluster = FakeCluster([lease(begin)])

    def wait(_seconds: float) -> None:
        cluster.objects[0] = lease(begin + timedelta(seconds=renewed))

    cluster.wait = wait
    assert operator.check_heartbeat(Kubectl(runner=cluster), MPI_OPERATOR).alive == alive


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
def test_doctor_fails_for_missing_or_unfit_references(mlpack: Mlpack, doctor: Doctor, cluster: FakeCluster) -> None:
    report = doctor("--with", "pull-secret", "--set", "PULL_SECRET=registry")
    login = "--docker-server=HOST --docker-username=YOU"
    create = f"kubectl create secret docker-registry registry {login} -n team"
    missing = "the launcher refers to the Secret registry, which does not exist"
    assert report.of("references") == [(missing, create)]
    cluster.objects.append(item("Secret", "registry"))
    assert doctor().not_ok() == []
    report = doctor("--with", "service-account", "--set", "SERVICE_ACCOUNT=trainer")
    assert any("runs as the service account 'trainer' of the namespace" in text for text, _ in report.of("package"))
    missing = "the launcher refers to the ServiceAccount trainer, which does not exist"
    assert doctor(accept=("--allow", "ServiceAccount")).of("references") == [
        (missing, "kubectl create serviceaccount trainer -n team")
    ]
    build = ("build", "hello-mpi", "--format", "dir", "--force")
    assert mlpack(*build, "--set", "secrets.HF_TOKEN.description=a", "--set", "secrets.KEY.description=b").code == 0
    command = "kubectl create secret generic tokens --from-env-file=secrets.env -n team"
    assert doctor("--set", "SECRET=tokens").of("references") == [
        ("the launcher refers to the Secret tokens, which does not exist", command)
    ]
    cluster.objects.append(item("Secret", "tokens", type="Opaque"))
    assert doctor().not_ok() == []


def test_doctor_checks_nodes_for_pods_as_the_cluster_changes_them(doctor: Doctor, cluster: FakeCluster) -> None:
    cluster.admit = lambda pod: {**pod, "spec": {**pod["spec"], "nodeSelector": {"disk": "ssd"}}}
    report = doctor()
    assert (report.code, report.not_ok()) == (1, [("nodes", "fails")])
    assert "node-1: no label disk=ssd" in report.of("nodes")[0][0]


AWAY = "Unable to connect to the server: EOF"


@pytest.fixture
def ailing(mlpack: Mlpack, life: Life) -> Callable[[], Report]:
    """A function that runs the doctor for hello-mpi in a healthy cluster that deploys, and returns the report."""
    life.objects = healthy().objects
    mlpack.host = Host(life, "ann@desk")
    return lambda: Report(mlpack("doctor", "hello-mpi", "-n", "team", "-o", "json"))


@pytest.mark.parametrize(
    ("asked", "unknown"),
    [
        ("get", {"permissions"}),
        ("get nodes", {"nodes"}),
        ("get pods", {"nodes"}),
        ("create", {"admission"}),
        ("apply", {"apply"}),
    ],
)
def test_doctor_reports_checks_as_unknown_when_cluster_stops_answering(
    ailing: Callable[[], Report], life: Life, asked: str, unknown: set[str]
) -> None:
    life.refused[asked] = AWAY
    report = ailing()
    assert (report.code, set(report.not_ok())) == (6, {(check, "unknown") for check in unknown})
    assert all(
        report.of(check)[-1] == (f"the cluster does not answer: {AWAY}", "kubectl cluster-info") for check in unknown
    )


def test_doctor_quotes_names_in_proposed_commands(mlpack: Mlpack, life: Life) -> None:
    life.objects = healthy().objects
    workload = next(item for item in life.overlays["single-node"] if item["kind"] == "Pod")
    workload["spec"]["volumes"].append({"name": "x", "persistentVolumeClaim": {"claimName": "x; touch pwned"}})
    workload["spec"]["imagePullSecrets"] = [{"name": "$(id)"}]
    report = Report(mlpack("doctor", "hello-mpi", "--overlay", "single-node", "-n", "a b", "-o", "json"))
    fixes = [finding["fix"] for finding in report.findings]
    assert "kubectl get pvc -n 'a b'" in fixes
    login = "--docker-server=HOST --docker-username=YOU"
    assert f"kubectl create secret docker-registry '$(id)' {login} -n 'a b'" in fixes

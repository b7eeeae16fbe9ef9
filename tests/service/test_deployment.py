"""The Kustomize base of a server: a namespace for it, a Role in each namespace of jobs, and no cluster-wide objects."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager import __version__
from packager.service import config_file
from packager.service.registry import policy
from packager.verify import schema
from packager.workloads.kinds import kinds
from tests import demo

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = demo.CHECKOUT / "deploy/server"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


def rendered(kubectl: Path, folder: Path) -> dict[tuple[str, str], Any]:
    """Return the objects of a kustomization, by kind and name."""
    done = subprocess.run([kubectl, "kustomize", folder], capture_output=True, text=True, check=True)
    items = list(yaml.safe_load_all(done.stdout))
    assert [list(schema.faults(item, schema.versions()[-1:])) for item in items] == [[] for _ in items]
    named = {
        (item["kind"], f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"): item for item in items
    }
    assert len(named) == len(items)
    return named


@pytest.fixture(scope="module")
def items(kubectl: Path) -> dict[tuple[str, str], Any]:
    return rendered(kubectl, FOLDER)


def test_base_contains_namespaced_objects_and_a_valid_configuration(
    items: dict[tuple[str, str], Any], tmp_path: Path
) -> None:
    (config,) = [name for kind, name in items if kind == "ConfigMap"]
    assert sorted(items) == [
        ("ConfigMap", config),
        ("Deployment", "mlpack/mlpack-server"),
        ("Namespace", "/mlpack"),
        ("Namespace", "/mlpack-jobs"),
        ("NetworkPolicy", "mlpack/mlpack-server"),
        ("PersistentVolumeClaim", "mlpack/mlpack-server"),
        ("Role", "mlpack-jobs/mlpack-server"),
        ("RoleBinding", "mlpack-jobs/mlpack-server"),
        ("Service", "mlpack/mlpack-server"),
        ("ServiceAccount", "mlpack/mlpack-server"),
    ]
    assert items["Namespace", "/mlpack"]["metadata"]["labels"] == RESTRICTED
    assert items["Namespace", "/mlpack-jobs"]["metadata"]["labels"] == RESTRICTED
    subject = {"kind": "ServiceAccount", "name": "mlpack-server", "namespace": "mlpack"}
    assert items["RoleBinding", "mlpack-jobs/mlpack-server"]["subjects"] == [subject]
    (tmp_path / "server.yaml").write_text(items["ConfigMap", config]["data"]["server.yaml"], encoding="utf-8")
    assert config_file.read(tmp_path / "server.yaml").namespace == "mlpack-jobs"


def test_server_pod_meets_restricted_and_has_a_read_only_root(items: dict[tuple[str, str], Any]) -> None:
    deployment = items["Deployment", "mlpack/mlpack-server"]
    assert (deployment["spec"]["replicas"], deployment["spec"]["strategy"]) == (1, {"type": "Recreate"})
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = pod["containers"]
    assert container["image"] == f"mlpack-server:{__version__}"
    assert f"mlpack-server:{__version__} " in (FOLDER / "Dockerfile").read_text(encoding="utf-8")
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {next(iter(volume.keys() - {"name"})) for volume in pod["volumes"]} == {
        *("configMap", "emptyDir", "persistentVolumeClaim", "secret")
    }
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_role_allows_only_the_kinds_of_tasks(items: dict[tuple[str, str], Any]) -> None:
    rules = items["Role", "mlpack-jobs/mlpack-server"]["rules"]
    names = [(group, name, rule) for rule in rules for group in rule["apiGroups"] for name in rule["resources"]]
    verbs = {(group, name): set(rule["verbs"]) for group, name, rule in names}
    plurals = {("", f"{kind.lower()}s") for _, kind in policy.COMPANIONS}
    plurals |= {(api.rpartition("/")[0], kinds()[kind].resource.partition(".")[0]) for api, kind in policy.WORKLOADS}
    queues = {("kueue.x-k8s.io", name) for name in ("localqueues", "workloads")}
    assert verbs.keys() == {*plurals, *queues, ("", "events"), ("", "pods/log")}
    assert all(verbs[plural] == {"get", "list"} for plural in queues)
    assert verbs["", "secrets"] == {"create"}
    assert all({"create", "patch", "delete"} <= verbs[plural] for plural in plurals - {("", "secrets")})
    assert not any("*" in words for words in verbs.values())


def test_component_adds_postgresql(kubectl: Path, tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "base")
    overlay = "resources: [base]\ncomponents: [base/postgres]\n"
    (tmp_path / "kustomization.yaml").write_text(overlay, encoding="utf-8")
    items = rendered(kubectl, tmp_path)
    assert "PersistentVolumeClaim" not in {kind for kind, _ in items}
    spec = items["Deployment", "mlpack/mlpack-server"]["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (1, "Recreate")
    pod = spec["template"]["spec"]
    secrets = {entry["name"]: entry["valueFrom"]["secretKeyRef"] for entry in pod["containers"][0]["env"][:2]}
    assert secrets["MLPACK_DATABASE"] == {"name": "pg-app", "key": "uri"}
    assert secrets["MLPACK_SECRET_KEY"]["name"] == "mlpack-server"
    assert "database" not in {entry["name"] for entry in (*pod["volumes"], *pod["containers"][0]["volumeMounts"])}
    egress = items["NetworkPolicy", "mlpack/mlpack-server"]["spec"]["egress"]
    assert {"port": 5432} in egress[0]["ports"]

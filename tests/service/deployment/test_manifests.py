"""The manifests of a server: a namespace for it, a Role in each namespace of jobs, and no cluster-wide objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager.base.errors import UsageError
from packager.service import allow
from packager.service.config import (
    ServerConfig,
)
from packager.service.deployment.manifests import manifests
from packager.service.deployment.options import InCluster
from packager.verify import schema
from packager.workloads.kinds import kinds

if TYPE_CHECKING:
    from tests.conftest import Mlpack

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


def objects(deployment: InCluster) -> dict[tuple[str, str], Any]:
    items = list(yaml.safe_load_all(manifests(deployment)))
    assert [list(schema.faults(item, schema.versions()[-1:])) for item in items] == [[] for _ in items]
    listed = {
        (item["kind"], f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"): item for item in items
    }
    assert len(listed) == len(items)
    return listed


def test_manifests_contain_namespaced_objects_by_default() -> None:
    items = objects(InCluster(ServerConfig()))
    assert sorted(items) == [
        ("ConfigMap", "mlpack/mlpack-server"),
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
    assert items["PersistentVolumeClaim", "mlpack/mlpack-server"]["spec"]["storageClassName"] is None
    subject = {"kind": "ServiceAccount", "name": "mlpack-server", "namespace": "mlpack"}
    assert items["RoleBinding", "mlpack-jobs/mlpack-server"]["subjects"] == [subject]


def test_server_pod_meets_restricted_and_has_a_read_only_root() -> None:
    deployment = objects(InCluster(ServerConfig()))["Deployment", "mlpack/mlpack-server"]
    assert (deployment["spec"]["replicas"], deployment["spec"]["strategy"]) == (1, {"type": "Recreate"})
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {next(iter(volume.keys() - {"name"})) for volume in pod["volumes"]} == {
        *("configMap", "emptyDir", "persistentVolumeClaim", "secret")
    }
    assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys()
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_role_allows_only_the_kinds_of_tasks() -> None:
    rules = objects(InCluster(ServerConfig()))["Role", "mlpack-jobs/mlpack-server"]["rules"]
    names = [(group, name, rule) for rule in rules for group in rule["apiGroups"] for name in rule["resources"]]
    verbs = {(group, name): set(rule["verbs"]) for group, name, rule in names}
    plurals = {("", f"{kind.lower()}s") for _, kind in allow.COMPANIONS}
    plurals |= {(api.rpartition("/")[0], kinds()[kind].resource.partition(".")[0]) for api, kind in allow.WORKLOADS}
    queues = {("kueue.x-k8s.io", name) for name in ("localqueues", "workloads")}
    assert verbs.keys() == {*plurals, *queues, ("", "events"), ("", "pods/log")}
    assert all(verbs[plural] == {"get", "list"} for plural in queues)
    assert verbs["", "secrets"] == {"create"}
    assert all({"create", "patch", "delete"} <= verbs[plural] for plural in plurals - {("", "secrets")})
    assert not any("*" in words for words in verbs.values())


def test_config_map_contains_a_database_address_only_without_password() -> None:
    address = "postgresql://mlpack@db.example.com/mlpack"
    items = objects(InCluster(ServerConfig(database=address), replicas=2))
    assert yaml.safe_load(items["ConfigMap", "mlpack/mlpack-server"]["data"]["server.yaml"])["database"] == address
    assert items["Deployment", "mlpack/mlpack-server"]["spec"]["replicas"] == 2
    assert "MLPACK_DATABASE" not in str(items)
    for secret in ("postgresql://u:secret@h/x", "postgres://h/x?a=b&password=secret"):
        with pytest.raises(UsageError, match="has a password, which would be in a ConfigMap") as error:
            manifests(InCluster(ServerConfig(database=secret)))
        assert "secret@" not in str(error.value)
        text = manifests(InCluster(ServerConfig(database=secret), database_from="pg/url"))
        assert secret not in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"namespace": "a b"}, "--namespace: expected at most 58"),
        ({"image": "a b"}, "--image: expected the name of an image, found 'a b'"),
        ({"replicas": 2}, "--replicas: 2 pods need a database of PostgreSQL: a file is for one"),
        ({"settings": ServerConfig(namespace="mlpack")}, "jobs cannot run in the namespace of the server, mlpack"),
    ],
)
def test_manifests_refuse_invalid_options(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as error:
        manifests(InCluster(**{"settings": ServerConfig(), **changes}))
    assert str(error.value).startswith(message)


def test_manifests_command_prints_objects_with_its_options(mlpack: Mlpack) -> None:
    done = mlpack("serve", "manifests", "--url", "https://train.example.com", "--image", "r.example.com/mlpack:1")
    assert (done.code, done.stderr) == (0, "")
    items = list(yaml.safe_load_all(done.stdout))
    pod = next(item for item in items if item["kind"] == "Deployment")["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "r.example.com/mlpack:1"
    settings = next(item for item in items if item["kind"] == "ConfigMap")["data"]["server.yaml"]
    assert yaml.safe_load(settings)["url"] == "https://train.example.com"

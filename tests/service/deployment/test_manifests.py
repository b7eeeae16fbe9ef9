"""The manifests of a server: a namespace for it, a Role in each namespace of jobs, and no cluster-wide objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager.base.errors import UsageError
from packager.kubernetes.podsecurity import Level
from packager.service import allow, config_file, prometheus
from packager.service.config import (
    CallbacksConfig,
    OidcConfig,
    PackagesConfig,
    ProjectConfig,
    RegistryConfig,
    ServerConfig,
)
from packager.service.deployment.manifests import manifests
from packager.service.deployment.options import InCluster
from packager.verify import schema
from packager.workloads.kinds import kinds

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Mlpack

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


ON_POSTGRES = InCluster(ServerConfig(), database_from="pg-app", replicas=3)


def objects(deployment: InCluster) -> dict[tuple[str, str], Any]:
    items = list(yaml.safe_load_all(manifests(deployment)))
    assert [list(schema.faults(item, schema.versions()[-1:])) for item in items] == [[] for _ in items]
    listed = {
        (item["kind"], f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"): item for item in items
    }
    assert len(listed) == len(items)
    return listed


def _name(metadata: dict[str, Any]) -> str:
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


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


def test_cluster_role_reads_nodes_and_storage_classes_on_request() -> None:
    items = objects(InCluster(ServerConfig(), namespace="ml", sees_nodes=True))
    (role,) = (item for (kind, _), item in items.items() if kind == "ClusterRole")
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"get", "list"}
    assert [rule["resources"] for rule in role["rules"]] == [["nodes"], ["storageclasses"]]


def test_server_reads_the_configuration_of_the_config_map(tmp_path: Path) -> None:
    (tmp_path / "server.yaml").write_text(
        'namespace: research\nname: "yes"\npod_security: baseline\nstorage_classes: {aws-efs: "1e3"}\n'
        "listen: 127.0.0.1:1\ncontext: mine\ndatabase: here.db\n"
        "node_selectors: {a=b: {}}\ncallbacks: {allow: [hooks.example.com]}\n",
        encoding="utf-8",
    )
    given = config_file.read(tmp_path / "server.yaml")
    items = objects(InCluster(given, with_namespaces=False))
    assert ("Role", "research/mlpack-server") in items
    assert not any(kind == "Namespace" for kind, _ in items)
    text = items["ConfigMap", "mlpack/mlpack-server"]["data"]["server.yaml"]
    (tmp_path / "again.yaml").write_text(text, encoding="utf-8")
    settings = config_file.read(tmp_path / "again.yaml")
    assert (settings.listen, settings.database, settings.context) == (
        "0.0.0.0:8080",
        "/var/lib/mlpack/server.db",
        None,
    )
    for name in ("namespace", "name", "pod_security", "storage_classes", "node_selectors"):
        assert getattr(settings, name) == getattr(given, name)
    levels = objects(InCluster(given))["Namespace", "/research"]["metadata"]["labels"]
    assert levels == {"pod-security.kubernetes.io/enforce": "baseline"}


def test_manifests_have_a_namespace_and_a_role_binding_per_project() -> None:
    projects = {
        "a": ProjectConfig(namespace="ml-a"),
        "b": ProjectConfig(namespace="ml-b", pod_security=Level.baseline),
        "c": ProjectConfig(namespace="ml-b"),
    }
    with pytest.raises(UsageError, match="the projects b, c share the namespace ml-b"):
        manifests(InCluster(ServerConfig(projects=projects)))
    items = objects(InCluster(ServerConfig(projects=projects, unsafe_shared_namespaces=True)))
    assert {name for kind, name in items if kind == "RoleBinding"} == {"ml-a/mlpack-server", "ml-b/mlpack-server"}
    levels = {name: item["metadata"]["labels"] for (kind, name), item in items.items() if kind == "Namespace"}
    assert levels["/ml-a"] == RESTRICTED
    assert levels["/ml-b"] == {"pod-security.kubernetes.io/enforce": "baseline"}
    assert levels.keys() == {"/mlpack", "/ml-a", "/ml-b"}
    some = objects(InCluster(ServerConfig(projects={"b": projects["b"], "d": ProjectConfig()})))
    assert ("Role", "mlpack-jobs/mlpack-server") in some
    assert "namespace: mlpack-jobs" in some["ConfigMap", "mlpack/mlpack-server"]["data"]["server.yaml"]
    with pytest.raises(UsageError, match="jobs cannot run in the namespace of the server"):
        manifests(InCluster(ServerConfig(projects={"a": ProjectConfig(namespace="mlpack")})))


def test_replicas_use_postgresql_without_a_volume_claim() -> None:
    items = objects(ON_POSTGRES)
    assert items.keys() - objects(InCluster(ServerConfig())).keys() == {("PodDisruptionBudget", "mlpack/mlpack-server")}
    assert not any(kind == "PersistentVolumeClaim" for kind, _ in items)
    budget = items["PodDisruptionBudget", "mlpack/mlpack-server"]["spec"]
    deployment = items["Deployment", "mlpack/mlpack-server"]["spec"]
    assert budget == {"maxUnavailable": 1, "selector": deployment["selector"]}
    assert deployment["replicas"] == 3
    assert deployment["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    pod = deployment["template"]["spec"]
    (container,) = pod["containers"]
    assert "persistentVolumeClaim" not in str(pod["volumes"])
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert {item["name"]: item["valueFrom"]["secretKeyRef"] for item in container["env"] if "valueFrom" in item} == {
        "MLPACK_DATABASE": {"name": "pg-app", "key": "uri"},
        "MLPACK_SECRET_KEY": {"name": "mlpack-server", "key": "MLPACK_SECRET_KEY"},
    }
    stop = int(container["lifecycle"]["preStop"]["exec"]["command"][-1])
    assert pod["terminationGracePeriodSeconds"] > stop + 10  # the time that streams and callbacks have
    assert "database" not in yaml.safe_load(items["ConfigMap", "mlpack/mlpack-server"]["data"]["server.yaml"])
    assert tcp_ports(items) == [53, 443, 6443, 5432]


def tcp_ports(items: dict[tuple[str, str], Any]) -> list[int]:
    (rule,) = items["NetworkPolicy", "mlpack/mlpack-server"]["spec"]["egress"]
    return [entry["port"] for entry in rule["ports"] if entry.get("protocol") != "UDP"]


def test_network_policy_opens_the_port_of_the_database() -> None:
    assert tcp_ports(objects(InCluster(ServerConfig()))) == [53, 443, 6443]
    assert tcp_ports(objects(InCluster(ServerConfig(), database_from="a/b", database_port=6432)))[3:] == [6432]
    addresses = {"postgresql://u@h/x": 5432, "postgres://h:6432?a=b": 6432, "postgresql://u@[::1]:1/x": 1}
    for address, port in addresses.items():
        assert tcp_ports(objects(InCluster(ServerConfig(database=address))))[3:] == [port]


def test_network_policy_opens_the_ports_of_callbacks_and_the_issuer(tmp_path: Path) -> None:
    for ports in (None, [443, 8443, 80]):
        items = objects(InCluster(ServerConfig(callbacks=CallbacksConfig(allow=["a.example"], ports=ports))))
        (tmp_path / "s.yaml").write_text(items["ConfigMap", "mlpack/mlpack-server"]["data"]["server.yaml"])
        callbacks = config_file.read(tmp_path / "s.yaml").callbacks
        assert (callbacks.allow, callbacks.ports) == (["a.example"], ports or [443])
        assert tcp_ports(items) == [53, 443, 6443, *(ports or [])[1:]]
    issuer = OidcConfig(issuer="https://sso.example.com:9443/realms/ml", audience="a", roles={})
    assert tcp_ports(objects(InCluster(ServerConfig(oidc=issuer)))) == [53, 443, 6443, 9443]


def test_network_policy_opens_the_ports_of_registries() -> None:
    registries = {
        "a.example:5000": RegistryConfig(token_host="tokens.example:8443"),  # noqa: S106 - a host
        "b.example": RegistryConfig(insecure=True),
        "c.example": RegistryConfig(token_host="d.example"),  # noqa: S106 - a host
    }
    settings = ServerConfig(packages=PackagesConfig(registries=registries))
    assert tcp_ports(objects(InCluster(settings))) == [53, 443, 6443, 5000, 8443, 80]


def test_network_policy_opens_metrics_only_to_the_namespace_of_prometheus() -> None:
    settings = ServerConfig(prometheus_listen="127.0.0.1:9000")
    assert "prometheus" not in "".join(
        line for line in manifests(InCluster(settings)).splitlines() if not line.startswith("#")
    )
    items = objects(InCluster(settings, prometheus="monitoring"))
    pod = items["Deployment", "mlpack/mlpack-server"]["spec"]["template"]
    annotations = pod["metadata"]["annotations"]
    assert {key: value for key, value in annotations.items() if key.startswith("prometheus.io/")} == {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": "8081",
        "prometheus.io/path": prometheus.PATH,
    }
    assert {port["name"]: port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]} == {
        "http": 8080,
        "metrics": 8081,
    }
    text = items["ConfigMap", "mlpack/mlpack-server"]["data"]["server.yaml"]
    assert yaml.safe_load(text)["prometheus_listen"] == "0.0.0.0:8081"
    everyone, scraper = items["NetworkPolicy", "mlpack/mlpack-server"]["spec"]["ingress"]
    assert everyone == {"ports": [{"port": "http"}]}
    selector = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    assert scraper == {"from": [selector], "ports": [{"port": "metrics"}]}
    assert [port["name"] for port in items["Service", "mlpack/mlpack-server"]["spec"]["ports"]] == ["http"]


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


def test_configuration_change_starts_a_new_pod() -> None:
    def digest(settings: ServerConfig) -> str:
        deployment = objects(InCluster(settings))["Deployment", "mlpack/mlpack-server"]
        return str(deployment["spec"]["template"]["metadata"]["annotations"]["mlpack.dev/config"])

    assert digest(ServerConfig()) == digest(ServerConfig())
    assert digest(ServerConfig()) != digest(ServerConfig(name="other"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"namespace": "a b"}, "--namespace: expected at most 58"),
        ({"namespace": "x" * 59}, "--namespace: expected at most 58"),
        ({"namespace": "a\n---\nkind: Pod"}, "--namespace: expected at most 58"),
        ({"image": "a b"}, "--image: expected the name of an image, found 'a b'"),
        ({"image": 'a"\nx: y'}, "--image: expected the name of an image"),
        ({"storage": "much"}, "--storage: expected a size such as 1Gi, found 'much'"),
        ({"storage_class": "a: b"}, "--storage-class: expected a name, found 'a: b'"),
        ({"database_from": "A"}, "--database-secret: expected NAME or NAME/KEY, found 'A'"),
        ({"database_from": "a/"}, "--database-secret: expected NAME or NAME/KEY, found 'a/'"),
        ({"database_from": "a/b\nc"}, "--database-secret: expected NAME or NAME/KEY"),
        ({"prometheus": "a b"}, "--prometheus: expected a namespace, found 'a b'"),
        ({"replicas": 2}, "--replicas: 2 pods need a database of PostgreSQL: a file is for one"),
        ({"settings": ServerConfig(url="javascript:x")}, "--url: expected an address"),
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

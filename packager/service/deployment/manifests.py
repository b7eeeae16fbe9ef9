"""Renders the manifests that deploy a server in a cluster, from the YAML files of this folder."""

from __future__ import annotations

import hashlib
import json
from itertools import chain
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from packager.base.errors import UsageError
from packager.base.values import as_plain
from packager.base.yamlio import dump
from packager.kubernetes.podsecurity import Level
from packager.service import variables
from packager.service.access import projects
from packager.service.config import ServerConfig
from packager.service.deployment.options import check

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.service.deployment.options import InCluster

_FOLDER = Path(__file__).resolve().parent
_LISTEN = "0.0.0.0:8080"
_DATABASE = "/var/lib/mlpack/server.db"
_SECRET = "mlpack-server"  # noqa: S105 - the name of a Secret
_URI = "uri"
"""The default key of the database address in a Secret: several operators of PostgreSQL use this name."""

_PROMETHEUS_PORT = 8081
_POSTGRES_PORT = 5432
_API_SERVER_PORTS = (443, 6443)
_CALLBACK_PORTS = (443,)
"""The ports of callbacks, unless the configuration lists others."""


def manifests(deployment: InCluster) -> str:
    """Return the manifests, as YAML for `kubectl apply -f -`. Raises UsageError."""
    check(deployment)
    namespaces = _namespaces(deployment)
    config = dump([_configuration(deployment)])
    of_server = {
        "NAMESPACE": deployment.namespace,
        "LEVEL": Level.restricted.value,
        "IMAGE": json.dumps(deployment.image),
        "CONFIG": config,
        "CONFIG_DIGEST": f"sha256-{hashlib.sha256(config.encode()).hexdigest()[:16]}",
        "STORAGE": json.dumps(deployment.storage),
        "STORAGE_CLASS": json.dumps(deployment.storage_class),
        "REPLICAS": str(deployment.replicas),
        "PORTS": _block([{"port": port} for port in _ports(deployment)]),
        **_for_prometheus(deployment.prometheus),
        **(_with_postgres(deployment) if deployment.on_postgres else _with_claim()),
    }
    parts = [_filled("namespace", of_server)] if deployment.with_namespaces else []
    for namespace, level in namespaces.items():
        if deployment.with_namespaces:
            parts.append(_filled("namespace", {"NAMESPACE": namespace, "LEVEL": level.value}))
        parts.append(_filled("project", {"NAMESPACE": namespace, "SERVER_NAMESPACE": deployment.namespace}))
    parts += [_filled("nodes", of_server)] if deployment.sees_nodes else []
    parts.append(_filled("disruption" if deployment.on_postgres else "claim", of_server))
    return "---\n".join([*parts, _filled("server", of_server)])


def _with_claim() -> dict[str, str]:
    """Return the values of the pod template for a server with its database on a claim."""
    return {
        "STRATEGY": "{type: Recreate}",
        "ENVIRONMENT": "",
        "LIFECYCLE": "",
        "MOUNTS": _block([{"name": "database", "mountPath": str(Path(_DATABASE).parent)}]),
        "VOLUMES": _block([{"name": "database", "persistentVolumeClaim": {"claimName": "mlpack-server"}}]),
    }


def _with_postgres(deployment: InCluster) -> dict[str, str]:
    """Return the values of the pod template for a server with a PostgreSQL database."""
    environment = [_variable(variables.SECRET_KEY, _SECRET, variables.SECRET_KEY)]
    if deployment.database_from is not None:
        name, _, key = deployment.database_from.partition("/")
        environment.append(_variable(variables.DATABASE, name, key or _URI))
    return {
        "STRATEGY": "{type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}",
        "ENVIRONMENT": _block(environment),
        # The pod accepts requests until every node has removed it from the endpoints of the Service.
        "LIFECYCLE": _block({"lifecycle": {"preStop": {"exec": {"command": ["sleep", "5"]}}}}),
        "MOUNTS": "",
        "VOLUMES": "",
    }


def _for_prometheus(namespace: str | None) -> dict[str, str]:
    """Return the values that expose metrics only to Prometheus in `namespace`; empty values for None."""
    if namespace is None:
        return {"ANNOTATIONS": "", "CONTAINER_PORTS": "", "INGRESS": ""}
    annotations = {"scrape": "true", "port": str(_PROMETHEUS_PORT), "path": "/metrics"}
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    return {
        "ANNOTATIONS": _block({f"prometheus.io/{key}": value for key, value in annotations.items()}),
        "CONTAINER_PORTS": _block([{"name": "metrics", "containerPort": _PROMETHEUS_PORT}]),
        "INGRESS": _block([{"from": [{"namespaceSelector": selector}], "ports": [{"port": "metrics"}]}]),
    }


def _variable(name: str, secret: str, key: str) -> dict[str, object]:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def _block(value: object) -> str:
    return dump([value])


def _ports(deployment: InCluster) -> list[int]:
    """Return the TCP ports to which the server connects, except the port of name servers."""
    settings = deployment.settings
    ports = [*_API_SERVER_PORTS, *(settings.callbacks.ports or _CALLBACK_PORTS)]
    if settings.oidc is not None:
        ports.append(_port(settings.oidc.issuer, 443))
    of_projects = (project.registries.items() for project in settings.projects.values())
    for host, registry in chain(settings.packages.registries.items(), *of_projects):
        ports.append(_port(f"//{host}", 80 if registry.insecure else 443))
        ports += [_port(f"//{registry.token_host}", 443)] if registry.token_host else []
    if deployment.on_postgres:
        ports.append(deployment.database_port or _port(deployment.address or "", _POSTGRES_PORT))
    return list(dict.fromkeys(ports))


def _port(address: str, default: int) -> int:
    """Return the port in an address such as `postgresql://user@host:5432/name`."""
    authority = address.partition("//")[2].partition("/")[0].partition("?")[0]
    port = authority.rpartition("@")[2].rpartition(":")[2]
    return int(port) if port.isascii() and port.isdecimal() else default


def _namespaces(deployment: InCluster) -> dict[str, Level]:
    """Return the namespaces of jobs, each with its level of Pod Security.

    Raises:
        UsageError: Projects share a namespace without permission, or jobs would run in the namespace of the server.
    """
    configured = projects.of_settings(deployment.settings, _jobs_namespace(deployment)).values()
    namespaces: dict[str, Level] = {}
    for namespace in dict.fromkeys(project.namespace for project in configured):
        namespaces[namespace] = projects.least_strict(
            project for project in configured if project.namespace == namespace
        )
    if deployment.namespace in namespaces:
        raise UsageError(
            f"jobs cannot run in the namespace of the server, {deployment.namespace}: they could mount its database",
            hint="choose another one for the server with --namespace",
        )
    return namespaces


def _jobs_namespace(deployment: InCluster) -> str:
    """Return the namespace of jobs for a configuration without a namespace."""
    return f"{deployment.namespace}-jobs"


def _configuration(deployment: InCluster) -> dict[str, object]:
    """Return the server.yaml of the ConfigMap, without default values."""
    default, settings = as_plain(ServerConfig()), deployment.settings
    chosen = {key: value for key, value in as_plain(settings).items() if value != default[key]}
    for key in ("context", "database", "prometheus_listen"):
        chosen.pop(key, None)
    chosen["callbacks"] = {**chosen.get("callbacks", {}), "ports": [*(settings.callbacks.ports or _CALLBACK_PORTS)]}
    if deployment.prometheus is not None:
        chosen["prometheus_listen"] = f"0.0.0.0:{_PROMETHEUS_PORT}"
    if deployment.database_from is None:
        chosen["database"] = deployment.address or _DATABASE
    chosen["listen"] = _LISTEN
    if not settings.projects or not all(project.namespace for project in settings.projects.values()):
        chosen.setdefault("namespace", _jobs_namespace(deployment))
    return chosen


def _filled(name: str, values: Mapping[str, str]) -> str:
    """Return a YAML file of this folder with values in place of `$NAME`.

    A value is a scalar; on a line that contains only its name, it is a block of lines, indented as the name is.
    """
    lines = []
    for line in (_FOLDER / f"{name}.yaml").read_text(encoding="utf-8").splitlines():
        block = line.strip().removeprefix("$")
        if line.strip() == f"${block}":
            indent = line.partition("$")[0]
            lines += [f"{indent}{text}" if text else "" for text in values[block].splitlines()]
        else:
            lines.append(Template(line).substitute(values))
    return "".join(f"{line}\n" for line in lines)

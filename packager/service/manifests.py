"""Makes the manifests that bring a server into a cluster, from the files in `deployment/`."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from packager import __version__
from packager.base import quantity
from packager.base.errors import UsageError
from packager.base.names import LABEL, SUBDOMAIN
from packager.base.problems import show
from packager.base.values import Value, as_plain
from packager.base.yamlio import dump
from packager.kubernetes.podsecurity import Level
from packager.service.config import URL, ProjectConfig, ServerConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

IMAGE = f"mlpack-server:{__version__}"
"""The image that `deploy/server/Dockerfile` makes."""

NAMESPACE = "mlpack"

_FOLDER = Path(__file__).resolve().parent / "deployment"
_LISTEN = "0.0.0.0:8080"
_DATABASE = "/var/lib/mlpack/server.db"
_LONGEST_NAMESPACE = 58  # `-jobs` is appended
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,511}")


class InCluster(Value, frozen=True):
    """How a server is to run in a cluster.

    Attributes:
        settings: Its configuration.
        namespace: Where it runs; its jobs run in others.
        image: Its image.
        storage: How much the claim of the database asks for.
        storage_class: The storage class of that claim; None for the cluster's default.
        with_namespaces: Whether the namespaces are among the manifests.
        sees_nodes: Whether it may list nodes and storage classes.
    """

    settings: ServerConfig
    namespace: str = NAMESPACE
    image: str = IMAGE
    storage: str = "1Gi"
    storage_class: str | None = None
    with_namespaces: bool = True
    sees_nodes: bool = False


def manifests(deployment: InCluster) -> str:
    """Return the manifests, as YAML for `kubectl apply -f -`. Raises UsageError."""
    _check(deployment)
    projects = _projects(deployment)
    config = dump([_configuration(deployment)])
    of_server = {
        "NAMESPACE": deployment.namespace,
        "LEVEL": Level.restricted.value,
        "IMAGE": json.dumps(deployment.image),
        "CONFIG": config.rstrip("\n").replace("\n", "\n    "),
        "CONFIG_DIGEST": f"sha256-{hashlib.sha256(config.encode()).hexdigest()[:16]}",
        "STORAGE": json.dumps(deployment.storage),
        "STORAGE_CLASS": json.dumps(deployment.storage_class),
    }
    parts = [_filled("namespace", of_server)] if deployment.with_namespaces else []
    for namespace, level in projects.items():
        if deployment.with_namespaces:
            parts.append(_filled("namespace", {"NAMESPACE": namespace, "LEVEL": level.value}))
        parts.append(_filled("project", {"NAMESPACE": namespace, "SERVER_NAMESPACE": deployment.namespace}))
    parts += [_filled("nodes", of_server)] if deployment.sees_nodes else []
    return "---\n".join([*parts, _filled("server", of_server)])


def _projects(deployment: InCluster) -> dict[str, Level]:
    """Return the namespaces in which jobs run, each with its level of Pod Security. Raises UsageError."""
    settings = deployment.settings
    common = settings.namespace or f"{deployment.namespace}-jobs"
    namespaces: dict[str, Level] = {}
    for project in settings.projects.values() or (ProjectConfig(),):
        namespace, level = project.namespace or common, project.pod_security or settings.pod_security
        namespaces[namespace] = max(level, namespaces.get(namespace, level), key=list(Level).index)
    if deployment.namespace in namespaces:
        raise UsageError(
            f"jobs cannot run in the namespace of the server, {deployment.namespace}: they could mount its database",
            hint="choose another one for the server with --namespace",
        )
    return namespaces


def _configuration(deployment: InCluster) -> dict[str, Any]:
    """Return server.yaml as it is in the cluster: without what has its default."""
    default = as_plain(ServerConfig())
    chosen = {key: value for key, value in as_plain(deployment.settings).items() if value != default[key]}
    chosen.pop("context", None)
    chosen |= {"listen": _LISTEN, "database": _DATABASE}
    if not all(project.namespace for project in deployment.settings.projects.values() or (ProjectConfig(),)):
        chosen.setdefault("namespace", f"{deployment.namespace}-jobs")
    return chosen


def _check(deployment: InCluster) -> None:
    if not re.fullmatch(LABEL, deployment.namespace) or len(deployment.namespace) > _LONGEST_NAMESPACE:
        message = f"expected at most {_LONGEST_NAMESPACE} of a-z, 0-9 and '-'"
        raise UsageError(f"--namespace: {message}, found {show(deployment.namespace)}")
    if deployment.storage_class is not None and not re.fullmatch(SUBDOMAIN, deployment.storage_class):
        raise UsageError(f"--storage-class: expected a name, found {show(deployment.storage_class)}")
    if deployment.settings.url is not None and not URL.fullmatch(deployment.settings.url):
        raise UsageError(f"--url: expected an address such as https://host, found {show(deployment.settings.url)}")
    if not _IMAGE.fullmatch(deployment.image):
        raise UsageError(f"--image: expected the name of an image, found {show(deployment.image)}")
    try:
        quantity.parse(deployment.storage)
    except ValueError:
        raise UsageError(f"--storage: expected a size such as 1Gi, found {show(deployment.storage)}") from None


def _filled(name: str, values: Mapping[str, str]) -> str:
    """Return a file of `deployment/` with values in place of `$NAME`; every value is a scalar or indented text."""
    return Template((_FOLDER / f"{name}.yaml").read_text(encoding="utf-8")).substitute(values)

"""The options of `mlpack serve manifests`, and their checks. Tests: service/deployment/test_manifests.py."""

from __future__ import annotations

import re

from packager import __version__
from packager.base import quantity
from packager.base.errors import UsageError
from packager.base.names import LABEL, SUBDOMAIN, is_label
from packager.base.problems import show
from packager.base.values import Value
from packager.kubernetes import configmap
from packager.service.config import URL, ServerConfig
from packager.service.store.addresses import is_postgres

IMAGE = f"mlpack-server:{__version__}"
"""The image that `deploy/server/Dockerfile` builds."""

NAMESPACE = "mlpack"

_LONGEST_NAMESPACE = 58  # `-jobs` is appended
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,511}")
_PASSWORD = re.compile(r"[^/?#]*//[^/?#@]*:[^/?#]*@|.*[?&]password=")


class InCluster(Value, frozen=True):
    """The deployment of a server in a cluster.

    Attributes:
        settings: The configuration of the server.
        namespace: The namespace of the server; jobs run in other namespaces.
        image: The image of the server.
        storage: The size of the claim for the database.
        storage_class: The storage class of the claim; None for the default class of the cluster.
        with_namespaces: Whether the manifests contain the namespaces.
        sees_nodes: Whether the server may list nodes and storage classes.
        database_from: `NAME` or `NAME/KEY`: the Secret with the address of a PostgreSQL database, and the key in it.
            None if the configuration has the address, or if the database is a file on a claim.
        database_port: The port of PostgreSQL; None for the port in the configured address, or else the default port.
        replicas: The number of pods.
        prometheus: The namespace of the Prometheus that reads metrics without a token; None to require a token.
    """

    settings: ServerConfig
    namespace: str = NAMESPACE
    image: str = IMAGE
    storage: str = "1Gi"
    storage_class: str | None = None
    with_namespaces: bool = True
    sees_nodes: bool = False
    database_from: str | None = None
    database_port: int | None = None
    replicas: int = 1
    prometheus: str | None = None

    @property
    def address(self) -> str | None:
        """The address of PostgreSQL in the configuration; None if it has none."""
        database = self.settings.database or ""
        return database if is_postgres(database) else None

    @property
    def on_postgres(self) -> bool:
        """Whether the database is PostgreSQL, and not a file on a claim."""
        return self.database_from is not None or self.address is not None


def check(deployment: InCluster) -> None:
    """Raise UsageError for an option that is invalid or contradicts another one."""
    if not re.fullmatch(LABEL, deployment.namespace) or len(deployment.namespace) > _LONGEST_NAMESPACE:
        message = f"expected at most {_LONGEST_NAMESPACE} of a-z, 0-9 and '-'"
        raise UsageError(f"--namespace: {message}, found {show(deployment.namespace)}")
    if deployment.storage_class is not None and not re.fullmatch(SUBDOMAIN, deployment.storage_class):
        raise UsageError(f"--storage-class: expected a name, found {show(deployment.storage_class)}")
    if deployment.settings.url is not None and not URL.fullmatch(deployment.settings.url):
        raise UsageError(f"--url: expected an address such as https://host, found {show(deployment.settings.url)}")
    if not _IMAGE.fullmatch(deployment.image):
        raise UsageError(f"--image: expected the name of an image, found {show(deployment.image)}")
    if deployment.prometheus is not None and not is_label(deployment.prometheus):
        raise UsageError(f"--prometheus: expected a namespace, found {show(deployment.prometheus)}")
    try:
        quantity.parse(deployment.storage)
    except ValueError:
        raise UsageError(f"--storage: expected a size such as 1Gi, found {show(deployment.storage)}") from None
    _check_database(deployment)


def _check_database(deployment: InCluster) -> None:
    secret = deployment.database_from
    if secret is not None:
        name, slash, key = secret.partition("/")
        if not re.fullmatch(SUBDOMAIN, name) or (slash and not configmap.KEY.fullmatch(key)):
            raise UsageError(f"--database-secret: expected NAME or NAME/KEY, found {show(secret)}")
    elif deployment.address and _PASSWORD.match(deployment.address):
        raise UsageError(
            "the address of the database has a password, which would be in a ConfigMap",
            hint="store the address in a Secret, and name it with --database-secret",
        )
    if not deployment.on_postgres and deployment.replicas > 1:
        raise UsageError(
            f"--replicas: {deployment.replicas} pods need a database of PostgreSQL: a file is for one",
            hint="name the Secret with its address: --database-secret NAME",
        )

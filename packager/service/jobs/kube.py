"""The client of the cluster, with lightkube: arguments and results are plain dicts, and errors are ours."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from datetime import UTC
from typing import TYPE_CHECKING, Any

import httpx2
from lightkube import AsyncClient
from lightkube.config.client_adapter import ConnectionParams
from lightkube.config.kubeconfig import KubeConfig
from lightkube.core.exceptions import ApiError, ConfigError
from lightkube.generic_resource import create_namespaced_resource
from lightkube.resources.core_v1 import PodLog
from lightkube.types import CascadeType

from packager.base.errors import ClusterError, UnreachableError
from packager.base.values import Value
from packager.kubernetes.kubectl.messages import NOT_STARTED
from packager.kubernetes.manifest import mapping, text
from packager.service.registry.policy import JOB, SERVER, WORKLOADS
from packager.workloads import kueue
from packager.workloads.kinds import kinds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from datetime import datetime

    from lightkube.config.kubeconfig import SingleConfig

    from packager.kubernetes.objects import Object

MANAGER = "mlpack-server"
"""The field manager of applied objects."""

_LONGEST_LINE = 64 << 10

_TIMEOUT = httpx2.Timeout(30.0)
"""The time limit in seconds: a busy API server, or one that calls a kubelet or webhook, is slow."""

_CONNECTIONS = httpx2.Limits(max_connections=None, max_keepalive_connections=20)

_PAGE = 100
"""The number of objects in a page of a list: each pod takes 50 KiB of memory while it is read."""

_WATCH_SECONDS = 300
"""The seconds after which the API server ends a watch, which then continues at its last version."""

_WATCH_TIMEOUT = httpx2.Timeout(30.0, read=_WATCH_SECONDS + 30.0)
"""The time limit of a watch, after which its connection counts as lost."""

_LARGEST_EVENT = 16 << 20
"""The maximum bytes of a watch event: etcd stores objects of at most 1.5 MiB."""

_GONE = 410
"""The HTTP status for a version, or for the next page of a list, that etcd has compacted."""

_CORE = {
    "ConfigMap": "configmaps",
    "Event": "events",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "Secret": "secrets",
    "Service": "services",
}
_KUEUE = "v1beta2"
"""The version of Kueue's objects, from Kueue 0.14 on."""

_RESOURCES = {
    **{kind: create_namespaced_resource("", "v1", kind, plural) for kind, plural in _CORE.items()},
    **{
        kind: create_namespaced_resource(
            api.rpartition("/")[0], api.rpartition("/")[2], kind, kinds()[kind].resource.partition(".")[0]
        )
        for api, kind in WORKLOADS
    },
    "LocalQueue": create_namespaced_resource(kueue.GROUP, _KUEUE, "LocalQueue", "localqueues"),
    "Workload": create_namespaced_resource(kueue.GROUP, _KUEUE, "Workload", "workloads"),
}


class LogOptions(Value, frozen=True):
    """The selection of a pod's log and of its lines."""

    container: str | None = None  # None for the only container or the default one
    tail: int | None = None  # the number of lines from the end; None for all
    since: datetime | None = None  # the earliest time of lines
    is_previous: bool = False  # whether to read the log of the run before the last restart
    is_following: bool = False  # whether to wait for further lines until the container ends
    has_times: bool = False  # whether each line begins with its time


WHOLE_LOG = LogOptions()


class RefusedError(ClusterError):
    """The API server refuses a request."""

    def __init__(self, answer: str, code: int, reason: str = "") -> None:
        super().__init__(answer)
        self.code = code
        self.reason = reason
        # whether there is no log because the container has not started
        self.is_about_start = NOT_STARTED.search(answer) is not None


class NotConfiguredError(ClusterError):
    """There is no kubeconfig, and this process is not in a pod."""


class ExpiredError(RefusedError):
    """The version of a watch is too old: the client must list the objects again."""


class Cluster:
    """The client of one cluster; without a client, each request fails with the reason."""

    def __init__(self, client: AsyncClient | None, absent: str = "") -> None:
        self._own: Any = client  # its overloads lack namespaces of generic resources
        self.absent = absent
        self.namespace = str(client.namespace) if client else "default"

    @property
    def _client(self) -> Any:
        """The client. Raises UnreachableError without a configuration."""
        if self._own is None:
            raise UnreachableError(self.absent)
        return self._own

    @classmethod
    def connect(cls, context: str | None = None) -> Cluster:
        """Return the cluster of the kubeconfig: KUBECONFIG, ~/.kube/config, or the service account of this pod.

        Raises NotConfiguredError or ClusterError.
        """
        config = _configured(context)
        try:
            client = AsyncClient(config=config, field_manager=MANAGER, timeout=_TIMEOUT)
            _unlimit(client, config)
        except ConfigError as error:
            raise _not_configured(error) from None
        return cls(client)

    async def close(self) -> None:
        """Close all connections."""
        if self._own is not None:
            await self._own.aclose()

    async def apply(self, item: Object, namespace: str, *, dry_run: bool = False) -> Object:
        """Apply an object with server-side apply, and return it. Raises RefusedError or UnreachableError."""
        resource = _RESOURCES[str(item["kind"])]
        async with _translated():
            applied = await self._client.apply(
                resource.from_dict(item), namespace=namespace, force=True, dry_run=dry_run
            )
            return _plain(applied)

    async def create(self, item: Object, namespace: str, *, dry_run: bool = False) -> None:
        """Create an object; an existing object of its name stays unchanged. Raises RefusedError or UnreachableError."""
        resource = _RESOURCES[str(item["kind"])]
        try:
            async with _translated():
                await self._client.create(resource.from_dict(item), namespace=namespace, dry_run=dry_run)
        except RefusedError as error:
            if error.reason != "AlreadyExists":
                raise

    async def get(self, kind: str, name: str, namespace: str) -> Object | None:
        """Return an object, or None if it does not exist. Raises RefusedError or UnreachableError."""
        try:
            async with _translated():
                return _plain(await self._client.get(_RESOURCES[kind], name, namespace=namespace))
        except RefusedError as error:
            if error.code == 404:
                return None
            raise

    async def delete(self, kind: str, name: str, namespace: str) -> None:
        """Delete an object, if it exists, with its dependents. Raises RefusedError or UnreachableError."""
        try:
            async with _translated():
                await self._client.delete(_RESOURCES[kind], name, namespace=namespace, cascade=CascadeType.BACKGROUND)
        except RefusedError as error:
            if error.code != 404:
                raise

    async def list(
        self, kind: str, namespace: str, labels: Mapping[str, str] | None = None
    ) -> tuple[list[Object], str]:
        """Return all objects of a kind, without `managedFields`, and the version from which a watch continues.

        Raises RefusedError or UnreachableError.
        """
        options = {"namespace": namespace, "labels": dict(labels or {}) or None}
        async with _translated():
            try:
                return await _read(self._client.list(_RESOURCES[kind], chunk_size=_PAGE, **options))
            except ApiError as error:
                if error.status.code != _GONE:
                    raise
            # A further page was compacted. One page with all objects cannot expire; client-go's pager does the same.
            return await _read(self._client.list(_RESOURCES[kind], **options))

    async def watch(
        self, kind: str, namespace: str, version: str, labels: Mapping[str, str] | None = None
    ) -> AsyncIterator[tuple[str, Object]]:
        """Yield each change after `version`: ADDED, MODIFIED or DELETED and the object, or BOOKMARK and a version.

        The watch ends without an error: the next one continues at the `resourceVersion` of the last object.
        lightkube's own `watch` never reports an end, waits without a time limit for a lost connection, and splits
        events at each line separator of Unicode, which programs can write into the status of their pods.
        Raises ExpiredError, RefusedError or UnreachableError.
        """
        parameters = {
            "allowWatchBookmarks": "true",
            "labelSelector": ",".join(f"{key}={value}" for key, value in (labels or {}).items()) or None,
            "resourceVersion": version,
            "timeoutSeconds": _WATCH_SECONDS,
        }
        asked = self._requests.prepare_request(
            "list", _RESOURCES[kind], namespace=namespace, watch=True, params=parameters
        )
        asked.timeout = _WATCH_TIMEOUT
        async with _translated(), self._streamed(asked) as chunks:
            rest = b""
            async for chunk in chunks:
                *lines, rest = (rest + chunk).split(b"\n")
                for line in filter(None, lines):
                    yield _change(line)
                if len(rest) > _LARGEST_EVENT:
                    raise UnreachableError(f"a watch event has more than {_LARGEST_EVENT:,} bytes")

    async def log(self, pod: str, namespace: str, options: LogOptions = WHOLE_LOG) -> AsyncIterator[bytes]:
        """Yield a container's log in chunks of whole lines; lines of more than 64 KiB come in pieces.

        lightkube's own `log` lacks `previous` and `sinceTime`, and reads the whole log into memory.
        Raises RefusedError or UnreachableError.
        """
        since = options.since
        parameters = {
            "container": options.container,
            "tailLines": options.tail,
            "follow": options.is_following or None,
            "previous": options.is_previous or None,
            "sinceTime": since.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z") if since else None,
            "timestamps": options.has_times or None,
        }
        asked = self._requests.prepare_request("get", PodLog, name=pod, namespace=namespace, params=parameters)
        if options.is_following:
            asked.timeout = httpx2.Timeout(_TIMEOUT.connect, read=None)
        async with _translated(), self._streamed(asked) as chunks:
            rest = b""
            async for chunk in chunks:
                lines, newline, rest = (rest + chunk).rpartition(b"\n")
                if newline:
                    yield lines + newline
                if len(rest) > _LONGEST_LINE:
                    yield rest
                    rest = b""
            if rest:
                yield rest + b"\n"

    @property
    def _requests(self) -> Any:
        """The client with methods for all requests, which the public client lacks."""
        return self._client._client  # noqa: SLF001

    @asynccontextmanager
    async def _streamed(self, asked: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send a request, and yield the chunks of its answer. Raises ApiError or httpx2.HTTPError."""
        response = await self._requests.send(self._requests.build_adapter_request(asked), stream=True)
        try:
            if response.is_error:
                await response.aread()
            self._requests.raise_for_status(response)
            yield response.aiter_bytes()
        finally:
            await response.aclose()


def _configured(context: str | None) -> SingleConfig:
    try:
        config = KubeConfig.from_env().get(context_name=context)
    except ConfigError as error:
        raise _not_configured(error) from None
    if config is None:
        raise ClusterError(f"context {context!r} not found in the kubeconfig", hint="kubectl config get-contexts")
    return config


def _not_configured(error: ConfigError) -> NotConfiguredError:
    return NotConfiguredError(f"no cluster is configured: {error}", hint="kubectl config get-contexts")


async def pods_of(cluster: Cluster, namespace: str, release: str, server: str) -> list[Object]:
    """Return the current pods of a job, which may be newer than those of a watch.

    Raises RefusedError or UnreachableError.
    """
    items, _ = await cluster.list("Pod", namespace, {JOB: release, SERVER: server})
    return items


def _unlimit(client: AsyncClient, config: SingleConfig) -> None:
    """Let a client open as many connections as it needs: a watch or a followed log keeps its connection.

    lightkube passes no limits on to httpx2, which opens 100 connections and lets all other requests wait.
    """
    options: Any = ConnectionParams(timeout=_TIMEOUT).httpx_params(config)
    connections: Any = client._client  # noqa: SLF001
    connections._client = httpx2.AsyncClient(**options, limits=_CONNECTIONS)  # noqa: SLF001


def without_managed_fields(item: Object) -> Object:
    """Return an object without `managedFields`, which are the largest part of many objects."""
    return {**item, "metadata": {key: value for key, value in item["metadata"].items() if key != "managedFields"}}


def _plain(item: Any) -> Object:
    return dict(item.to_dict())


async def _read(listed: Any) -> tuple[list[Object], str]:
    """Return the objects of a list of lightkube, without `managedFields`, and the version of the list."""
    items = [without_managed_fields(_plain(item)) async for item in listed]
    return items, str(listed.resourceVersion)


def _change(line: bytes) -> tuple[str, Object]:
    """Return the type and the object of a watch event. Raises ExpiredError, RefusedError or UnreachableError."""
    try:
        event = mapping(json.loads(line))
    except (ValueError, RecursionError):
        raise UnreachableError("the cluster does not answer: a watch event is not valid JSON") from None
    change, item = text(event.get("type")), mapping(event.get("object"))
    if change == "ERROR":
        raise _refused(text(item.get("message")), item.get("code"), text(item.get("reason")))
    if not text(mapping(item.get("metadata")).get("resourceVersion")):
        raise UnreachableError("the cluster does not answer: a watch event has no object with a version")
    return change, item


def _refused(message: str, code: object, reason: str) -> RefusedError:
    """Return the error for a status of the API server."""
    number = code if isinstance(code, int) else 0
    return (ExpiredError if number == _GONE else RefusedError)(message, number, reason)


@asynccontextmanager
async def _translated() -> AsyncIterator[None]:
    try:
        yield
    except ApiError as error:
        status = error.status
        raise _refused(str(status.message or error), status.code, str(status.reason or "")) from None
    except (httpx2.HTTPError, OSError) as error:
        raise UnreachableError(f"the cluster does not answer: {str(error) or type(error).__name__}") from None

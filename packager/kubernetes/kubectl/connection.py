"""Reads the cluster of a command from the user's kubeconfig once.

A kubeconfig may change while a command runs: `kubectl config use-context` in another terminal is enough. So `kubectl
config view` reads server, user and namespace before the first request. They are written to a private kubeconfig, which
each kubectl of the command reads instead. The private kubeconfig refers to files with certificates, keys and tokens,
because these may be renewed during the command, and to the user's login program.
"""

from __future__ import annotations

import json
import os
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from packager.base import workfolder
from packager.base.errors import ClusterError, ToolError, reason
from packager.base.values import Value
from packager.kubernetes.kubectl import messages
from packager.kubernetes.kubectl.refusals import error_from
from packager.kubernetes.manifest import listing, mapping, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from packager.base.process import Finished

_SECONDS = 60.0
"""The timeout in seconds for reading kubeconfigs, also from a network file system."""

_VIEW = ("config", "view", "--raw", "--output=json")

_CONFIG = {"kind": "Config", "apiVersion": "v1"}

# Relative to the folder of the kubeconfig (client-go, tools/clientcmd/loader.go).
_FILE_KEYS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")

_POD_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The folder with the token and the namespace of a pod."""


class RunsKubectl(Protocol):
    """Runs kubectl with the user's options and kubeconfig."""

    def __call__(self, *arguments: str, timeout: float | None = None) -> Finished:
        """Run kubectl to its end, and return its exit code and output."""


class Pinned(Value, frozen=True):
    """The options that select a cluster, as read from the kubeconfig."""

    flags: tuple[str, ...]  # the options of kubectl
    # the namespace of the context, or of the pod that kubectl runs in; None if there is no cluster
    namespace: str | None
    # the private kubeconfig, which no message names; None if kubectl must use the user's kubeconfig
    file: str | None = None


@dataclass(frozen=True, slots=True)
class PodAccount:
    """The service account of the pod that kubectl runs in."""

    server: str  # the address of the pod's cluster
    namespace: str  # the namespace that kubectl uses if the kubeconfig names none

    @property
    def config(self) -> dict[str, Any]:
        """A kubeconfig for the pod's cluster, because kubectl ignores this cluster if `--request-timeout` is set."""
        authority = _POD_ACCOUNT / "ca.crt"
        cluster = {"server": self.server, **({"certificate-authority": str(authority)} if authority.is_file() else {})}
        return {
            **_CONFIG,
            "clusters": [{"name": "pod", "cluster": cluster}],
            "users": [{"name": "pod", "user": {"tokenFile": str(_POD_ACCOUNT / "token")}}],
            "contexts": [{"name": "pod", "context": {"cluster": "pod", "user": "pod", "namespace": self.namespace}}],
            "current-context": "pod",
        }


def pod_account(environment: Mapping[str, str]) -> PodAccount | None:
    """Return the account of the pod that kubectl runs in; None outside of pods.

    kubectl finds it in the same way (client-go, tools/clientcmd/client_config.go, inClusterClientConfig).
    """
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    if not (host and port and (_POD_ACCOUNT / "token").is_file()):
        return None
    namespace = environment.get("POD_NAMESPACE")
    if not namespace:
        with suppress(OSError):
            namespace = (_POD_ACCOUNT / "namespace").read_text(encoding="utf-8").strip()
    return PodAccount(f"https://{f'[{host}]' if ':' in host else host}:{port}", namespace or "default")


class Connection:
    """A cluster that stays the same until the block ends; its options are read when they are first needed.

    Args:
        files: The paths of kubeconfigs, which kubectl merges.
        is_explicit: Whether the user has named a single kubeconfig with `--kubeconfig`.
        pod: The account of the pod that kubectl runs in; None outside of pods.
    """

    def __init__(self, files: Sequence[Path], *, is_explicit: bool, pod: PodAccount | None = None) -> None:
        self._files = [Path(os.path.abspath(file)) for file in files]  # noqa: PTH100 - kubectl follows no link either
        self._is_explicit = is_explicit
        self._pod = pod
        self._stack = ExitStack()
        self._pinned: Pinned | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def pinned(self, run: RunsKubectl) -> Pinned:
        """Return the options that select the cluster, as read in the first call."""
        if self._pinned is None:
            self._pinned = self._read(run)
        return self._pinned

    def _read(self, run: RunsKubectl) -> Pinned:
        done = run(*_VIEW, "--minify", timeout=_SECONDS)
        if done.returncode != 0 and messages.NO_CURRENT_CONTEXT.search(done.stderr):
            return self._written(self._pod.config, self._pod.namespace) if self._pod else self._written(_CONFIG, None)
        config = _config(done)
        context = next(iter(_entries(config, "context")), ("", {}))[1]
        namespace = text(context.get("namespace")) or (self._pod.namespace if self._pod else "default")
        context["namespace"] = namespace
        users = [user for _, user in _entries(config, "user")]
        if any("auth-provider" in user for user in users):  # kubectl writes renewed tokens into the kubeconfig
            flags = [f"--kubeconfig={file}" for file in self._files if self._is_explicit]
            flags += [f"--{key}={text(context.get(key))}" for key in ("cluster", "user")]
            flags += [f"--context={text(config.get('current-context'))}", f"--namespace={namespace}"]
            return Pinned(tuple(flags), namespace)
        if references := list(_references(config)):
            folders = self._folders(run)
            for reference in references:
                folder = folders.get(reference.origin, self._files[0].parent)
                reference.values[reference.key] = str(folder / reference.value)
        return self._written(config, namespace)

    def _written(self, config: dict[str, Any], namespace: str | None) -> Pinned:
        """Write the private kubeconfig. Raises ToolError."""
        file = self._stack.enter_context(workfolder.temporary()) / "kubeconfig"
        try:
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
                json.dump(config, opened)
        except OSError as error:
            raise ToolError(f"cannot write a temporary file: {reason(error)}", hint="set TMPDIR") from None
        return Pinned((f"--kubeconfig={file}",), namespace, str(file))

    def _folders(self, run: RunsKubectl) -> dict[tuple[str, ...], Path]:
        """Return the folder of the first kubeconfig that has a relative path, by the path's origin.

        A single kubeconfig contains all paths, so no file is read for it.
        """
        folders: dict[tuple[str, ...], Path] = {}
        for file in self._files if len(self._files) > 1 else ():
            done = run(*_VIEW, f"--kubeconfig={file}", timeout=_SECONDS)
            for reference in _references(_config(done)) if done.returncode == 0 else ():
                folders.setdefault(reference.origin, file.parent)
        return folders


@dataclass(frozen=True, slots=True)
class _Reference:
    """A relative path in a kubeconfig."""

    kind: str  # `cluster` or `user`
    name: str  # the name of the cluster or user
    values: dict[str, Any]  # the mapping that contains the path
    key: str

    @property
    def value(self) -> str:
        """The path."""
        return text(self.values[self.key])

    @property
    def origin(self) -> tuple[str, ...]:
        """The key by which equal references are recognized."""
        return (self.kind, self.name, self.key, self.value)


def _references(config: dict[str, Any]) -> Iterator[_Reference]:
    for kind in ("cluster", "user"):
        for name, entry in _entries(config, kind):
            login = mapping(entry.get("exec"))
            places = [(entry, key) for key in _FILE_KEYS if text(entry.get(key))]
            # A name without a slash is looked up on PATH.
            places += [(login, "command")] if "/" in text(login.get("command")) else []
            yield from (_Reference(kind, name, *place) for place in places if not place[0][place[1]].startswith("/"))


def _entries(config: dict[str, Any], kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and content of each cluster, user or context."""
    for entry in map(mapping, listing(config.get(f"{kind}s"))):
        yield text(entry.get("name")), mapping(entry.get(kind))


def _config(done: Finished) -> dict[str, Any]:
    if done.returncode != 0:
        raise error_from(done.stderr)
    try:
        config = json.loads(done.stdout)
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise ClusterError("kubectl config view did not print a kubeconfig", hint="kubectl config view")
    return config

"""Reads the cluster of a command from the user's kubeconfig once.

`kubectl config use-context` may run in another terminal while a command works, or waits for an answer. So each kubectl
of the command gets the context and the namespace that were the current ones at its first request.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from packager.base.errors import ClusterError
from packager.base.values import Value
from packager.kubernetes.kubectl import messages
from packager.kubernetes.kubectl.refusals import error_from
from packager.kubernetes.manifest import at, text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.base.process import Finished

_SECONDS = 60.0
"""The timeout in seconds for reading kubeconfigs, also from a network file system."""

_POD_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The folder with the token and the namespace of a pod."""


class RunsKubectl(Protocol):
    """Runs kubectl with the user's options and kubeconfig."""

    def __call__(self, *arguments: str, timeout: float | None = None) -> Finished:
        """Run kubectl to its end, and return its exit code and output."""


class Pinned(Value, frozen=True):
    """The cluster of a command."""

    context: str | None  # None without a kubeconfig
    namespace: str | None  # that of the context, or of the pod that kubectl runs in; None if there is no cluster

    @property
    def is_of_pod(self) -> bool:
        """Whether kubectl finds the cluster by the service account of its pod."""
        return self.context is None and self.namespace is not None


class Connection:
    """The cluster of a command, which is read when it is first needed.

    Args:
        pod_namespace: The namespace of the pod that kubectl runs in; None outside of pods.
    """

    def __init__(self, pod_namespace: str | None = None) -> None:
        self._pod_namespace = pod_namespace
        self._pinned: Pinned | None = None

    def pinned(self, run: RunsKubectl) -> Pinned:
        """Return the cluster, as read in the first call."""
        if self._pinned is None:
            self._pinned = self._read(run)
        return self._pinned

    def _read(self, run: RunsKubectl) -> Pinned:
        done = run("config", "view", "--minify", "--output=json", timeout=_SECONDS)
        if done.returncode != 0 and messages.NO_CURRENT_CONTEXT.search(done.stderr):
            return Pinned(None, self._pod_namespace)
        if done.returncode != 0:
            raise error_from(done.stderr)
        try:
            config = json.loads(done.stdout)
        except (ValueError, RecursionError):
            config = None
        if not isinstance(config, dict):
            raise ClusterError("kubectl config view did not print a kubeconfig", hint="kubectl config view")
        namespace = text(at(config, ("contexts", 0, "context", "namespace"))) or self._pod_namespace or "default"
        return Pinned(text(config.get("current-context")), namespace)


def pod_namespace(environment: Mapping[str, str]) -> str | None:
    """Return the namespace that kubectl uses in a pod if the kubeconfig names none; None outside of pods.

    kubectl finds it in the same way (client-go, tools/clientcmd/client_config.go, inClusterClientConfig).
    """
    names = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
    if not (all(map(environment.get, names)) and (_POD_ACCOUNT / "token").is_file()):
        return None
    namespace = environment.get("POD_NAMESPACE")
    if not namespace:
        with suppress(OSError):
            namespace = (_POD_ACCOUNT / "namespace").read_text(encoding="utf-8").strip()
    return namespace or "default"

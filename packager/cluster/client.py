"""The user's own kubectl, pointed at a cluster: argument lists in, text and JSON out."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager import process
from packager.errors import ClusterError, MlpackError, UnreachableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

REQUEST_TIMEOUT = 20.0
"""Seconds after which a single request counts as unanswered."""

_UNREACHABLE = re.compile(
    r"connection refused|unable to connect|i/o timeout|no route to host|network is unreachable|no such host"
    r"|tls handshake timeout|context deadline exceeded|client rate limiter|connection reset|unexpected eof|: eof"
    r"|server is currently unable to handle|etcdserver|did not end within|apiserver not ready|serviceunavailable"
    r"|http2: client connection lost|server \S+ was refused",
    re.IGNORECASE,
)

_NO_CONTEXT = re.compile(
    r"not found for specified context: (\S+)|context \"(\S+)\" does not exist|cannot locate context (\S+)"
)
"""Each verb of kubectl says it in words of its own."""


def _ignore(_argv: list[str]) -> None:
    return


@dataclass(frozen=True, slots=True)
class Kubectl:
    """How the cluster is reached.

    Attributes:
        program: A name on PATH, or a path.
        namespace: `-n`; None for that of the kubeconfig's context.
        context: `--context`; None for the current one.
        kubeconfig: `--kubeconfig`; None for kubectl's own choice.
        show: Told each command before it runs.
    """

    program: str = "kubectl"
    namespace: str | None = None
    context: str | None = None
    kubeconfig: str | None = None
    show: Callable[[list[str]], None] = _ignore

    def argv(self, *arguments: str) -> list[str]:
        """Return the command for `arguments`, for this cluster and namespace."""
        where = {"--kubeconfig": self.kubeconfig, "--context": self.context, "--namespace": self.namespace}
        return [self.program, *(f"{flag}={value}" for flag, value in where.items() if value), *arguments]

    def run(self, *arguments: str, timeout: float | None = None) -> process.Finished:
        """Run kubectl to its end, and return what it wrote; its exit code is for the caller to judge.

        Raises:
            ToolError: kubectl is missing, or did not end in time.
        """
        argv = self.argv(*arguments)
        self.show(argv)
        return process.run(argv, timeout=timeout)

    def json(self, *arguments: str) -> Any:
        """Return what `kubectl … --output=json` prints; None when it prints nothing.

        Raises:
            UnreachableError: The cluster did not answer.
            ClusterError: It said no.
        """
        done = self.run(*arguments, "--output=json", f"--request-timeout={REQUEST_TIMEOUT:g}s")
        if done.returncode != 0:
            raise failed(done.stderr)
        if not done.stdout.strip():
            return None
        try:
            return json.loads(done.stdout)
        except ValueError:
            raise UnreachableError("the cluster's answer broke off") from None

    def get(self, what: str) -> dict[str, Any] | None:
        """Return the object `resource/name`; None when there is none. Raises as `json` does."""
        found = self.json("get", what, "--ignore-not-found")
        return dict(found) if found else None

    def items(self, *what: str) -> list[dict[str, Any]]:
        """Return the objects that `kubectl get` finds: any number of `resource/name`, or a resource and selectors."""
        found = self.json("get", *what, "--ignore-not-found")
        if not found:
            return []
        if found["kind"] != "List" and not found["kind"].endswith("List"):
            return [dict(found)]
        return [dict(item) for item in found["items"]]

    def raw(self, path: str) -> dict[str, Any] | None:
        """Return what the API says at `path`, such as `/apis/apps/v1`; None for nothing. Raises as `json`."""
        done = self.run("get", "--raw", path, f"--request-timeout={REQUEST_TIMEOUT:g}s")
        if done.returncode != 0:
            if "NotFound" in done.stderr or "could not find the requested resource" in done.stderr:
                return None
            raise failed(done.stderr)
        try:
            return dict(json.loads(done.stdout))
        except ValueError:
            raise UnreachableError("the cluster's answer broke off") from None

    def start(self, *arguments: str) -> AbstractContextManager[process.Running]:
        """Start kubectl; its output is read while it runs."""
        argv = self.argv(*arguments)
        self.show(argv)
        return process.stream(argv)

    def default_namespace(self) -> str:
        """Return the namespace that is meant: the one given, else the context's, else `default`.

        Raises:
            ClusterError: The kubeconfig cannot be read, or has no such context.
        """
        if self.namespace:
            return self.namespace
        done = self.run("config", "view", "--minify", "--output=jsonpath={..namespace}")
        if done.returncode != 0:
            raise failed(done.stderr)
        return done.stdout.strip() or "default"


def failed(stderr: str) -> MlpackError:
    """Return the error that kubectl's words on stderr mean: a UsageError when they are about the context asked for."""
    said = " ".join(line for line in stderr.split("\n") if line and not re.match(r"[EW]\d{4} ", line))
    said = " ".join(said.split()) or " ".join(stderr.split())
    said = said.removeprefix("error: ")
    if found := _NO_CONTEXT.search(said):
        name = found[found.lastindex or 0]
        return UsageError(f"there is no context {name!r} in the kubeconfig", hint="kubectl config get-contexts")
    if _UNREACHABLE.search(said):
        return UnreachableError(f"the cluster does not answer: {said}", hint="kubectl cluster-info")
    said = re.sub(r"^Error from server( \(\w+\))?: ", "", said)
    return ClusterError(said or "kubectl failed and did not say why")

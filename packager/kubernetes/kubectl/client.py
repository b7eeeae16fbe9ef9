"""Runs the user's kubectl against a cluster: argument lists in, text and JSON out."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packager.base.errors import ClusterError, DeniedError, HungError, NotServedError, UnreachableError
from packager.base.problems import show
from packager.base.process import SYSTEM, Runner
from packager.base.values import Value
from packager.kubernetes.kubectl import messages
from packager.kubernetes.kubectl.refusals import error_from, no_answer, no_cluster_error
from packager.kubernetes.manifest import at, listing, mapping, text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from packager.base import process
    from packager.base.errors import MlpackError
    from packager.base.process import Finished


REQUEST_TIMEOUT = 20.0
"""Seconds after which a single request counts as unanswered."""

HANGING_SECONDS = 3 * REQUEST_TIMEOUT
"""Seconds after which a kubectl that sends a request is stopped: a login program that it starts may hang forever."""


_RETRY_SECONDS = 2.0
"""Seconds between two requests for a kind that is not served: a starting API server adds kinds one by one."""

_ENVIRONMENT = {"KUBERNETES_MASTER": messages.NO_SERVER}
"""Without a kubeconfig, kubectl asks whatever listens on localhost:8080, unless this variable names another server
(client-go, tools/clientcmd/client_config.go, `getDefaultServer`). In a pod, it still asks the cluster of that pod."""

# Files that are passed to kubectl are temporary, and deleted before the user reads the message.
_FILE = re.compile("(--filename=)(.+)")


@dataclass(frozen=True, slots=True)
class Kubectl:
    """The user's kubectl, with the options that select the cluster."""

    program: str = "kubectl"  # a name on PATH, or a path
    # `-n`; None for the namespace of the kubeconfig's context; empty for objects that name their own
    namespace: str | None = None
    context: str | None = None  # `--context`; None for the current one
    kubeconfig: str | None = None  # `--kubeconfig`; None for kubectl's own choice
    show: Callable[[list[str]], object] = field(default=lambda _argv: None)  # receives each command before it runs
    # the time, by the clock of `runner`, at which every command is stopped; None for no limit
    deadline: float | None = None
    runner: Runner = SYSTEM  # starts kubectl
    # the cluster of the first command, for all commands; None to read the kubeconfig at each command
    connection: Connection | None = None

    def within(self, timeout: float | None) -> Kubectl:
        """Return the same client with a deadline in `timeout` seconds, or its earlier deadline."""
        if timeout is None:
            return self
        deadline = self.runner.clock() + timeout
        return replace(self, deadline=deadline if self.deadline is None else min(deadline, self.deadline))

    @property
    def cluster(self) -> list[str]:
        """The options of mlpack that select the same cluster."""
        where = {"--kubeconfig": self.kubeconfig, "--context": self.context}
        options = [part for flag, value in where.items() if value for part in (flag, value)]
        return options if self.program == "kubectl" else [*options, "--kubectl", self.program]

    @property
    def installer(self) -> list[str]:
        """kubectl, as the user would type it for objects of the cluster that name their own namespaces."""
        return replace(self, namespace="").argv()

    def argv(self, *arguments: str) -> list[str]:
        """Return the command for `arguments` as the user would type it, for this cluster and namespace."""
        where = {"--kubeconfig": self.kubeconfig, "--context": self.context, "--namespace": self.namespace}
        return [self.program, *(f"{flag}={value}" for flag, value in where.items() if value), *arguments]

    def _pinned(self) -> Pinned | None:
        return self.connection.pinned(replace(self, connection=None).run) if self.connection else None

    def _command(self, *arguments: str) -> list[str]:
        """Return the command for the cluster of the connection. Raises the errors of `Connection.pinned`."""
        pinned = self._pinned()
        if pinned is None:
            return self.argv(*arguments)
        context = pinned.context or self.context
        namespace = pinned.namespace if self.namespace is None else self.namespace
        return replace(self, context=context, namespace=namespace).argv(*arguments)

    def run(self, *arguments: str, timeout: float | None = None) -> process.Finished:
        """Run kubectl to its end, and return its exit code, which the caller has to check, and its output.

        Args:
            arguments: The command.
            timeout: Seconds after which kubectl is stopped.

        Raises:
            ToolError: kubectl is missing.
            HungError: kubectl did not end within the timeout.
            ClusterError: The kubeconfig cannot be read.
            UsageError: There is no such context.
        """
        command = self._command(*arguments)
        self.show([_FILE.sub(r"\1-", word) for word in self.argv(*arguments)])
        done = self.runner.run(command, timeout=self.remaining(timeout), variables=_ENVIRONMENT)
        return done._replace(stderr=self._without_files(done.stderr, arguments))

    def _without_files(self, stderr: str, arguments: Sequence[str]) -> str:
        """Return the messages of kubectl without the names of temporary files."""
        for file in (match[2] for word in arguments if (match := _FILE.fullmatch(word))):
            stderr = stderr.replace(f'"{file}"', "the manifests").replace(file, "the manifests")
        return stderr

    def remaining(self, timeout: float | None) -> float | None:
        """Return `timeout`, or the seconds until the deadline if these are fewer."""
        if self.deadline is None:
            return timeout
        left = max(0.0, self.deadline - self.runner.clock())
        return left if timeout is None else min(timeout, left)

    def json(self, *arguments: str) -> Any:
        """Return the value that `kubectl … --output=json` prints; None when it prints nothing.

        Raises:
            UnreachableError: The cluster did not answer.
            NotServedError: The cluster does not serve objects of this kind.
        """
        done = self._request_with_retry(*arguments, "--output=json")
        if done.returncode != 0:
            raise self.unready_or(error_from(done.stderr))
        if not done.stdout.strip():
            return None
        return _object(done.stdout)

    def _request_with_retry(self, *arguments: str) -> process.Finished:
        """Send a request; repeat it once if the cluster has denied a kind that it serves."""
        done = self.request(*arguments)
        unknown = messages.NO_RESOURCE.search(done.stderr) if done.returncode != 0 else None
        if unknown is None:
            return done
        resource = next((word.partition("/")[0] for word in arguments if word.startswith(unknown[1])), unknown[1])
        if not self.serves(resource):
            raise NotServedError(resource, hint="kubectl api-resources")
        done = self.request(*arguments)
        if done.returncode != 0 and messages.NO_RESOURCE.search(done.stderr):
            raise no_answer(f"it does not serve {resource} yet")
        return done

    def serves(self, resource: str) -> bool:
        """Return whether the cluster serves a resource (`mpijobs.kubeflow.org`) or a kind (`MPIJob.kubeflow.org`).

        The result is False only if two requests, some time apart, say so while the server is ready.

        Raises:
            UnreachableError: The server is not ready, or does not answer.
        """
        name, _, group = resource.partition(".")
        for attempt in range(2):
            if attempt:
                self.runner.sleep(_RETRY_SECONDS)
            self._require_ready()
            if self._lists(name.lower(), group):
                return True
        return False

    def groups(self) -> frozenset[str] | None:
        """Return the names of the API groups that the server lists now; None if the user may not see them.

        A server that has just started may not list the groups of all operators yet.

        Raises:
            UnreachableError: The server does not answer.
        """
        done = self.request("get", "--raw", "/apis")
        if done.returncode != 0:
            if messages.HIDDEN_FROM_USER.search(done.stderr):
                return None
            raise error_from(done.stderr)
        return frozenset(text(mapping(entry).get("name")) for entry in listing(_object(done.stdout).get("groups")))

    def _lists(self, name: str, group: str) -> bool:
        """Return whether a version of the group lists the resource: by its plural, its singular, or its kind."""
        versions = listing(mapping(self.raw(f"/apis/{group}")).get("versions")) if group else ()
        paths = [f"/apis/{group}/{text(mapping(one).get('version'))}" for one in versions] if group else ["/api/v1"]
        return any(
            name in (entry.get("name"), entry.get("singularName"), text(entry.get("kind")).lower())
            for path in paths
            for entry in map(mapping, listing(mapping(self.raw(path)).get("resources")))
        )

    def _require_ready(self) -> None:
        done = self.request("get", "--raw", "/readyz")
        is_hidden = messages.HIDDEN_FROM_USER.search(done.stderr)
        if done.returncode != 0 and not is_hidden:
            raise no_answer("it is not ready yet", hint="kubectl get --raw '/readyz?verbose'")

    def unready_or(self, error: MlpackError) -> MlpackError:
        """Return `error`, or an UnreachableError if the server is not ready and forbids even permitted requests."""
        if isinstance(error, DeniedError):
            try:
                self._require_ready()
            except UnreachableError as unready:
                return unready
        return error

    def get(self, what: str) -> dict[str, Any] | None:
        """Return the object `resource/name`; None if it does not exist. Raises the errors of `json`."""
        answer = self.json("get", what, "--ignore-not-found")
        return dict(answer) if answer else None

    def items(self, *what: str) -> list[dict[str, Any]]:
        """Return the objects that `kubectl get` lists for several `resource/name`, or for a resource and selectors."""
        answer = self.json("get", *what, "--ignore-not-found")
        if not answer:
            return []
        if not str(answer.get("kind")).endswith("List"):
            return [dict(answer)]
        return [dict(item) for item in listing(answer.get("items")) if isinstance(item, dict)]

    def raw(self, path: str) -> dict[str, Any] | None:
        """Return the API's response for `path`, such as `/apis/apps/v1`; None if it is missing."""
        done = self.request("get", "--raw", path)
        if done.returncode != 0:
            if messages.NO_OBJECT.search(done.stderr):
                return None
            raise error_from(done.stderr)
        return _object(done.stdout)

    def request(self, *arguments: str) -> process.Finished:
        """Run kubectl for a single request to the cluster, and return its exit code, which the caller has to check.

        Raises:
            UnreachableError: The cluster did not answer in time.
        """
        pinned = self._pinned()
        # With a timeout, kubectl does not look for the cluster of its pod (client-go, DeferredLoadingClientConfig).
        limit = () if pinned and pinned.is_of_pod else (f"--request-timeout={REQUEST_TIMEOUT:g}s",)
        try:
            done = self.run(*arguments, *limit, timeout=HANGING_SECONDS)
        except HungError as error:
            raise no_answer(str(error)) from None
        if done.returncode < 0:
            raise ClusterError(f"kubectl was ended by signal {-done.returncode} before it had a response")
        return done

    def start(
        self, *arguments: str, idle: Callable[[float], object] = lambda _seconds: None, keep_stdin_open: bool = False
    ) -> AbstractContextManager[process.Running]:
        """Start kubectl, whose output is read while it runs; see `process.stream` for the arguments."""
        command = self._command(*arguments)
        self.show(self.argv(*arguments))
        return self.runner.stream(command, idle=idle, keep_stdin_open=keep_stdin_open, variables=_ENVIRONMENT)

    def default_namespace(self) -> str:
        """Return the effective namespace: that of `-n`, else the context's, else `default`."""
        if self.namespace:
            return self.namespace
        pinned = self._pinned()
        assert pinned is not None, "each kubectl of a command has a connection"
        if pinned.namespace is None:
            raise no_cluster_error()
        return pinned.namespace


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise UnreachableError("the cluster's response was cut off") from None
    if not isinstance(value, dict):
        raise UnreachableError(f"the cluster's response is not an object, but {show(value)}")
    return value


_SECONDS = 60.0
"""The timeout in seconds for reading kubeconfigs, also from a network file system."""

_POD_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The folder with the token and the namespace of a pod."""


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

    def pinned(self, run: Callable[..., Finished]) -> Pinned:
        """Return the cluster, as read in the first call."""
        if self._pinned is None:
            self._pinned = self._read(run)
        return self._pinned

    def _read(self, run: Callable[..., Finished]) -> Pinned:
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

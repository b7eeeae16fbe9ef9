"""Tests that a command uses one cluster, even if the current context changes while it runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager.base.process import Finished, Runner
from packager.cli.host import Host
from packager.kubernetes.kubectl import client as module
from packager.kubernetes.kubectl.client import Connection, Kubectl
from tests import kubectls

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from tests.conftest import Mlpack
    from tests.life import Life


def kubeconfig(**users: Any) -> str:
    """Return a kubeconfig with a context and a cluster for each user; the first context is the current one."""
    return json.dumps(
        {
            "clusters": [{"name": name, "cluster": {"server": f"https://{name}"}} for name in users],
            "contexts": [
                {"name": name, "context": {"cluster": name, "user": name, "namespace": f"team-{name}"}}
                for name in users
            ],
            "users": [{"name": name, "user": user} for name, user in users.items()],
            "current-context": next(iter(users)),
        }
    )


class Watched(Runner):
    """A fake cluster that changes the user's kubeconfig before the first command.

    Attributes:
        reached: For each command the server, the user's token and the namespace.
    """

    def __init__(self, life: Life, change: Callable[[], object]) -> None:
        self._life = life
        self._change = change
        self.reached = list[tuple[str, str, str]]()

    def run(self, argv: Sequence[str], **options: Any) -> Finished:
        if "view" in argv:
            return super().run([str(kubectls.kubectl()), *argv[1:]], **options)
        if argv[1] != "kustomize":
            self._watch(argv)
        return self._life.run(argv, **options)

    def stream(self, argv: Sequence[str], **options: Any) -> AbstractContextManager[Any]:
        self._watch(argv)
        return self._life.stream(argv, **options)

    def run_in_terminal(self, argv: Sequence[str], **options: Any) -> int:
        self._watch(argv)
        return self._life.run_in_terminal(argv, **options)

    def clock(self) -> float:
        return self._life.clock()

    def sleep(self, seconds: float) -> None:
        self._life.sleep(seconds)

    def _watch(self, argv: Sequence[str]) -> None:
        if not self.reached:
            self._change()
        flags = dict(argument.removeprefix("--").partition("=")[::2] for argument in argv)
        config = yaml.safe_load(Path(flags.get("kubeconfig", os.environ["KUBECONFIG"])).read_text(encoding="utf-8"))
        name = flags.get("context", config["current-context"])
        context = next(entry["context"] for entry in config["contexts"] if entry["name"] == name)
        cluster = next(entry["cluster"] for entry in config["clusters"] if entry["name"] == context["cluster"])
        user = next(entry["user"] for entry in config["users"] if entry["name"] == context["user"])
        self.reached.append((cluster["server"], user["token"], flags.get("namespace", context["namespace"])))


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of the user's kubeconfig, which has the contexts a and b."""
    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig(a={"token": "of a"}, b={"token": "of b"}), encoding="utf-8")
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path


CHANGES: dict[str, Callable[[Path], object]] = {
    "use-context": lambda path: path.write_text(path.read_text().replace('text": "a"', 'text": "b"')),
    "another namespace": lambda path: path.write_text(path.read_text().replace("team-a", "team-b")),
}
VERBS = (
    ("deploy", "hello-mpi"),
    ("deploy", "hello-mpi", "--follow"),
)


CASES = [*((VERBS[0], change) for change in CHANGES), *((verb, "use-context") for verb in VERBS[1:])]


@pytest.mark.parametrize(
    ("verb", "change"), CASES, ids=[f"{' '.join(verb)}, {change}".replace("/", "-") for verb, change in CASES]
)
def test_command_keeps_its_cluster_when_kubeconfig_changes(
    mlpack: Mlpack, life: Life, config: Path, verb: tuple[str, ...], change: str
) -> None:
    life.moments = [life.start, life.end, life.end_pod]
    watched = Watched(life, lambda: CHANGES[change](config))
    mlpack.host = Host(watched)
    done = mlpack(*verb)
    assert len(watched.reached) > 1, done.stderr
    assert set(watched.reached) == {("https://a", "of a", "team-a")}


def test_verbose_commands_contain_cluster_options_of_user(mlpack: Mlpack, life: Life, config: Path) -> None:
    mlpack.host = Host(Watched(life, lambda: None))
    done = mlpack("status", "-v", "--context", "b", "--kubeconfig", config, "-n", "mine")
    where = f"--kubeconfig={config} --context=b --namespace=mine"
    lines = [line for line in done.stderr.splitlines() if line.startswith("+ ")]
    assert lines[0] == f"+ kubectl {where} config view --minify --output=json"
    assert len(lines) > 1
    assert all(line.startswith(f"+ kubectl {where} ") for line in lines)


def test_connection_uses_service_account_in_pod_without_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `--request-timeout`, kubectl would not look for the pod's cluster."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    requests = list[tuple[str, ...]]()

    class Pod(Runner):
        def run(self, argv: Sequence[str], **options: Any) -> Finished:
            if "view" in argv:
                return super().run(argv, **options)
            requests.append(tuple(argv[1:]))
            return Finished(0, "{}", "")

    for namespace in (None, "mine"):
        kubectl = Kubectl(str(kubectls.kubectl()), namespace, runner=Pod(), connection=Connection("pods"))
        assert kubectl.default_namespace() == (namespace or "pods")
        kubectl.request("get", "pods")
    assert requests == [("--namespace=pods", "get", "pods"), ("--namespace=mine", "get", "pods")]


def test_connection_uses_namespace_of_pod_for_context_without_namespace(tmp_path: Path) -> None:
    config = json.loads(kubeconfig(a={}))
    del config["contexts"][0]["context"]["namespace"]
    path = tmp_path / "config"
    path.write_text(json.dumps(config), encoding="utf-8")
    for pod, namespace in (("pods", "pods"), (None, "default")):
        kubectl = Kubectl(str(kubectls.kubectl()), kubeconfig=str(path), connection=Connection(pod))
        assert kubectl.default_namespace() == namespace


@pytest.mark.parametrize(
    ("variables", "files", "namespace"),
    [
        ({}, {"token": "x", "namespace": "pods\n"}, "pods"),
        ({"POD_NAMESPACE": "others"}, {"token": "x", "namespace": "pods"}, "others"),
        ({}, {"token": "x"}, "default"),
        ({"POD_NAMESPACE": "others"}, {"namespace": "pods"}, None),
        ({"KUBERNETES_SERVICE_HOST": ""}, {"token": "x", "namespace": "pods"}, None),
    ],
)
def test_namespace_of_pod_is_in_its_variables_and_files(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    files: dict[str, str],
    namespace: str | None,
) -> None:
    monkeypatch.setattr(module, "_POD_ACCOUNT", tmp_path)
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    assert module.pod_namespace({**pod, **variables}) == namespace


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "current-context: x",
    ],
)
def test_status_names_invalid_kubeconfig(mlpack: Mlpack, life: Life, config: Path, content: str) -> None:
    config.write_text(content, encoding="utf-8")
    mlpack.host = Host(Watched(life, lambda: None))
    done = mlpack("status")
    assert (done.code, done.stdout) in ((7, ""), (2, ""))
    assert str(config) in done.stderr or "context 'x' not found in the kubeconfig" in done.stderr

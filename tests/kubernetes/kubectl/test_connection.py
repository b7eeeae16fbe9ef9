"""Tests that a command uses one cluster, even if the kubeconfig changes while it runs."""

from __future__ import annotations

import json
import os
import stat
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager.base.runner import Runner
from packager.cli.host import Host
from packager.kubernetes.kubectl import connection as module
from packager.kubernetes.kubectl.client import Kubectl
from packager.kubernetes.kubectl.connection import Connection, PodAccount
from tests import kubectls
from tests.life import POD, at_a_terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from packager.base.process import Finished
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
    """A fake cluster that changes the user's kubeconfig before each command.

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
    "removed": lambda path: path.unlink(missing_ok=True),
    "garbage": lambda path: path.write_text("{"),
    "replaced": lambda path: path.write_text(path.read_text().replace("https://a", "https://b").replace("of a", "x")),
    "another namespace": lambda path: path.write_text(path.read_text().replace("team-a", "team-b")),
}
VERBS = (
    ("deploy", "hello-mpi"),
    ("deploy", "hello-mpi", "--follow"),
    ("run", "hello-mpi"),
    ("logs", "hello-mpi"),
    ("doctor", "hello-mpi"),
    ("workspace", "ls", "hello-mpi", "--folder", "/ROOT/hello-mpi/output"),
    ("operator", "status", "mpi"),
)


CASES = [*((VERBS[0], change) for change in CHANGES), *((verb, "use-context") for verb in VERBS[1:])]


@pytest.mark.parametrize(
    ("verb", "change"), CASES, ids=[f"{' '.join(verb)}, {change}".replace("/", "-") for verb, change in CASES]
)
def test_command_keeps_its_cluster_when_kubeconfig_changes(
    mlpack: Mlpack, life: Life, config: Path, verb: tuple[str, ...], change: str
) -> None:
    if verb[0] not in ("deploy", "run"):
        life.deploy()
        life.start()
    if verb[0] == "workspace":
        on_claim = json.dumps(life.overlays).replace('"emptyDir": {}', '"persistentVolumeClaim": {"claimName": "disk"}')
        life.overlays = json.loads(on_claim)
    life.moments = [life.start, life.end, life.end_pod]
    watched = Watched(life, lambda: CHANGES[change](config))
    mlpack.host = Host(watched)
    done = mlpack(*verb)
    assert len(watched.reached) > 1, done.stderr
    assert set(watched.reached) == {("https://a", "of a", "team-a")}


def test_deploy_keeps_its_cluster_when_context_changes_during_question(
    mlpack: Mlpack, life: Life, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, the pod would be deleted in the first cluster and deployed in the second one."""
    life.deploy("single-node")
    life.end_pod()
    life.moments = [lambda: None, lambda: None, life.end_pod]
    watched = Watched(life, lambda: CHANGES["use-context"](config))
    mlpack.host = Host(watched)
    at_a_terminal(monkeypatch, typed="y\n")
    done = mlpack("deploy", "hello-mpi", "--overlay", "single-node", "--no-wait")
    assert (done.code, "Delete it and deploy it again?" in done.stderr) == (0, True)
    assert any("delete --raw" in call and POD in call for call in life.calls)
    assert set(watched.reached) == {("https://a", "of a", "team-a")}


def test_verbose_commands_contain_cluster_options_of_user(mlpack: Mlpack, life: Life, config: Path) -> None:
    mlpack.host = Host(Watched(life, lambda: None))
    done = mlpack("history", "hello-mpi", "-v", "--context", "b", "--kubeconfig", config, "-n", "mine")
    where = f"--kubeconfig={config} --context=b --namespace=mine"
    lines = [line for line in done.stderr.splitlines() if line.startswith("+ ")]
    assert lines[0] == f"+ kubectl {where} config view --raw --output=json --minify"
    assert len(lines) > 1
    assert all(line.startswith(f"+ kubectl {where} ") for line in lines)


@pytest.fixture
def program(request: pytest.FixtureRequest) -> str:
    """The path of the kubectl of a version."""
    return str(kubectls.kubectl(getattr(request, "param", kubectls.DEFAULT)))


@pytest.fixture
def pinned(program: str) -> Iterator[Callable[..., Any]]:
    """A function that reads kubeconfigs, and returns kubectl's options and the private kubeconfig."""
    with ExitStack() as stack:

        def read(*files: Path, **options: Any) -> tuple[list[str], Any]:
            connection = stack.enter_context(Connection(files, is_explicit="kubeconfig" in options))
            flags = list(connection.pinned(Kubectl(program, **options).run).flags)
            path = flags[0].removeprefix("--kubeconfig=")
            return flags, json.loads(Path(path).read_text())

        yield read


def test_private_kubeconfig_is_readable_only_by_user_and_deleted_at_end(program: str, config: Path) -> None:
    with Connection([config], is_explicit=False) as connection:
        kubectl = Kubectl(program, connection=connection)
        assert kubectl.default_namespace() == "team-a"
        (flag,) = connection.pinned(kubectl.run).flags
        path = Path(flag.removeprefix("--kubeconfig="))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700
        assert json.loads(path.read_text())["users"] == [{"name": "a", "user": {"token": "of a"}}]
        assert kubectl.run("config", "current-context").stdout == "a\n"
    assert not path.exists()
    assert not path.parent.parent.exists()


LOGIN = {"apiVersion": "client.authentication.k8s.io/v1", "command": "bin/login", "interactiveMode": "Never"}


@pytest.mark.parametrize("program", [kubectls.VERSIONS[0], kubectls.VERSIONS[-1]], indirect=True)
def test_private_kubeconfig_refers_to_credential_files_by_absolute_path(
    pinned: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path is relative to the kubeconfig that contains it, also if several are merged."""
    first, second = tmp_path / "one/config", tmp_path / "two/config"
    first.parent.mkdir()
    second.parent.mkdir()
    files = {"client-certificate": "me.crt", "client-key": "/keys/me.key", "tokenFile": "../token"}
    first.write_text(kubeconfig(a={"tokenFile": "other"}), encoding="utf-8")
    second.write_text(kubeconfig(b={**files, "exec": LOGIN}, a={"tokenFile": "../token"}), encoding="utf-8")
    monkeypatch.setenv("KUBECONFIG", f"{first}:{tmp_path}/absent:{second}")
    _, config = pinned(first, tmp_path / "absent", second, context="b")
    (user,) = config["users"]
    assert (config["current-context"], user["name"]) == ("b", "b")
    assert {key: user["user"][key] for key in files} == {
        "client-certificate": f"{second.parent}/me.crt",
        "client-key": "/keys/me.key",
        "tokenFile": f"{second.parent}/../token",
    }
    assert user["user"]["exec"]["command"] == f"{second.parent}/bin/login"
    _, config = pinned(first, tmp_path / "absent", second)
    assert config["users"] == [{"name": "a", "user": {"tokenFile": f"{first.parent}/other"}}]


def test_connection_uses_kubeconfig_of_user_for_refreshed_tokens(program: str, tmp_path: Path) -> None:
    path = tmp_path / "config"
    user = {"auth-provider": {"name": "oidc", "config": {"refresh-token": "used once"}}}
    path.write_text(kubeconfig(a=user, b={}), encoding="utf-8")
    with Connection([path], is_explicit=True) as connection:
        pinned = connection.pinned(Kubectl(program, kubeconfig=str(path)).run)
    names = ("--context=a", "--cluster=a", "--user=a", "--namespace=team-a")
    assert sorted(pinned.flags) == sorted([f"--kubeconfig={path}", *names])
    assert pinned.file is None


def test_connection_uses_service_account_in_pod_without_kubeconfig(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kubeconfig that is created later is ignored."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    with Connection([tmp_path / "absent"], is_explicit=False, pod=PodAccount("https://pod", "pods")) as connection:
        kubectl = Kubectl(program, connection=connection)
        assert kubectl.default_namespace() == "pods"
        (tmp_path / "absent").write_text(kubeconfig(a={}), encoding="utf-8")
        assert kubectl.default_namespace() == "pods"
        assert kubectl.run("config", "view", "-o", "jsonpath={..server}").stdout == "https://pod"


def test_connection_uses_namespace_of_pod_for_context_without_namespace(program: str, tmp_path: Path) -> None:
    config = json.loads(kubeconfig(a={}))
    del config["contexts"][0]["context"]["namespace"]
    (tmp_path / "config").write_text(json.dumps(config), encoding="utf-8")
    for pod, namespace in ((PodAccount("https://pod", "pods"), "pods"), (None, "default")):
        with Connection([tmp_path / "config"], is_explicit=True, pod=pod) as connection:
            kubectl = Kubectl(program, kubeconfig=str(tmp_path / "config"), connection=connection)
            assert kubectl.default_namespace() == namespace
            assert kubectl.run("config", "view", "--minify", "-o", "jsonpath={..namespace}").stdout == namespace


@pytest.mark.parametrize(
    ("variables", "files", "account"),
    [
        ({}, {"token": "x", "namespace": "pods\n"}, ("https://10.0.0.1:443", "pods")),
        ({"POD_NAMESPACE": "others"}, {"token": "x", "namespace": "pods"}, ("https://10.0.0.1:443", "others")),
        ({"KUBERNETES_SERVICE_HOST": "fd00::1"}, {"token": "x"}, ("https://[fd00::1]:443", "default")),
        ({"POD_NAMESPACE": "others"}, {"namespace": "pods"}, None),
        ({"KUBERNETES_SERVICE_HOST": ""}, {"token": "x", "namespace": "pods"}, None),
    ],
)
def test_pod_account_reads_variables_and_files_of_pod(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    files: dict[str, str],
    account: tuple[str, str] | None,
) -> None:
    monkeypatch.setattr(module, "_POD_ACCOUNT", tmp_path)
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    assert module.pod_account({**pod, **variables}) == (PodAccount(*account) if account else None)


def test_messages_omit_path_of_private_kubeconfig(config: Path) -> None:
    with Connection([config], is_explicit=False) as connection:
        kubectl = Kubectl(str(kubectls.kubectl()), connection=connection)
        (flag,) = connection.pinned(kubectl.run).flags
        Path(flag.removeprefix("--kubeconfig=")).write_text("{")
        done = kubectl.run("config", "current-context")
    assert done.returncode == 1
    assert "the kubeconfig" in done.stderr
    assert ".mlpack-" not in done.stderr


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "current-context: x",
    ],
)
def test_history_names_invalid_kubeconfig(mlpack: Mlpack, life: Life, config: Path, content: str) -> None:
    config.write_text(content, encoding="utf-8")
    mlpack.host = Host(Watched(life, lambda: None))
    done = mlpack("history", "hello-mpi")
    assert (done.code, done.stdout) in ((7, ""), (2, ""))
    assert str(config) in done.stderr or "context 'x' not found in the kubeconfig" in done.stderr

"""Fixtures of many tests: the command in this process, a kubectl, packages and a fake cluster; and skipped tests."""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from pytest_golden import plugin as golden
from pytest_golden import yaml as golden_yaml

from packager import cli
from packager.base import yamlio
from packager.base.process import Runner
from packager.cli.host import Host
from tests import demo, kubectls, renders, tools
from tests.life import Life

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from packager.base.problems import Problem

# The same examples in every run, so that failures are reproducible.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("repeatable")


def pytest_configure(config: pytest.Config) -> None:
    """Remove the hooks for passed assertions, which only the plugin for goldens needs, when it writes them.

    For these hooks, pytest formats each passed assertion with all its values, which takes half of the tests' time.
    """
    if not config.getoption("--update-goldens"):
        config.hook.pytest_assertion_pass._remove_plugin(golden)  # noqa: SLF001 - no public way to drop a single hook


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return the processes for `--numprocesses auto`: three for two processors, because many tests wait."""
    return (os.cpu_count() or 1) * 3 // 2


# The modules and tests are a million objects, which live to the end. Python would go through all of them again and
# again: a third of the time of the collection of tests, and a tenth of that of the tests.
gc.set_threshold(50_000, 20, 100)


def pytest_collection_finish() -> None:
    """Exclude the modules and the collected tests from garbage collection."""
    gc.collect()
    gc.freeze()


_MISSING = "missing tool"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Skip a test whose fixtures need a missing program."""
    with _skipping(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Skip a test that needs a missing program."""
    with _skipping(item):
        return (yield)


@contextmanager
def _skipping(item: pytest.Item) -> Iterator[None]:
    try:
        yield
    except tools.MissingToolError as error:
        item.user_properties.append((_MISSING, error.tool.name))  # the process that prints the report reads it
        pytest.skip(str(error))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """Print at the end of a run which tests were skipped, and the command that installs their programs."""
    yield
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None:  # a worker process
        return
    skipped = terminal.stats.get("skipped", [])
    for line in tools.left_out(
        value for report in skipped for name, value in report.user_properties if name == _MISSING
    ):
        terminal.write_line(line)


@dataclass(frozen=True)
class Outcome:
    """The exit code and the output of a run of the command."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


# Variables of the developer that would change the behaviour of the command, kubectl and typer.
_USERS = (
    *("KUBECTL", "MLPACK_SPECS", "MLPACK_SITE", "SOURCE_DATE_EPOCH", "NO_COLOR", "FORCE_COLOR"),
    *("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"),
)


@pytest.fixture(scope="module", autouse=True)
def _hidden_environment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Hide the developer's cluster and settings from tests that need no cluster."""
    if "e2e" in request.path.parts:
        yield
        return
    with pytest.MonkeyPatch.context() as environment:
        for name in _USERS:
            environment.delenv(name, raising=False)
        # Without this variable, kubectl reads ~/.kube/config.
        environment.setenv("KUBECONFIG", str(tmp_path_factory.getbasetemp() / "no-kubeconfig"))
        # Without this variable, mlpack reads ~/.config/mlpack/site.yaml.
        environment.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "no-config"))
        yield


@pytest.fixture(scope="session", autouse=True)
def _rendered_once() -> Iterator[None]:
    """Cache the output of the tests' kubectls for each package."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Runner, "run", renders.remembering(Runner.run))
        yield
    renders.prune()


@pytest.fixture(scope="session", autouse=True)
def _composed_once() -> Iterator[None]:
    """Keep the nodes of YAML files that were read last: most tests read the files of the same few packages."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(yamlio, "_compose", Composed(yamlio._compose))  # noqa: SLF001 - below what the tests test
        yield


class Composed:
    """The composer of `yamlio`, which keeps the nodes of MOST_BYTES of valid YAML."""

    MOST_BYTES = 1 << 20

    def __init__(self, compose: Callable[..., tuple[list[Any], list[Problem]]]) -> None:
        self._compose = compose
        self._roots: dict[tuple[object, ...], tuple[Any, ...]] = {}
        self._bytes = 0

    def __call__(
        self, text: bytes, name: str, max_bytes: int, parse: Callable[..., Any]
    ) -> tuple[list[Any], list[Problem]]:
        key = (text, max_bytes, parse.__code__, yamlio._Parser)  # noqa: SLF001
        if key in self._roots:
            return list(self._roots[key]), []
        roots, problems = self._compose(text, name, max_bytes, parse)
        if not problems and len(text) < self.MOST_BYTES / 10:
            if self._bytes > self.MOST_BYTES:
                self._roots.clear()
                self._bytes = 0
            self._roots[key] = tuple(roots)
            self._bytes += len(text)
        return roots, problems


class Mlpack:
    """Runs the command in this process.

    Attributes:
        host: The machine that the command runs on: this one, unless a test replaces it.
    """

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.host: Host | None = None

    def __call__(self, *arguments: str | Path) -> Outcome:
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            cli.main([str(argument) for argument in arguments], host=self.host)
        printed = self._capsys.readouterr()
        code = end.value.code
        assert isinstance(code, int)
        return Outcome(code, printed.out, printed.err)


@pytest.fixture
def mlpack(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Mlpack]:
    """The command in this process; the current folder is empty."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield Mlpack(capsys)
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def specs(tmp_path: Path) -> Path:
    """A folder with a valid and an invalid spec."""
    demo.write(tmp_path / "specs" / "demo", demo.changed("aliases: [trial]"))
    demo.write(tmp_path / "specs" / "wrong", demo.changed("name: demo => name: wrong", "kind: Pod => kind: Pood"))
    return tmp_path / "specs"


@pytest.fixture(scope="session")
def kubectl() -> Path:
    """The kubectl that renders overlays: the tests' own, or, on a machine without one, the developer's.

    Without any kubectl, tests that use this fixture fail.
    """
    try:
        return kubectls.kubectl()
    except kubectls.UnavailableError as error:
        path = shutil.which("kubectl")
        if path is None:
            pytest.fail(f"there is no kubectl: {error}")
        return Path(path)


@pytest.fixture(scope="session")
def hello_mpi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package hello-mpi as built; tests must not change it."""
    from tests.broken import build

    return build(tmp_path_factory.mktemp("package") / "hello-mpi", components=())


@pytest.fixture
def package(hello_mpi: Path, tmp_path: Path) -> Path:
    """A copy of the package hello-mpi as built, which the test may change."""
    return shutil.copytree(hello_mpi, tmp_path / "hello-mpi")


@pytest.fixture
def full_package(tmp_path: Path) -> Path:
    """The package hello-mpi with every option that fits, switched off, which the test may change."""
    from tests.broken import build

    return build(tmp_path / "hello-mpi")


@pytest.fixture
def life(mlpack: Mlpack, hello_mpi: Path, tmp_path: Path) -> Life:
    """A fake cluster that replaces every program; the package hello-mpi is in the current folder.

    Waiting takes no time.
    """
    shutil.copytree(hello_mpi, tmp_path / "hello-mpi")
    life = Life()
    mlpack.host = Host(life)
    return life


@pytest.fixture
def long_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep each name of a file in one line of an expected output, which is written after the test."""
    monkeypatch.setattr(golden_yaml._rt, "width", 120)  # noqa: SLF001 - there is no public way


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str]:
    """The files of a certificate for localhost, and of its key."""
    from cryptography import x509

    from tests.certificates import self_signed

    public, private = self_signed(x509.DNSName("localhost"))
    (tmp_path / "tls.crt").write_bytes(public)
    (tmp_path / "tls.key").write_bytes(private)
    return str(tmp_path / "tls.crt"), str(tmp_path / "tls.key")

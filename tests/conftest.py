"""What many tests use: the command in this process, a kubectl, and expected outputs that read well in a diff."""

from __future__ import annotations

import json
import shutil
import signal
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from pytest_golden import plugin as golden

from packager import cli
from packager.base.runner import Runner
from packager.cli.host import Host
from tests import demo, kubectls, renders, tools
from tests.life import Life

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

# The same examples in every run: a test that fails for one change fails for it again.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("repeatable")


def pytest_configure(config: pytest.Config) -> None:
    """Let no plugin hear of assertions that hold, but when goldens are written: only then does one do anything with it.

    For a plugin that listens, pytest spells out each of them with all its values: half of the tests' own time.
    """
    if not config.getoption("--update-goldens"):
        config.hook.pytest_assertion_pass._remove_plugin(golden)  # noqa: SLF001 - no public way to drop a single hook


_MISSING = "missing tool"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Skips a test whose fixtures need a program that is missing."""
    with _skipping(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Skips a test that needs a program that is missing."""
    with _skipping(item):
        return (yield)


@contextmanager
def _skipping(item: pytest.Item) -> Iterator[None]:
    try:
        yield
    except tools.MissingToolError as error:
        item.user_properties.append((_MISSING, error.tool.name))  # reaches the report of another process
        pytest.skip(str(error))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """Ends the output of a run with what was left out, and how to install what it needs."""
    yield
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None:  # one of several processes that run tests
        return
    skipped = terminal.stats.get("skipped", [])
    for line in tools.left_out(
        value for report in skipped for name, value in report.user_properties if name == _MISSING
    ):
        terminal.write_line(line)


@dataclass(frozen=True)
class Outcome:
    """How a run of the command ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


# What the command, kubectl and typer would take from whoever runs the tests.
_USERS = (
    *("KUBECTL", "MLPACK_SPECS", "SOURCE_DATE_EPOCH", "NO_COLOR", "FORCE_COLOR"),
    *("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"),
)


@pytest.fixture(scope="module", autouse=True)
def _nobodys_environment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Takes cluster and settings of whoever runs the tests away from all that need no cluster."""
    if "e2e" in request.path.parts:
        yield
        return
    with pytest.MonkeyPatch.context() as environment:
        for name in _USERS:
            environment.delenv(name, raising=False)
        # Without it, kubectl reads ~/.kube/config.
        environment.setenv("KUBECONFIG", str(tmp_path_factory.getbasetemp() / "no-kubeconfig"))
        yield


@pytest.fixture(scope="session", autouse=True)
def _rendered_once() -> Iterator[None]:
    """Keeps what the tests' kubectls have rendered the same packages to."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Runner, "run", renders.remembering(Runner.run))
        yield
    renders.prune()


class Mlpack:
    """The command in this process.

    Attributes:
        host: Where it runs: this machine, unless a test puts another in its place.
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
    """Runs the command in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield Mlpack(capsys)
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def specs(tmp_path: Path) -> Path:
    """A folder of specs: one good, one wrong."""
    demo.write(tmp_path / "specs" / "demo", demo.changed("aliases: [trial]"))
    demo.write(tmp_path / "specs" / "wrong", demo.changed("name: demo => name: wrong", "kind: Pod => kind: Pood"))
    return tmp_path / "specs"


@pytest.fixture(scope="session")
def kubectl() -> Path:
    """The kubectl that overlays are rendered with: the tests' own, or where there is none for this machine, the user's.

    Rendering is what these tests are about: without any kubectl they fail.
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
    """hello-mpi as delivered, for all tests to copy."""
    from tests.broken import build

    return build(tmp_path_factory.mktemp("package") / "hello-mpi")


@pytest.fixture
def package(hello_mpi: Path, tmp_path: Path) -> Path:
    """hello-mpi as delivered, in a folder of the test's own."""
    return shutil.copytree(hello_mpi, tmp_path / "hello-mpi")


@pytest.fixture
def life(mlpack: Mlpack, hello_mpi: Path, tmp_path: Path) -> Life:
    """A cluster that is made up, in the place of every program; hello-mpi is in the current folder.

    Waits take no time.
    """
    shutil.copytree(hello_mpi, tmp_path / "hello-mpi")
    life = Life()
    mlpack.host = Host(life)
    return life

"""What many tests use: the command in this process, a kubectl, and expected outputs that read well in a diff."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from pytest_golden import plugin as golden

from packager import cli, process
from tests import demo, kubectls
from tests.life import Life

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# The same examples in every run: a test that fails for one change fails for it again.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("repeatable")


def pytest_configure(config: pytest.Config) -> None:
    """Let no plugin hear of assertions that hold, but when goldens are written: only then does one do anything with it.

    For a plugin that listens, pytest spells out each of them with all its values: half of the tests' own time.
    """
    if not config.getoption("--update-goldens"):
        config.hook.pytest_assertion_pass._remove_plugin(golden)  # noqa: SLF001 - no public way to drop a single hook


@dataclass(frozen=True)
class Outcome:
    """How a run of the command ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


@pytest.fixture
def mlpack(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Callable[..., Outcome]]:
    """Runs the command in this process, in an empty folder, with nothing of the user's in its environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("MLPACK_SPECS", "SOURCE_DATE_EPOCH", "KUBECTL", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def run(*arguments: str | Path) -> Outcome:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["mlpack", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        said = capsys.readouterr()
        code = end.value.code
        assert isinstance(code, int)
        return Outcome(code, said.out, said.err)

    yield run
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
        found = shutil.which("kubectl")
        if found is None:
            pytest.fail(f"there is no kubectl: {error}")
        return Path(found)


@pytest.fixture(scope="session")
def hello_mpi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """hello-mpi as delivered, for all tests to copy."""
    from tests.broken import build

    return build(tmp_path_factory.mktemp("package") / "hello-mpi")


@pytest.fixture
def life(mlpack: Callable[..., Outcome], hello_mpi: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Life:
    """A cluster that is made up, in the place of every program; hello-mpi is in the current folder.

    Waits take no time.
    """
    assert callable(mlpack)
    shutil.copytree(hello_mpi, tmp_path / "hello-mpi")
    life = Life()
    monkeypatch.setattr("packager.kubectl.run", life.run)  # first: what it imports by name is the real one then
    monkeypatch.setattr(process, "run", life.run)
    monkeypatch.setattr(process, "stream", life.stream)
    monkeypatch.setattr(process, "attached", life.attach)
    monkeypatch.setattr("packager.cluster.follow.EVERY", 0.0)
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    return life

"""The programs of model_specs/ as a container has them: modules of one flat folder. No TensorFlow, no MPI."""

import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import FileFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

SPECS = Path(__file__).parents[2] / "model_specs"


class _Uncached(SourceFileLoader):
    """Loads a module without caching its bytecode: its folder is shipped, and an image is built from it."""

    def set_data(self, path: str, data: Any, *, _mode: int = 0o666) -> None:
        pass


def _find_in_specs(path: str) -> FileFinder:
    if not Path(path).is_relative_to(SPECS):
        raise ImportError(path)
    return FileFinder(path, (_Uncached, [".py"]))


sys.path_hooks.insert(0, _find_in_specs)
sys.path.insert(0, str(SPECS / "resnet50"))


@pytest.fixture(scope="session")
def specs() -> Path:
    return SPECS


def load_module(model: str, name: str) -> ModuleType:
    """Return a module of a model, beside those of other models that have the same name."""
    loader = _Uncached(f"{model}_{name}", str(SPECS / model / f"{name}.py"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # a dataclass looks there for its own
    loader.exec_module(module)
    return module


def load_settings(model: str) -> ModuleType:
    """Return the module `settings` of a model."""
    return load_module(model, "settings")


@pytest.fixture
def fake_mpi(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The module that `from mpi4py import MPI` imports."""
    mpi = SimpleNamespace(IN_PLACE=object(), Get_library_version=lambda: "Open MPI v4.1.4, package: Debian")
    module = ModuleType("mpi4py")
    module.__dict__["MPI"] = mpi
    monkeypatch.setitem(sys.modules, "mpi4py", module)
    return mpi


@pytest.fixture
def on_ranks(fake_mpi: SimpleNamespace) -> Callable[..., list[Any]]:
    """Runs a function of a Ranks on each of several threads, and returns their results or exceptions."""
    ranks = importlib.import_module("ranks")

    def run(size: int, function: Callable[[Any], Any]) -> list[Any]:
        world = SimpleNamespace(values=[None] * size, barrier=threading.Barrier(size), in_place=fake_mpi.IN_PLACE)

        def one(rank: int) -> Any:
            try:
                return function(ranks.Ranks(rank, size, Communicator(rank, size, world)))
            except ranks.JobError as error:
                return error

        with ThreadPoolExecutor(size) as threads:
            return list(threads.map(one, range(size)))

    return run


class Communicator:
    """The methods of MPI's communicator that the programs use, for ranks that are threads of one process."""

    def __init__(self, rank: int, size: int, world: SimpleNamespace) -> None:
        self._rank, self._size, self._world = rank, size, world
        self.aborted: int | None = None

    def Get_rank(self) -> int:  # noqa: N802 - the names are MPI's
        return self._rank

    def Get_size(self) -> int:  # noqa: N802
        return self._size

    def allgather(self, value: Any) -> list[Any]:
        self._world.values[self._rank] = value
        self.Barrier()
        values = list(self._world.values)
        self.Barrier()
        return values

    def bcast(self, value: Any) -> Any:
        return self.allgather(value)[0]

    def Bcast(self, array: Any) -> None:  # noqa: N802
        array[...] = self.allgather(array.copy())[0]

    def Allreduce(self, in_place: Any, array: Any) -> None:  # noqa: N802
        assert in_place is self._world.in_place
        array[...] = sum(self.allgather(array.copy()))

    def Barrier(self) -> None:  # noqa: N802
        self._world.barrier.wait(timeout=300)

    def Abort(self, status: int) -> None:  # noqa: N802
        self.aborted = status

"""The fuzzer itself: a few inputs of it in every run, and that it notices what it is there for."""

from __future__ import annotations

import tempfile
from random import Random
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from tests.fuzz.demands import broken
from tests.fuzz.inputs import Input, Seeds, make

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Seeds:
    return Seeds(tmp_path_factory.mktemp("seeds") / "work")


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    folder, temporary = tmp_path / "input", tmp_path / "tmp"
    folder.mkdir()
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    return folder, temporary


@pytest.mark.parametrize("number", range(30))
def test_an_input_ends_well_or_with_an_error_of_ours(number: int, seeds: Seeds, places: tuple[Path, Path]) -> None:
    tried = make(Random(f"every run:{number}"), seeds, places[0])
    assert broken(tried, *places)[0] is None


def test_the_same_seed_makes_the_same_input(seeds: Seeds, tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        folder = tmp_path / name / "input"
        folder.mkdir(parents=True)
        argv = make(Random("a:1"), seeds, folder).argv
        content = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        made.append(([word.replace(str(folder), "") for word in argv], content))
    assert made[0] == made[1]


def test_a_traceback_is_noticed(places: tuple[Path, Path]) -> None:
    with mock.patch("packager.package.opened", side_effect=KeyError("planted")):
        demand, _ = broken(Input(["verify", str(places[0])], None), *places)
    assert demand is not None
    assert "planted" in demand


def test_a_file_outside_the_destination_is_noticed(places: tuple[Path, Path]) -> None:
    tried = Input(["init", "model", "-d", str(places[0])], places[0] / "elsewhere")
    (places[0] / "elsewhere").mkdir()
    assert broken(tried, *places)[0] == "something was written outside of the destination"


def test_a_package_by_half_is_noticed(places: tuple[Path, Path]) -> None:
    folder = places[0]
    (folder / "hello-mpi.tar.gz").write_bytes(b"half")
    demand, _ = broken(Input(["list"], folder), *places)
    assert demand is not None
    assert demand.startswith("hello-mpi.tar.gz was written, and cannot be opened")


def test_a_temporary_file_that_stays_is_noticed(places: tuple[Path, Path]) -> None:
    (places[1] / "left").touch()
    assert broken(Input(["version"], None), *places)[0] == "temporary files were left: ['left']"

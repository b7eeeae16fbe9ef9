import importlib
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

ranks = importlib.import_module("ranks")


def test_mpi_is_not_imported_without_a_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)  # importing it raises
    alone = ranks.Ranks.join({"PATH": "/usr/bin"})
    assert (alone.rank, alone.size, alone.gather("x"), alone.broadcast("x")) == (0, 1, ["x"], "x")


def test_launcher_requires_mpi4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(ranks.JobError, match="an MPI launcher started 2 ranks, but mpi4py does not load: "):
        ranks.Ranks.join({"PMI_SIZE": "2"})


def test_ranks_join_the_communicator_of_their_launcher(fake_mpi: SimpleNamespace) -> None:
    fake_mpi.COMM_WORLD = SimpleNamespace(Get_size=lambda: 1, Get_rank=lambda: 0)
    with pytest.raises(ranks.JobError) as caught:
        ranks.Ranks.join({"PMI_SIZE": "2"})
    assert str(caught.value) == (
        "an MPI launcher started 2 ranks, but mpi4py (Open MPI v4.1.4) sees 1: the launcher has to be of the same MPI"
    )
    fake_mpi.COMM_WORLD = SimpleNamespace(Get_size=lambda: 3, Get_rank=lambda: 2)
    joined = ranks.Ranks.join({"OMPI_COMM_WORLD_SIZE": "3"})
    assert (joined.rank, joined.size) == (2, 3)


def test_all_ranks_raise_the_problem_of_one(on_ranks: Callable[..., list[Any]]) -> None:
    errors = on_ranks(3, lambda own: own.agree("the disk is full" if own.rank == 1 else None))
    assert [type(error) for error in errors] == [ranks.AgreedError] * 3
    assert {str(error) for error in errors} == {"rank 1: the disk is full"}


def test_error_of_one_rank_names_the_rank_and_aborts_the_job(
    on_ranks: Callable[..., list[Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    def fail_on_rank_1(own: Any) -> int | None:
        if own.rank == 1:
            own.leave(ranks.JobError("no data"))
        aborted: int | None = own.comm.aborted
        return aborted

    assert on_ranks(2, fail_on_rank_1) == [None, 1]
    assert capsys.readouterr().err.startswith("ERROR: rank 1 on ")

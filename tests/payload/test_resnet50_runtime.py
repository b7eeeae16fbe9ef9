import importlib
import os
from pathlib import Path

import pytest

runtime = importlib.import_module("runtime")


@pytest.fixture(autouse=True)
def node_of_64_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


def test_ranks_share_processors_of_the_node_without_a_limit(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert runtime.count_threads(1, tmp_path) == 64
    assert runtime.count_threads(3, tmp_path) == 21
    assert runtime.count_threads(1, tmp_path / "no-cgroup") == 64


def test_threads_follow_cgroup_v2_limit(tmp_path: Path) -> None:
    for ranks, threads in ((1, 3), (2, 1), (9, 1)):
        (tmp_path / "cpu.max").write_text("250000 100000\n")
        assert runtime.count_threads(ranks, tmp_path) == threads


def test_threads_follow_omp_num_threads_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert runtime.count_threads(2, tmp_path) == 5

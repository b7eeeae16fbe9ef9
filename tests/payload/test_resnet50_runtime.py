import importlib
import os
from pathlib import Path

import pytest

runtime = importlib.import_module("runtime")


@pytest.fixture(autouse=True)
def node_of_64_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


def test_threads_follow_the_node_the_cgroup_and_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert runtime.count_threads(1, tmp_path) == 64
    assert runtime.count_threads(3, tmp_path) == 21
    assert runtime.count_threads(1, tmp_path / "no-cgroup") == 64
    for ranks, threads in ((1, 3), (2, 1), (9, 1)):
        (tmp_path / "cpu.max").write_text("250000 100000\n")
        assert runtime.count_threads(ranks, tmp_path) == threads
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert runtime.count_threads(2, tmp_path) == 5

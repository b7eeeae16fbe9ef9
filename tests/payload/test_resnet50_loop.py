import importlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

checkpoint, loop = importlib.import_module("checkpoint"), importlib.import_module("loop")
ranks, settings = importlib.import_module("ranks"), importlib.import_module("settings")

TARGETS = np.array([[1, 2, 3], [3, 4, 5]], np.float32)
"""The targets of the ranks, one each; the model learns their mean."""


class Replica:
    """A model of three weights, and one moving statistic that only its own images move."""

    parameters = 3

    def __init__(self, start: float = 0.0) -> None:
        self.weight = np.full(3, start, np.float32)
        self.statistic = np.zeros(1, np.float32)
        self.velocity = np.zeros(3, np.float32)

    def gradients(self, target: Any) -> Any:
        self.statistic += target.mean()
        difference = self.weight - target
        return np.append(difference, np.square(difference).mean()).astype(np.float32)

    def apply(self, gradients: Any, learning_rate: float) -> None:
        self.velocity = (self.velocity * np.float32(0.5) - gradients * np.float32(learning_rate)).astype(np.float32)
        self.weight = self.weight + self.velocity

    def weights(self) -> list[Any]:
        return [self.weight.copy(), self.statistic.copy()]

    def momentum(self) -> list[Any]:
        return [self.velocity.copy()]

    def restore(self, weights: list[Any], momentum: list[Any]) -> None:
        self.weight, self.statistic = (array.copy() for array in weights)
        self.velocity = momentum[0].copy()

    def average_statistics(self, average: Callable[[Any], None]) -> None:
        average(self.statistic)


def job(folder: Path, own: Any, **changes: Any) -> Any:
    read = settings.read_settings({"OUTPUT_DIR": str(folder), "STEPS": "8", "LEARNING_RATE": "6"})
    return loop.Job("fp32", replace(read, **changes), own)


def train(own_job: Any, replica: Replica, targets: Iterator[Any] | None = None, stop: Any = None) -> Any:
    """Train as train.py does, with a model that needs no TensorFlow."""
    saved = loop.load(own_job)
    first = own_job.ranks.broadcast(saved.step if saved else 0)
    loop.synchronise(own_job, replica, saved)
    batches = targets or itertools.repeat(TARGETS[own_job.ranks.rank])
    return loop.fit(own_job, replica, batches, first, stop or SimpleNamespace(requested=False))


def test_ranks_learn_the_mean_of_all_targets(tmp_path: Path, on_ranks: Callable[..., list[Any]]) -> None:
    replicas = [Replica(start=0.0), Replica(start=99.0)]
    first, second = on_ranks(2, lambda own: train(job(tmp_path, own, steps=60), replicas[own.rank]))
    assert first.digest == second.digest == checkpoint.digest(replicas[1].weights())
    assert first.step == 60
    np.testing.assert_allclose(replicas[0].weight, TARGETS.mean(axis=0), rtol=1e-2)
    assert checkpoint.digest(checkpoint.load(tmp_path).weights) == first.digest


def test_statistics_are_the_mean_of_all_ranks(tmp_path: Path, on_ranks: Callable[..., list[Any]]) -> None:
    on_ranks(2, lambda own: train(job(tmp_path, own), Replica()))
    assert checkpoint.load(tmp_path).weights[1] == [8 * TARGETS.mean()]


def test_resumed_run_ends_like_an_uninterrupted_one(tmp_path: Path, on_ranks: Callable[..., list[Any]]) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()

    def stop_at(step: int, stop: Any) -> Iterator[Any]:
        for number in itertools.count(1):
            stop.requested = number == step
            yield TARGETS[1]

    def interrupted(own: Any) -> Any:
        stop = SimpleNamespace(requested=False)
        return train(job(parts, own), Replica(), stop_at(5, stop) if own.rank == 1 else None, stop)

    uninterrupted = on_ranks(2, lambda own: train(job(whole, own), Replica()))
    assert [outcome.step for outcome in on_ranks(2, interrupted)] == [5, 5]  # both, though only one got the signal
    resumed = on_ranks(2, lambda own: train(job(parts, own), Replica(start=own.rank)))
    assert [outcome.digest for outcome in resumed] == [outcome.digest for outcome in uninterrupted]


def test_checkpoints_are_saved_every_few_steps_and_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []
    monkeypatch.setattr(checkpoint, "save", lambda _, saved: steps.append(saved.step))
    train(job(tmp_path, ranks.Ranks(), checkpoint_every=3), Replica(), itertools.repeat(TARGETS[0]))
    assert steps == [3, 6, 8]


def test_different_weights_stop_all_ranks(tmp_path: Path, on_ranks: Callable[..., list[Any]]) -> None:
    class Faulty(Replica):
        def apply(self, gradients: Any, learning_rate: float) -> None:
            super().apply(gradients, learning_rate)
            self.weight[2] = np.nextafter(self.weight[2], np.float32(99))

    errors = on_ranks(2, lambda own: train(job(tmp_path, own), (Replica, Faulty)[own.rank]()))
    assert [type(error) for error in errors] == [ranks.AgreedError] * 2
    assert str(errors[0]).startswith(
        "the ranks have different weights after step 8, which was not saved: rank 0 sha256:"
    )
    assert not list(tmp_path.iterdir())


def test_loss_that_is_not_finite_stops_all_ranks(tmp_path: Path, on_ranks: Callable[..., list[Any]]) -> None:
    value = np.nan
    bad = np.array([1, value, 3], np.float32)
    targets = {0: None, 1: iter([TARGETS[1], TARGETS[1], bad])}
    errors = on_ranks(2, lambda own: train(job(tmp_path, own), Replica(), targets[own.rank]))
    assert [type(error) for error in errors] == [ranks.AgreedError] * 2
    assert str(errors[0]).startswith(f"the training diverged: step 3 has a loss of {value:g} ")
    assert not list(tmp_path.iterdir())


def test_unreadable_checkpoint_stops_all_ranks(tmp_path: Path, on_ranks: Callable[..., list[Any]]) -> None:
    (tmp_path / "checkpoint.npz").write_text("something else")
    errors = on_ranks(2, lambda own: train(job(tmp_path, own), Replica()))
    assert [type(error) for error in errors] == [ranks.AgreedError] * 2
    assert "rank 0: " in str(errors[1])


def test_learning_rate_warms_up_to_a_peak_and_falls(tmp_path: Path) -> None:
    read = job(tmp_path, None, steps=100, batch_size=64, learning_rate=0.1).settings
    rates = [loop.learning_rate(read, ranks=8, step=step) for step in range(1, 101)]
    assert max(rates) == rates[4] == pytest.approx(0.2)
    assert rates[:5] == sorted(rates[:5])
    assert rates[4:] == sorted(rates[4:], reverse=True)
    assert 0 < rates[-1] < 0.001
    assert loop.learning_rate(replace(read, steps=1), ranks=8, step=1) == pytest.approx(0.2)

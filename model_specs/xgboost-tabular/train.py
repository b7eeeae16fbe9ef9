#!/usr/bin/env python3
"""Train boosted trees on a table, on all workers that the JobSet starts, or on a single one.

It reads its settings from mlops.env (settings.py lists them), and prints a line of JSON for each round that it reports.
SIGTERM ends it after a checkpoint, from which the next run resumes.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import NoReturn

import numpy as np
from xgboost import Booster, DMatrix, collective
from xgboost.core import XGBoostError

from checkpoints import CheckpointError, export, newest, save
from sample import write_sample
from settings import Settings, SettingsError, read_settings, require_writable
from stopping import EXIT_STATUS, Stop
from table import DESCRIPTION, Table, TableError, read_table
from workers import LostWorkerError, Workers, print_line

_HELD_OUT = 5  # one row in as many is for the evaluation
_OTHERS_STOP_SECONDS = 60


class Training:
    """The trees that all workers have, and the rows of this one."""

    def __init__(self, settings: Settings, workers: Workers, table: Table, saved: bytes) -> None:
        """Take every n-th row, and continue from what the first worker has saved.

        Raises:
            CheckpointError: That is a model of another table.
        """
        self.settings, self.workers = settings, workers
        numbers = np.arange(len(table.targets))
        is_held_out = numbers % _HELD_OUT == 0
        self.training = self._rows(table, numbers[~is_held_out])
        self.held_out = self._rows(table, numbers[is_held_out])
        saved = collective.broadcast(saved, 0)
        self.booster = Booster(_parameters(settings, table), [self.training, self.held_out], bytearray(saved) or None)
        classes = json.dumps(table.classes)
        if saved and (tuple(self.booster.feature_names), self.booster.attr("classes")) != (table.features, classes):
            raise CheckpointError(f"{settings.output_dir} has checkpoints of another table: set another OUTPUT_DIR")
        self.booster.set_attr(classes=classes)

    def _rows(self, table: Table, numbers: np.ndarray) -> DMatrix:
        mine = numbers[self.workers.rank :: self.workers.size]
        names, threads = list(table.features), self.settings.threads
        return DMatrix(table.values[mine], table.targets[mine], feature_names=names, nthread=threads)

    @property
    def round(self) -> int:
        """The number of rounds taken."""
        return int(self.booster.num_boosted_rounds())

    def run(self, stop: Stop) -> bool:
        """Take the remaining rounds; return False if SIGTERM has stopped any worker before the last one."""
        settings, workers = self.settings, self.workers
        first, started = self.round, time.monotonic()
        while self.round < settings.rounds:
            self.booster.update(self.training, self.round)
            # All workers decide by the same numbers, so they decide alike, after the same round.
            is_stopping = workers.any(stop.requested.is_set())
            is_last = is_stopping or self.round == settings.rounds
            if is_last or self.round % settings.log_every == 0:
                speed = (self.round - first) / max(time.monotonic() - started, 1e-9)
                line = {"round": self.round, **self.scores(), "rounds_per_second": round(speed, 1)}
                workers.say(json.dumps(line))
            if workers.rank == 0 and (is_last or self.round % settings.checkpoint_every == 0):
                save(settings.output_dir, self.booster)
            if is_stopping:
                break
        return self.round >= settings.rounds

    def scores(self) -> dict[str, float]:
        """Return the loss and the error on the rows of all workers, for training and held out."""
        text = self.booster.eval_set([(self.training, "training"), (self.held_out, "held_out")], self.round)
        scores = (score.rsplit(":", 1) for score in text.split("\t")[1:])
        return {name.replace("-", "_"): round(float(value), 5) for name, value in scores}


def _parameters(settings: Settings, table: Table) -> dict[str, object]:
    """Return XGBoost's parameters: the objective follows from the target."""
    parameters: dict[str, object] = {
        "max_depth": settings.max_depth,
        "learning_rate": settings.learning_rate,
        "nthread": settings.threads,
        "tree_method": "hist",
    }
    match len(table.classes):
        case 0:
            return parameters | {"objective": "reg:squarederror", "eval_metric": ["mae", "rmse"]}
        case 2:
            return parameters | {"objective": "binary:logistic", "eval_metric": ["error", "logloss"]}
        case number:
            metrics = ["merror", "mlogloss"]
            return parameters | {"objective": "multi:softprob", "num_class": number, "eval_metric": metrics}


def main() -> int:
    """Run the program; return 0 when done and 143 when stopped by SIGTERM, or end with 1 when refused or failed."""
    stop = Stop()
    try:
        return train(stop)
    except (SettingsError, TableError, CheckpointError, LostWorkerError, OSError) as error:
        fail(str(error))
    except XGBoostError as error:
        reasons = " ".join(re.findall(r"^- \[.*?\]: (.*)", str(error), flags=re.MULTILINE))
        fail(f"XGBoost: {reasons or error} (if a worker is gone, its log says why)")


def fail(problem: str) -> NoReturn:
    """Print a problem, and end the process.

    XGBoost's own threads would crash if Python cleaned up while they wait for other workers.
    """
    sys.stderr.write("".join(f"ERROR: {line}\n" for line in problem.splitlines()))
    sys.stderr.flush()
    os._exit(1)


def train(stop: Stop) -> int:
    """Take the remaining rounds, write the model, and print a summary as one line of JSON.

    Raises:
        SettingsError: A setting is wrong.
        TableError: The table is not as described, or the workers have different ones.
        CheckpointError: The newest checkpoint cannot be used.
        LostWorkerError: The workers cannot connect.
        OSError: A checkpoint or the model cannot be written.
        XGBoostError: A worker is gone.
    """
    settings = read_settings(os.environ)
    table = find_table(settings)
    is_first = os.environ.get("DMLC_TASK_ID", "0") == "0"
    saved = b""
    if is_first:  # no other worker reads or writes OUTPUT_DIR
        require_writable(settings.output_dir)
        saved = newest(settings.output_dir)
    workers = Workers.join()
    host = socket.gethostname()
    print_line(f"worker {workers.rank} of {workers.size} on {host}: uid {os.getuid()}, gid {os.getgid()}")
    if collective.broadcast(table.digest, 0) != table.digest:
        raise TableError("the workers read different tables: DATASET_DIR must have the same files on all nodes")
    stop.deferred = True
    training = Training(settings, workers, table, saved)
    first = training.round
    workers.say(f"table {table.name}: {len(table.targets)} rows, {len(table.features)} features")
    workers.say(f"{'resuming after' if first else 'starting at'} round {first} of {settings.rounds}")
    if not training.run(stop):
        workers.leave()
        workers.say(f"stopped by SIGTERM: round {training.round} is saved, and the next run resumes from it")
        # Kubernetes does not count a drain as a failure. If a worker that was not drained ended by itself, that would.
        stop.requested.wait(_OTHERS_STOP_SECONDS)
        return EXIT_STATUS
    result = {
        "model": "xgboost-tabular",
        "table": table.name,
        "workers": workers.size,
        "rounds": training.round,
        "resumed_from": first,
        **training.scores(),
    }
    if workers.rank == 0:
        result["output"] = str(export(settings.output_dir, training.booster, result))
    workers.leave()
    workers.say(json.dumps({**result, "uid": os.getuid(), "gid": os.getgid()}))
    return 0


def find_table(settings: Settings) -> Table:
    """Return the table in DATASET_DIR; the sample if DATASET_DIR has no table.

    Raises:
        TableError: The table is not as described.
    """
    if settings.dataset_dir and (settings.dataset_dir / DESCRIPTION).exists():
        return read_table(settings.dataset_dir, settings.target)
    with tempfile.TemporaryDirectory() as folder:
        write_sample(Path(folder))
        return read_table(Path(folder), settings.target)


if __name__ == "__main__":
    sys.exit(main())

"""TensorFlow's start: quiet, with as many threads as the container may use."""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def count_threads(ranks_here: int, cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the threads for one of the ranks that share this container; OMP_NUM_THREADS has the last word.

    By itself TensorFlow starts a thread for each core of the node. With a limit of 2 cores on a node of 64 that
    is slower than 2 threads, because the kernel halts all of them whenever the quota is used up.
    """
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    if wanted.isdecimal() and int(wanted) > 0:
        return int(wanted)
    cores = min(len(os.sched_getaffinity(0)), _quota(cgroup))
    return max(1, math.ceil(cores) // ranks_here)


def _quota(cgroup: Path) -> float:
    """Return the container's CPU limit in cores, from cgroup v2 or v1; infinity where there is none."""
    try:
        quota, period = (cgroup / "cpu.max").read_text().split()
    except OSError:
        try:
            quota, period = ((cgroup / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        except OSError:
            return math.inf
    return int(quota) / int(period) if quota.strip().isdecimal() else math.inf


def start_tensorflow(threads: int, precision: str, seed: int) -> None:
    """Import TensorFlow and set what has to be set before its first operation."""
    os.environ["KERAS_BACKEND"] = "tensorflow"
    with _quiet_import():
        import keras
        import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(min(2, threads))
    # bf16: layers compute in bfloat16, weights stay float32. Both have the same range of exponents, so the loss
    # need not be scaled as with float16.
    keras.mixed_precision.set_global_policy({"fp32": "float32", "bf16": "mixed_bfloat16"}[precision])
    keras.utils.set_random_seed(seed)


@contextlib.contextmanager
def _quiet_import() -> Iterator[None]:
    """Keep TensorFlow's remarks about the processor out of the log, unless TF_CPP_MIN_LOG_LEVEL is set.

    The variable alone would not do: what TensorFlow says while it loads comes before it has set up its
    logging. Errors of Python are printed later, so none is lost.
    """
    if "TF_CPP_MIN_LOG_LEVEL" in os.environ:
        yield
        return
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    stderr = os.dup(2)
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)

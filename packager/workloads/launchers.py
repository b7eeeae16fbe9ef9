"""Lists environment variables that torchrun, ps-lite and jax.distributed set.

Where `mlops.env` had a value for one that they set, it would be ignored, or two programs would disagree on the identity
of the processes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base.faults import Fault
from packager.base.problems import show
from packager.kubernetes.manifest import listing, mapping, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from packager.workloads.pods import Pods

# torch/distributed/elastic/agent/server/local_elastic_agent.py sets the others for each process, and
# torch/distributed/argparse_util.py reads PET_<FLAG> for every flag of torchrun.
_TORCH = frozenset(
    """
    MASTER_ADDR MASTER_PORT RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK
    ROLE_WORLD_SIZE
    """.split()  # noqa: SIM905 - a column of quoted words reads worse
)


TORCHRUN = "torchrun"
"""The program that starts the processes, as the first word of a command."""

ELASTIC_TORCHRUN = "/etc/mlpack/runtime/torchrun.sh"
"""The script that the option elastic starts in its place, with the same arguments."""

MEET = "/etc/mlpack/runtime/meet.sh"
"""The script that starts the program of a pod that has to connect to others; its first argument says which."""

PROCESSES = "PET_NPROC_PER_NODE"
"""The variable with the number of processes that torchrun starts in each pod."""

_PROCESSES_FLAG = "--nproc_per_node="
"""The beginning of torchrun's argument with this number, which replaces the variable."""

_PROCESS_NUMBER = "auto|cpu|gpu|xpu|[1-9][0-9]{0,3}"
"""The values that torchrun takes for a number of processes (torch/distributed/run.py: determine_local_world_size)."""


def without_meet(words: Sequence[str]) -> Sequence[str]:
    """Return a command without the script that starts it."""
    return words[2:] if words[:1] == [MEET] or words[:1] == (MEET,) else words


def says_processes(words: Iterable[str]) -> bool:
    """Return whether a command of torchrun contains the number of processes."""
    return any(word.startswith(_PROCESSES_FLAG) for word in words)


def torchrun_faults(pods: Pods) -> Iterator[Fault]:
    """Yield a fault for each number of processes in a command of torchrun, or its variable, that is invalid."""
    for location, container in pods.containers():
        words = [text(word) for word in listing(container.get("command"))]
        starts = [word.rpartition("/")[2] for word in without_meet(words)[:1]]
        is_torchrun = starts == [TORCHRUN] or starts == [ELASTIC_TORCHRUN.rpartition("/")[2]]
        for index, word in enumerate(words if is_torchrun else ()):
            number = word.removeprefix(_PROCESSES_FLAG)
            if word.startswith(_PROCESSES_FLAG) and not re.fullmatch(_PROCESS_NUMBER, number):
                message = f"expected a number of processes or 'auto', found {show(number)}"
                yield Fault((*location, "command", index), message)
        for index, variable in enumerate(map(mapping, listing(container.get("env")))):
            number = text(variable.get("value"))
            if variable.get("name") == PROCESSES and not re.fullmatch(_PROCESS_NUMBER, number):
                message = f"expected a number of processes, 'auto' or 'per-gpu', found {show(number)}"
                yield Fault((*location, "env", index, "value"), message)


def by_torchrun(key: str) -> str | None:
    """Return why `key` must not be set where torchrun starts the processes; None if it may be."""
    if key.startswith("PET_"):
        return "torchrun takes it for one of its own options, which the package gives"
    return "torchrun sets it for each process" if key in _TORCH else None


def by_dmlc(key: str) -> str | None:
    """Return why `key` must not be set where processes find each other by ps-lite; None if it may be."""
    if key.startswith("DMLC_") or key == "MX_CONFIG":
        return "the package sets such names, from the overlay's roles"
    # dmlc/ps-lite, src/van.cc.
    return "ps-lite takes it for the port that it listens at itself" if key == "PORT" else None


def by_tensorflow(key: str) -> str | None:
    """Return why `key` must not be set where tf.distribute connects the processes; None if it may be."""
    return "the package sets it, from the overlay's roles" if key in ("TF_CONFIG", "TF_TASK_INDEX") else None


def by_jax(key: str) -> str | None:
    """Return why `key` must not be set where processes find each other by jax.distributed; None if it may be."""
    # jax/_src/clusters and jax/_src/distributed.py.
    is_own = key in ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")
    return "the package sets it, from the overlay's roles" if is_own else None

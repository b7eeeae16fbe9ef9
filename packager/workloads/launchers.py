"""Lists environment variables that torchrun, mpirun, operators and others set, and reads commands of torchrun.

Where `mlops.env` had a value for one that they set, it would be ignored, or two programs would disagree on the identity
of the processes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base.problems import Fault, show
from packager.kubernetes.manifest import listing, mapping, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from packager.workloads.pods import Pods

INDEX_ANNOTATION = "batch.kubernetes.io/job-completion-index"
"""The annotation of a pod of an Indexed Job with its index (pkg/apis/batch: JobCompletionIndexAnnotation)."""

INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
"""The variable with the index, from Kubernetes 1.22 on (pkg/controller/job: addCompletionIndexEnvVariable)."""

LWS_VARIABLES = ("LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX")
"""The variables that LeaderWorkerSet adds to every container (v0.10, pkg/utils/pod: AddLWSVariables)."""

ADDED = {"index": (INDEX_VARIABLE,), "leaderworkerset": LWS_VARIABLES}
"""The variables that setters add to every container, and that the manifest does not contain."""

_FROM_ROLES = "the package sets it, from the overlay's roles"
_FOR_RANKS = "mpirun sets it for each rank"
_TO_WORKERS = "the launcher sets it, to reach the workers"

_RESERVED: dict[str, dict[str, str]] = {
    "index": {INDEX_VARIABLE: "Kubernetes sets it, to the pod's index"},
    "leaderworkerset": dict.fromkeys(LWS_VARIABLES, "LeaderWorkerSet sets it, in every container"),
    # torch/distributed/elastic/agent/server/local_elastic_agent.py sets these for each process, and
    # torch/distributed/argparse_util.py reads PET_<FLAG> for every flag of torchrun.
    "torchrun": {
        "PET_*": "torchrun takes it for one of its own options, which the package gives",
        **dict.fromkeys(
            """
            MASTER_ADDR MASTER_PORT RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK GROUP_RANK GROUP_WORLD_SIZE
            ROLE_RANK ROLE_WORLD_SIZE
            """.split(),  # noqa: SIM905 - a column of quoted words reads worse
            "torchrun sets it for each process",
        ),
    },
    "dmlc": {
        **dict.fromkeys(("DMLC_*", "MX_CONFIG"), "the package sets such names, from the overlay's roles"),
        "PORT": "ps-lite takes it for the port that it listens at itself",  # dmlc/ps-lite, src/van.cc
    },
    "tensorflow": dict.fromkeys(("TF_CONFIG", "TF_TASK_INDEX"), _FROM_ROLES),
    # jax/_src/clusters and jax/_src/distributed.py.
    "jax": dict.fromkeys(("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"), _FROM_ROLES),
    "mpi": {
        # Open MPI 4 and 5, PMIx, and the Hydra of MPICH and Intel.
        "OMPI_COMM_WORLD_*": _FOR_RANKS,
        "PMIX_RANK*": _FOR_RANKS,
        "PMIX_NAMESPACE*": _FOR_RANKS,
        "PMIX_SERVER_*": _FOR_RANKS,
        "PMI_*": _FOR_RANKS,
        "MPI_LOCAL*": _FOR_RANKS,
        # mpi-launcher.sh and mpi-operator (pkg/controller/mpi_job_controller.go).
        "OMPI_MCA_plm_rsh_a*": _TO_WORKERS,  # ..._agent and ..._args
        "OMPI_MCA_plm_rsh_no_tree_spawn*": _TO_WORKERS,
        "PRTE_MCA_plm_ssh_a*": _TO_WORKERS,
        "PRTE_MCA_plm_ssh_no_tree_spawn*": _TO_WORKERS,
        "OMPI_MCA_orte_default_hostfile*": _TO_WORKERS,
        "OMPI_MCA_orte_keep_fqdn_hostnames*": _TO_WORKERS,
        "HYDRA_HOST_FILE*": _TO_WORKERS,
        "HYDRA_LAUNCH*": _TO_WORKERS,
        "I_MPI_HYDRA_BOOTSTRAP*": _TO_WORKERS,
        "I_MPI_HYDRA_HOST_FILE*": _TO_WORKERS,
        "K_MPI_JOB_ROLE*": "mpi-operator sets it, to the pod's role",
    },
}
"""The variables that each setter sets, with the reason why no environment may; `*` ends a beginning of names."""


def reserved_by(key: str, *setters: str) -> str | None:
    """Return why the variable `key` must not be set where one of `setters` sets variables; None if it may be."""
    for setter in setters:
        for name, reason in _RESERVED[setter].items():
            if key == name or (name.endswith("*") and key.startswith(name[:-1])):
                return reason
    return None


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

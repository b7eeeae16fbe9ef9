"""Lists variables that only mpirun, mpi-operator or the launcher may set. Tests: workloads/test_launchers.py."""

from __future__ import annotations

_RANK = "mpirun sets it for each rank"
_LAUNCHER = "the launcher sets it, to reach the workers"

# Beginnings of names: OMPI_MCA_plm_rsh_a is for ..._agent and ..._args.
_PREFIXES = {
    # Open MPI 4 and 5, PMIx, and the Hydra of MPICH and Intel.
    "OMPI_COMM_WORLD_": _RANK,
    "PMIX_RANK": _RANK,
    "PMIX_NAMESPACE": _RANK,
    "PMIX_SERVER_": _RANK,
    "PMI_": _RANK,
    "MPI_LOCAL": _RANK,
    # mpi-launcher.sh and mpi-operator (pkg/controller/mpi_job_controller.go).
    "OMPI_MCA_plm_rsh_a": _LAUNCHER,
    "OMPI_MCA_plm_rsh_no_tree_spawn": _LAUNCHER,
    "PRTE_MCA_plm_ssh_a": _LAUNCHER,
    "PRTE_MCA_plm_ssh_no_tree_spawn": _LAUNCHER,
    "OMPI_MCA_orte_default_hostfile": _LAUNCHER,
    "OMPI_MCA_orte_keep_fqdn_hostnames": _LAUNCHER,
    "HYDRA_HOST_FILE": _LAUNCHER,
    "HYDRA_LAUNCH": _LAUNCHER,
    "I_MPI_HYDRA_BOOTSTRAP": _LAUNCHER,
    "I_MPI_HYDRA_HOST_FILE": _LAUNCHER,
    "K_MPI_JOB_ROLE": "mpi-operator sets it, to the pod's role",
}


def by_mpi(key: str) -> str | None:
    """Return why `key` must not be set for an MPIJob; None if it may be."""
    return next((reason for prefix, reason in _PREFIXES.items() if key.startswith(prefix)), None)

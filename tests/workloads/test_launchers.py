"""Variables that the kind of an overlay keeps for itself: refused where a package is verified or configured.

The messages about them in a spec are in golden/spec/reserved.yml.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from packager.workloads.program import reserved_by

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Mlpack = Callable[..., Outcome]

ENV = "quickstart/k8s/mlops/multi-node/mlops.env"


def test_reserved_names_are_refused_and_similar_ones_accepted() -> None:
    for setter, key in [
        ("dmlc", "DMLC_ROLE"),
        ("dmlc", "MX_CONFIG"),
        ("dmlc", "PORT"),
        ("torchrun", "PET_NNODES"),
        ("torchrun", "RANK"),
        ("mpi", "OMPI_MCA_plm_rsh_agent"),
        ("mpi", "HYDRA_LAUNCHER_EXEC"),
        ("mpi", "I_MPI_HYDRA_BOOTSTRAP"),
    ]:
        assert reserved_by(key, setter) is not None
        assert reserved_by(f"MY_{key}", setter) is None


def test_mpi_tuning_variables_are_accepted() -> None:
    for key in ["OMPI_MCA_btl", "OMPI_MCA_plm_base_verbose", "I_MPI_FABRICS", "OMP_NUM_THREADS"]:
        assert reserved_by(key, "mpi") is None


def test_variable_of_mpirun_is_refused_in_an_mpijob(
    mlpack: Mlpack, hello_mpi: Path, tmp_path: Path, kubectl: Path
) -> None:
    package = shutil.copytree(hello_mpi, tmp_path / "hello-mpi")
    done = mlpack("configure", package, "--set", "PMI_RANK=1")
    message = "error: --set PMI_RANK: it cannot be set for multi-node (MPIJob)\nhint: mpirun sets it for each rank\n"
    assert (done.code, done.stderr) == (2, message)
    with (package / ENV).open("a", encoding="utf-8") as file:
        file.write("PMI_RANK=1\n")
    line = len((package / ENV).read_text(encoding="utf-8").splitlines())
    done = mlpack("verify", package, "--kubectl", kubectl, "--allow", "variable:PMI_RANK")
    what = "data.PMI_RANK: it cannot be set for MPIJob hello-mpi-multi-node: mpirun sets it for each rank"
    assert done.code == 5
    assert done.stdout == f"{package}/{ENV}:{line}:1: ConfigMap hello-mpi-env-multi-node: {what}\n"

"""Operator of MPIJobs: mpi-operator. Tests: cluster/test_operator.py."""

from packager.workloads.operator import Operator

# The digest is that of deploy/v2beta1/mpi-operator.yaml in the module github.com/kubeflow/mpi-operator@v0.8.0; the
# lease's time is that of cmd/mpi-operator/app/server.go there.
MPI_OPERATOR = Operator(
    short="mpi",
    name="mpi-operator",
    deployment="mpi-operator",
    lease="mpi-operator",
    lease_seconds=15,
    version="v0.8.0",
    url="https://raw.githubusercontent.com/kubeflow/mpi-operator/v0.8.0/deploy/v2beta1/mpi-operator.yaml",
    sha256="b38def13a94abe60b2a4b3485239d77f64892b8fbd202e9e435a6031b7500a8f",
    kind="MPIJob",
    crd="mpijobs.kubeflow.org",
    api="kubeflow.org/v2beta1",
    edit_role="kubeflow-mpijobs-edit",
    rival="training-operator",
)

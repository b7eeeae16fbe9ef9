"""mlpack builds Kustomize packages of machine-learning workloads from model specs."""

__version__ = "0.2.0"

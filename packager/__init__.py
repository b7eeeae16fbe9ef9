"""mlpack: one model spec in, one Kustomize package out, any Kubernetes cluster."""

__version__ = "0.1.0"

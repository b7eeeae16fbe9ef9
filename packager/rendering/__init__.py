"""Reads the kustomizations of a package without kustomize, and renders its overlays with kubectl."""

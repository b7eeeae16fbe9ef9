"""Interprets Kubernetes' own objects, independent of workloads."""

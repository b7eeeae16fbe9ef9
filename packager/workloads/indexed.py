"""The index of a pod of an Indexed Job: its places, and the limit of indexes. Tests: workloads/job/test_array.py."""

from __future__ import annotations

ANNOTATION = "batch.kubernetes.io/job-completion-index"
"""The annotation of the pod that contains it (pkg/apis/batch: JobCompletionIndexAnnotation)."""

VARIABLE = "JOB_COMPLETION_INDEX"
"""The variable with the index, from Kubernetes 1.22 on (pkg/controller/job: addCompletionIndexEnvVariable)."""

BY_KUBERNETES = "Kubernetes sets it, to the pod's index"

MAX_PARALLELISM = 100_000
"""The number of pods that an array may run at a time (pkg/apis/batch/validation: maxParallelismForIndexedJob)."""

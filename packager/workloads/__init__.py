"""Contains one folder for each kind of workload; the union `AnyOverlay` lists all kinds.

The spec's types, its schema, its documentation and the templates follow from that union. What mlpack knows of a kind
follows from it too: the classes of the kind's name in the modules beside the type, `structure.py` of its manifests and
`life.py` of its life in a cluster. They are imported when they are asked for, so that a build does not pay for them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, get_args

from packager.workloads.deployment.values import Deployment
from packager.workloads.job.values import Job
from packager.workloads.jobset.values import JobSet
from packager.workloads.mpijob.values import MPIJob
from packager.workloads.pod.values import Pod

AnyOverlay = Pod | Job | MPIJob | JobSet | Deployment


def of_each_kind(module: str) -> dict[str, Any]:
    """Return an instance of the class that each kind has in `module` of its folder, by kind."""
    types = {kind.__name__: kind.__module__.rpartition(".")[0] for kind in get_args(AnyOverlay)}
    return {name: getattr(import_module(f"{types[name]}.{module}"), name)() for name in sorted(types)}

"""Contains one folder for each kind of workload; the union `AnyOverlay` lists all kinds.

The spec's types, its schema, its documentation and the templates follow from that union. What mlpack knows of a kind
follows from it too: the classes of the kind's name in the modules beside the type, `structure.py` of its manifests and
`life.py` of its life in a cluster. They are imported when they are asked for, so that a build does not pay for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, get_args

from packager.workloads.deployment.values import Deployment
from packager.workloads.job.values import Job
from packager.workloads.jobset.values import JobSet
from packager.workloads.mpijob.values import MPIJob
from packager.workloads.pod.values import Pod

if TYPE_CHECKING:
    from collections.abc import Iterator

AnyOverlay = Pod | Job | MPIJob | JobSet | Deployment


_FOLDERS = {kind.__name__: kind.__module__.rpartition(".")[0] for kind in get_args(AnyOverlay)}


class OfEachKind(Mapping[str, Any]):
    """By kind, an instance of the class that the kind has in a module of its folder.

    The module of a kind is imported when the instance is first asked for.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._instances: dict[str, Any] = {}

    def __getitem__(self, kind: str) -> Any:
        if kind not in self._instances:
            self._instances[kind] = getattr(import_module(f"{_FOLDERS[kind]}.{self._module}"), kind)()
        return self._instances[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(_FOLDERS))

    def __len__(self) -> int:
        return len(_FOLDERS)

"""The default variables of torchrun's processes in mlops.env."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from packager.base.fields import Parameter

if TYPE_CHECKING:
    from collections.abc import Mapping

# torchrun sets the first one itself, but only where a pod has several processes (torch/distributed/run.py). With a
# single one, PyTorch takes as many threads as the node has cores, whatever the pod may use of them.
DEFAULTS: Mapping[str, Parameter] = MappingProxyType(
    {
        "OMP_NUM_THREADS": Parameter(
            value=1, description="CPU threads of each process: at most the CPUs of a pod divided by its processes."
        ),
        "PYTHONUNBUFFERED": Parameter(
            value=1, description="Writes each line of Python's output to the log at once; if it is empty, later."
        ),
    }
)

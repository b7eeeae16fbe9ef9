"""Contains one folder for each kind of workload, of its name in lower case.

The union `AnyOverlay` of their types in a spec, in `modelspec/model.py`, lists all kinds: the schema, the documentation
and the templates follow from it. The other classes of the kind's name are in modules beside the type: `structure.py`
of its manifests and `life.py` of its life in a cluster. These are imported when they are asked for, so that a build
does not pay for the lives of kinds, nor `verify` for the types of specs.

Tests: workloads/test_pods.py.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

_FOLDERS = sorted(path.name for path in Path(__file__).parent.iterdir() if path.name.isalpha())


def of_each_kind(module: str) -> dict[str, Any]:
    """Return, by kind, an instance of the class of its name that the kind has in this module of its folder."""
    instances = {}
    for folder in _FOLDERS:
        classes = vars(import_module(f"{__name__}.{folder}.{module}")).items()
        name, its_class = next(item for item in classes if item[0].lower() == folder and isinstance(item[1], type))
        instances[name] = its_class()
    return instances

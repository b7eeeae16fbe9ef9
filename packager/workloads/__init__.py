"""Contains one folder for each kind of workload, of its name in lower case.

The union `AnyOverlay` of their types in a spec, in `anyoverlay.py`, lists all kinds: the schema, the documentation and
the templates follow from it. The other classes of the kind's name are in the modules beside the type, `structure.py` of
its manifests and `life.py` of its life in a cluster. Each module is imported when it is asked for, so that a build does
not pay for these two, nor `verify` for the types of specs.

Tests: workloads/test_pods.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_FOLDERS = frozenset(path.name for path in Path(__file__).parent.iterdir() if path.name.isalpha())


class OfEachKind(Mapping[str, Any]):
    """By kind, an instance of the class that the kind has in a module of its folder.

    The module of a kind is imported when the instance is first asked for.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._instances: dict[str, Any] = {}

    def __getitem__(self, kind: str) -> Any:
        if kind not in self._instances:
            if kind.lower() not in _FOLDERS or (its_class := self._class(kind.lower())).__name__ != kind:
                raise KeyError(kind)
            self._instances[kind] = its_class()
        return self._instances[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._class(folder).__name__ for folder in _FOLDERS))

    def __len__(self) -> int:
        return len(_FOLDERS)

    def _class(self, folder: str) -> type:
        names = vars(import_module(f"{__name__}.{folder}.{self._module}"))
        return next(value for name, value in names.items() if name.lower() == folder and isinstance(value, type))

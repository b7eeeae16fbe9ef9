"""Lists models, describes them, and returns the schema of their specs. Tests: cli/test_models.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.base.errors import SpecError
from packager.base.values import Value, as_plain
from packager.modelspec import catalog
from packager.modelspec.load import load
from packager.modelspec.schema import json_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from packager.modelspec.model import Spec


def model_folders(user_folders: Sequence[Path]) -> tuple[Path, ...]:
    """Return the folders that are searched for models: those of the user, then the bundled one."""
    return (*user_folders, catalog.bundled())


def spec_schema() -> dict[str, Any]:
    """Return the JSON Schema of a model spec, for editors."""
    return json_schema()


class Model(Value, frozen=True):
    """A model that can be built: the path of its spec, the loaded spec, and the title of its group or an empty text."""

    path: Path
    spec: Spec
    group: str = ""

    def summary_as_json(self) -> dict[str, Any]:
        """Return the entry of the model in a list of models, for `-o json`."""
        spec = self.spec
        return {
            "name": spec.name,
            "version": spec.version,
            "aliases": spec.aliases,
            "title": spec.title,
            "group": self.group or None,
            "path": str(self.path),
            "variants": [
                {
                    "precision": variant.precision,
                    "mode": variant.mode,
                    "package": spec.package_name(variant),
                    "overlays": variant.overlays or list(spec.overlays),
                }
                for variant in spec.variants
            ],
        }

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {"path": str(self.path), "spec": as_plain(self.spec)}


class InvalidModel(Value, frozen=True):
    """A model with an invalid spec: its path, and the problems."""

    path: Path
    error: SpecError

    def summary_as_json(self) -> dict[str, Any]:
        """Return the entry of the model in a list of models, for `-o json`."""
        return {"path": str(self.path), "error": self.error.as_json()}


def models(folders: Sequence[Path]) -> Iterator[Model | InvalidModel]:
    """Yield the models in `folders`: of each folder those without a group by name, then the groups in their order."""
    places = {
        folder / name: (number, place, group.title)
        for folder in folders
        for number, group in enumerate(catalog.groups(folder), 1)
        for place, name in enumerate(group.models)
    }
    paths = list(catalog.specs(folders))
    order = {folder: number for number, folder in enumerate(folders)}
    ungrouped = (0, 0, "")
    for path in sorted(paths, key=lambda path: (order[path.parent.parent], *places.get(path.parent, ungrouped)[:2])):
        try:
            loaded = load(path, may_mount=True)
            yield Model(loaded.path, loaded.spec, places.get(path.parent, ungrouped)[2])
        except SpecError as error:  # the other models are still listed
            yield InvalidModel(path, error)


def model(name: str, folders: Sequence[Path]) -> Model:
    """Return the model with this name, alias or path."""
    loaded = load(catalog.find(name, folders), may_mount=True)
    return Model(loaded.path, loaded.spec)

"""Finds the spec of a model, by path, name or alias in folders of specs; lists models, and checks their specs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from packager.base import paths, yamlio
from packager.base.errors import SpecError, ToolError, UsageError, reason
from packager.base.problems import Fault, Problem, listed, similar
from packager.base.values import Fields, Value, as_plain
from packager.modelspec import conversion, environments, programs
from packager.modelspec.load import load
from packager.package.layout import SPEC

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.base.process import Tell
    from packager.modelspec.model import Spec


GROUPS = "groups.yaml"
"""The file of a folder of models that says in which groups and order they are listed."""

_PACKAGER = Path(__file__).resolve().parent.parent


class ModelGroup(Fields, frozen=True):
    """Models that are listed together."""

    title: str  # the heading, such as "Language models"
    models: list[str]  # the names of their folders, in the order of the list; models of one folder follow each other


class _ModelGroups(Fields, frozen=True):
    """The content of `groups.yaml`."""

    groups: list[ModelGroup]


def bundled() -> Path:
    """Return the folder of the specs that come with mlpack: inside the wheel, or beside `packager/` in a clone."""
    inside = _PACKAGER / "model_specs"
    return inside if inside.is_dir() else _PACKAGER.parent / "model_specs"


def specs(folders: Sequence[Path]) -> Iterator[Path]:
    """Yield the specs of every model in `folders`, in order of folder, then name; of two with one name, the first.

    A model's folder has `spec.yaml`. Other models of the same files have their specs beside it, as `NAME.spec.yaml`.
    """
    seen: set[str] = set()
    for folder in folders:
        try:
            names = sorted(entry.name for entry in folder.iterdir())
        except OSError as error:
            raise UsageError(f"{folder}: {reason(error)}") from None
        for name in names:
            if name in seen:
                continue
            model = folder / name
            for path in (model / SPEC, *sorted(model.glob(f"*.{SPEC}"))):
                if _is_spec_file(path):
                    seen.add(name)
                    yield path


def groups(folder: Path) -> list[ModelGroup]:
    """Return the groups of the models in a folder; none without `groups.yaml`."""
    path = folder / GROUPS
    try:
        document, problems = yamlio.read(path)
    except OSError:
        return []
    settings, faults = conversion.read(document, _ModelGroups, lambda _: ())
    if problems or settings is None:
        raise SpecError(f"{path} is not a valid list of groups", problems=listed(problems or faults))
    return settings.groups


def find(model: str, folders: Sequence[Path]) -> Path:
    """Return the spec file of a path (with a slash, or ending in .yaml or .yml, or `.`), or of a name or an alias.

    The first of `folders` that has the name is used.
    """
    if "/" in model or model in (".", "..") or model.endswith((".yaml", ".yml")):
        path = Path(model)
        return path / SPEC if paths.is_folder(path) else path
    for folder in folders:
        path = folder / model / SPEC
        if _is_spec_file(path) and model in names(path):
            return path
    model_names: list[str] = []
    for path in specs(folders):
        spec_names = names(path)
        if model in spec_names:
            return path
        model_names.extend(spec_names)
    hint = similar(model, model_names) or "`mlpack list` shows the models"
    where = "; write a path with a slash: ./" + model if paths.exists(Path(model)) else ""
    raise UsageError(f"model {model!r} not found{where}", hint=hint)


def _is_spec_file(spec: Path) -> bool:
    try:
        return paths.is_file(spec)
    except ToolError:  # an unreadable folder must not hide the models beside it
        return False


def names(path: Path) -> list[str]:
    """Return the name and aliases in the spec at `path`; none when it cannot be read: `lint` says why."""
    try:
        data = yamlio.read(path)[0].data
    except OSError:
        return []
    if not isinstance(data, dict):
        return []
    aliases = data.get("aliases")
    return [
        name for name in [data.get("name"), *(aliases if isinstance(aliases, list) else [])] if isinstance(name, str)
    ]


def model_folders(user_folders: Sequence[Path]) -> tuple[Path, ...]:
    """Return the folders that are searched for models: those of the user, then the bundled one."""
    return (*user_folders, bundled())


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
        for number, group in enumerate(groups(folder), 1)
        for place, name in enumerate(group.models)
    }
    paths = list(specs(folders))
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
    loaded = load(find(name, folders), may_mount=True)
    return Model(loaded.path, loaded.spec)


class Lint(Value, frozen=True):
    """The problems of some specs."""

    problems: tuple[Problem, ...]  # the problems, each with its place
    warnings: tuple[Problem, ...] = ()  # valid values that may be mistakes

    @property
    def exit_code(self) -> int:
        """3 when there is a problem, else 0."""
        return SpecError.exit_code if self.problems else 0

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        problems = [problem.as_json() for problem in self.problems]
        warnings = [warning.as_json() for warning in self.warnings]
        return {"valid": not problems, "exit_code": self.exit_code, "problems": problems, "warnings": warnings}


def lint(models: Sequence[str], folders: Sequence[Path], *, tell: Tell) -> Lint:
    """Check specs."""
    problems: list[Problem] = []
    warnings: list[Problem] = []
    for model in models:
        path = find(model, folders)
        try:
            loaded = load(path, may_mount=True)
        except SpecError as error:
            unreadable = Problem(str(path), 0, 0, str(error).removeprefix(f"{path}: "), error.hint)
            problems.extend(error.problems or [unreadable])
            continue
        for omitted, note in loaded.sources.notes:
            tell(f"note: {loaded.path.parent / omitted} {note}")
        for overlay, values in loaded.spec.overlays.items():
            if values.unproven:
                tell(f"note: {path}: {overlay}: {values.unproven}")
        message = "a build refuses this download: the key 'sha256' is missing"
        hint = "`mlpack build` prints the digest of what is there now"
        faults = [*environments.warnings(loaded.spec), *programs.warnings(loaded.spec)]
        faults += [
            Fault(("downloads", index), message, hint)
            for index, download in enumerate(loaded.spec.downloads)
            if download.sha256 is None
        ]
        document, _ = yamlio.load(loaded.text, str(path))
        warnings.extend((*loaded.too_large, *(document.problem_of(fault) for fault in faults)))
    return Lint(tuple(problems), tuple(warnings))

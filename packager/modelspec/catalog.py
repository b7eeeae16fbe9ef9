"""Finds a model's spec: by path, or by name or alias in folders of specs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from packager.base import paths, yamlio
from packager.base.errors import ToolError, UsageError, reason
from packager.base.problems import similar
from packager.package.layout import SPEC

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PACKAGER = Path(__file__).resolve().parent.parent


def bundled() -> Path:
    """Return the folder of the specs that come with mlpack: inside the wheel, or beside `packager/` in a clone."""
    inside = _PACKAGER / "model_specs"
    return inside if inside.is_dir() else _PACKAGER.parent / "model_specs"


def specs(folders: Sequence[Path]) -> Iterator[Path]:
    """Yield the spec of every model in `folders`, in order of folder, then name; of two with one name, the first."""
    seen: set[str] = set()
    for folder in folders:
        try:
            names = sorted(entry.name for entry in folder.iterdir())
        except OSError as error:
            raise UsageError(f"{folder}: {reason(error)}") from None
        for name in names:
            path = folder / name / SPEC
            if name not in seen and _is_spec_file(path):
                seen.add(name)
                yield path


def find(model: str, folders: Sequence[Path]) -> Path:
    """Return the spec file that `model` means.

    Args:
        model: A path (it has a slash, ends in .yaml or .yml, or is `.`), or a name or alias.
        folders: The folders to search for names; the first one with the name is used.

    Raises:
        UsageError: No spec has that name; the message says which come close.
        ToolError: The path cannot be looked up.
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

"""Reads the tasks of a cube, with their programs and parameters.

Tests: modelspec/importers/mlcube/test_read.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.problems import show
from packager.base.values import Value
from packager.modelspec.importers.draft import named
from packager.modelspec.importers.mlcube import docker
from packager.modelspec.importers.mlcube.interpolation import PATH_SYMBOLS
from packager.modelspec.importers.mlcube.paths import PathError, Place, place, written
from packager.modelspec.importers.source import ForeignValue, ValueOrigin, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.modelspec.importers.mlcube.texts import Texts

_TYPES = ("file", "directory")


class CubeParameter(Value, frozen=True):
    """A parameter of a task.

    Attributes:
        name: The name of the parameter.
        is_input: Whether the task reads it.
        kind: `file` or `directory`; None if the cube does not specify it.
        place: The place of the parameter's path.
        read_only: Whether the task may only read the path.
        entry: The parameter's entry in the cube.
        origin: The origin of the path.
    """

    name: str
    is_input: bool
    kind: str | None
    place: Place
    read_only: bool
    entry: ForeignValue
    origin: ValueOrigin


class CubeTask(Value, frozen=True):
    """A task of a cube."""

    name: str
    overlay: str
    entry: ForeignValue
    entrypoint: list[str]
    parameters: tuple[CubeParameter, ...]


class TaskReader:
    """Reads the tasks of one cube.

    Args:
        root: The cube.
        texts: The texts of the cube.
        paths: Other paths of parameters, by `name` or `task.name`.
    """

    def __init__(self, root: ForeignValue, texts: Texts, paths: Mapping[str, str]) -> None:
        self._root = root
        self._texts = texts
        self._paths = paths

    def tasks(self, claim: str) -> dict[str, CubeTask]:
        """Return the tasks by name, for a claim that holds the workspace; problems are in the ledger."""
        listed = self._root.child("tasks")
        assert listed is not None
        read_only = self._read_only_inputs()
        result: dict[str, CubeTask] = {}
        overlays: dict[str, str] = {}
        for entry in listed.children():
            naming = named(entry.key, prefix="task")
            other = overlays.setdefault(naming.name, entry.key)
            if other != entry.key:
                entry.refuse(f"the tasks {other!r} and {entry.key!r} both become {naming.name!r}", "rename one of them")
            elif naming.changes:
                entry.source.ledger.findings.append(entry.problem(f"{entry.path} {naming.changes}", at_key=True))
            if entry.value is not None and not entry.is_mapping():
                continue
            entrypoint = self._texts.program(entry.child("entrypoint"), claim)
            words = docker.words(entrypoint) if entrypoint else []
            parameters = entry.at("parameters")
            own: list[CubeParameter] = []
            for direction in ("inputs", "outputs"):
                holder = parameters.child(direction) if parameters else None
                for parameter in holder.children() if holder else ():
                    is_input = direction == "inputs"
                    made = self._parameter(entry.key, parameter, is_input=is_input, read_only=read_only)
                    if made is not None:
                        own.append(made)
            result[entry.key] = CubeTask(entry.key, naming.name, entry, words, tuple(own))
        return result

    def _read_only_inputs(self) -> bool:
        for section in ("docker", "runner"):
            entry = self._root.at(section)
            option = entry.child("--mount_opts") if entry and isinstance(entry.value, dict) else None
            if option and option.text() == "ro":
                return True
        return False

    def _parameter(self, task: str, entry: ForeignValue, *, is_input: bool, read_only: bool) -> CubeParameter | None:
        path_entry: ForeignValue | None = entry if isinstance(entry.value, str | int | float) else None
        kind = None
        if isinstance(entry.value, dict):
            path_entry, type_entry = entry.child("default"), entry.child("type")
            kind = type_entry.text() if type_entry else None
            if type_entry and kind is not None and kind not in (*_TYPES, "unknown"):
                type_entry.refuse(f"expected file or directory, found {show(kind)}")
                return None
            read_only = _is_read_only(entry.child("opts"), is_input=is_input, default=read_only)
        elif path_entry is None and entry.value is not None:
            entry.refuse(f"expected a path, or a mapping with type and default, found {show(entry.value)}")
            return None
        text = self._texts.text(path_entry, PATH_SYMBOLS) if path_entry else entry.key
        origin = (path_entry or entry).origin
        for key in (entry.key, f"{task}.{entry.key}"):
            if key in self._paths:
                text = self._paths[key]
                origin = ValueOrigin(f"--param {printable(key)}")
        where = _place(path_entry or entry, text)
        if where is None:
            return None
        if where.is_outside:
            shown = show(printable(written(text or "")))
            message = f"({shown}) is outside of the workspace, and becomes {where.path} on the claim"
            entry.source.ledger.findings.append(entry.problem(f"{entry.path} {message}", at_key=True))
        path_kind = kind if kind in _TYPES else "directory" if where.is_folder else None
        return CubeParameter(entry.key, is_input, path_kind, where, is_input and read_only, entry, origin)


def _place(entry: ForeignValue, text: str | None) -> Place | None:
    """Return the place of a path; None, with a problem, if the path is not valid."""
    if text is None:
        return None
    try:
        return place(text)
    except PathError as error:
        entry.refuse(f"{error}, found {show(printable(written(text)))}")
        return None


def _is_read_only(options: ForeignValue | None, *, is_input: bool, default: bool) -> bool:
    text = options.text() if options else None
    if options is None or text is None:
        return default
    if text not in ("ro", "rw"):
        options.refuse(f"expected ro or rw, found {show(text)}")
    elif not is_input:
        options.leave("is not carried over: a task writes its outputs")
    return text == "ro"

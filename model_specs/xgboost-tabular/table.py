"""A table that a Croissant file describes (MLCommons, mlcommons.org/croissant/1.0), checked and read.

A small part of the format is enough for a table: one CSV file in the folder, with its sha256, and the type of each
column. No library is needed, so images stay small.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DESCRIPTION = "croissant.json"

_MOST_PROBLEMS = 20
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*")
_LARGEST = 3.4e38  # of a number of 32 bits


class TableError(Exception):
    """What is wrong with a table or its description, one line for each."""


@dataclass(frozen=True)
class Table:
    """The rows of a table, and what they mean.

    Attributes:
        name: The name of the data.
        features: The names of the features.
        values: A row for each record; NaN where a value is missing.
        classes: The names of the classes; empty where the target is a number.
        targets: The class's number, or the number, of each record.
        digest: A digest of all of it, the same for workers that read the same.
    """

    name: str
    features: tuple[str, ...]
    values: np.ndarray
    classes: tuple[str, ...]
    targets: np.ndarray
    digest: str


def read_table(folder: Path, target: str) -> Table:
    """Check and read the table in a folder.

    Args:
        folder: The folder of croissant.json and of the file that it describes.
        target: The column to predict.

    Raises:
        TableError: The description is invalid, or the file differs from it; the error lists up to 20 problems.
    """
    description = _description(folder / DESCRIPTION)
    file, types = _checked(description, folder / DESCRIPTION, target)
    path = folder / file["contentUrl"]
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TableError(f"{path}: {error.strerror}; {DESCRIPTION} names it as contentUrl") from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != file["sha256"]:
        raise TableError(f"{path}: expected the sha256 {file['sha256']} of {DESCRIPTION}, found {digest}")
    columns = _columns(path, content, types, target)
    features = tuple(name for name in types if name != target)
    values = np.array([columns[name] for name in features], dtype=np.float32).T
    numbers: dict[Any, int] = {}
    if types[target] != "sc:Float":
        numbers = {name: number for number, name in enumerate(sorted(set(columns[target])))}
        if len(numbers) < 2:
            raise TableError(f"{path}: expected two classes or more in {target!r}, found {len(numbers)}")
    targets = np.array([numbers[value] if numbers else value for value in columns[target]], dtype=np.float32)
    same = hashlib.sha256(f"{digest} {target} {types}".encode()).hexdigest()
    return Table(str(description.get("name", path.name)), features, values, tuple(map(str, numbers)), targets, same)


def _description(path: Path) -> dict[str, Any]:
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise TableError(f"{path}: expected a Croissant file in JSON: {error}") from error
    if not isinstance(description, dict):
        raise TableError(f"{path}: expected a JSON object")
    return description


def _checked(description: dict[str, Any], path: Path, target: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the description of the CSV file, and the type of each of its columns.

    Raises:
        TableError: Something is missing in the description, or not supported here.
    """
    problems: list[str] = []
    files = [file for file in _objects(description, "distribution") if file.get("encodingFormat") == "text/csv"]
    if len(files) != 1:
        problems.append(f"distribution: expected one file with the encodingFormat text/csv, found {len(files)}")
    for file in files:
        url, digest = file.get("contentUrl"), file.get("sha256")
        if not isinstance(url, str) or not _FILE.fullmatch(url):
            problems.append(f"distribution: contentUrl: expected the path of a file in this folder, found {url!r}")
        if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
            problems.append(f"distribution: sha256: expected 64 hexadecimal digits, found {digest!r}")
    records = _objects(description, "recordSet")
    if len(records) != 1:
        problems.append(f"recordSet: expected one, found {len(records)}")
    types = _types(_objects(records[0], "field") if records else [], target, problems)
    if target not in types or len(types) < 2:
        names = ", ".join(types) or "none"
        problems.append(f"recordSet: expected the column {target!r}, which TARGET names, and others, found {names}")
    _require_no_problems([f"{path}: {problem}" for problem in problems])
    return files[0], types


def _types(fields: list[dict[str, Any]], target: str, problems: list[str]) -> dict[str, str]:
    """Return the type of each column, and append what is wrong to the problems."""
    types: dict[str, str] = {}
    for number, field in enumerate(fields, 1):
        name, kind, place = _column(field), field.get("dataType"), f"recordSet: field {number}"
        supported = ["sc:Float", "sc:Integer", "sc:Boolean"] + ["sc:Text"] * (name == target)
        if name is None or name in types:
            problems.append(f"{place}: source.extract.column: expected the name of another column, found {name!r}")
        elif kind not in supported:
            problems.append(f"{place}: {name}: dataType: expected {', '.join(supported)}, found {kind!r}")
        types[str(name)] = str(kind)
    return types


def _objects(value: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the objects below a key: JSON-LD allows one in place of a list of one."""
    content = value.get(key, [])
    return [item for item in (content if isinstance(content, list) else [content]) if isinstance(item, dict)]


def _column(field: dict[str, Any]) -> str | None:
    source = field.get("source")
    extract = source.get("extract") if isinstance(source, dict) else None
    column = extract.get("column") if isinstance(extract, dict) else None
    return column if isinstance(column, str) and not set(column) & set("[]<") else None  # XGBoost refuses these


def _columns(path: Path, content: bytes, types: dict[str, str], target: str) -> dict[str, list[Any]]:
    """Return the values of each column.

    Raises:
        TableError: Columns are missing, or values have other types.
    """
    columns: dict[str, list[Any]] = {name: [] for name in types}
    problems: list[str] = []
    try:
        rows = csv.DictReader(io.StringIO(content.decode("utf-8"), newline=""), strict=True)
        header = rows.fieldnames or ()
        if missing := [name for name in types if name not in header]:
            raise TableError(f"{path}:1: expected the columns of {DESCRIPTION}, missing: {', '.join(missing)}")
        for row in rows:
            place = f"{path}:{rows.line_num}"
            if None in row or None in row.values():
                problems.append(f"{place}: expected {len(header)} values")
                continue
            for name, kind in types.items():
                try:
                    columns[name].append(_value(row[name], kind, is_needed=name == target))
                except ValueError:
                    problems.append(f"{place}: {name}: expected {kind}, found {row[name]!r}")
            if len(problems) >= _MOST_PROBLEMS:
                break
    except (UnicodeDecodeError, csv.Error) as error:
        raise TableError(f"{path}: expected a CSV file in UTF-8: {error}") from error
    _require_no_problems(problems)
    return columns


def _require_no_problems(problems: list[str]) -> None:
    if problems:
        raise TableError("\n".join(problems[:_MOST_PROBLEMS]))


def _value(text: str, kind: str, *, is_needed: bool) -> Any:
    """Return a value of a type of Croissant; NaN for an empty one that is not needed. Raises ValueError."""
    if not text and not is_needed:
        return math.nan
    value = _READERS[kind](text)
    if not value if kind == "sc:Text" else not abs(value) <= _LARGEST:  # not true of NaN either
        raise ValueError(text)
    return value


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


_READERS: dict[str, Callable[[str], Any]] = {
    "sc:Float": float,
    "sc:Integer": int,
    "sc:Boolean": _boolean,
    "sc:Text": str,
}

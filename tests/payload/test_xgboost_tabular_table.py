"""Tables that a Croissant file describes: read, or refused with the file and the cause."""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.payload.conftest import load_module

table = load_module("xgboost-tabular", "table")

ROWS = "size,count,ripe,kind,unused\n1.5,3,true,plum,x\n,4,False,pear,y\n2e3,-5,,plum,z\n"
TYPES = {"size": "sc:Float", "count": "sc:Integer", "ripe": "sc:Boolean", "kind": "sc:Text"}


def field(name: str, kind: str) -> dict[str, Any]:
    return {"name": name, "dataType": kind, "source": {"fileObject": {"@id": "a"}, "extract": {"column": name}}}


def write(folder: Path, rows: str = ROWS, types: dict[str, str] = TYPES, **file: object) -> Path:
    """Write a table and its description, in which keys of the file are replaced."""
    (folder / "fruit.csv").write_text(rows, encoding="utf-8", newline="")
    digest = hashlib.sha256(rows.encode()).hexdigest()
    described = {"encodingFormat": "text/csv", "contentUrl": "fruit.csv", "sha256": digest} | file
    fields = [field(name, kind) for name, kind in types.items()]
    description = {"name": "fruit", "distribution": [described], "recordSet": [{"field": fields}]}
    (folder / "croissant.json").write_text(json.dumps(description), encoding="utf-8")
    return folder


def problems(folder: Path, target: str = "kind") -> list[str]:
    with pytest.raises(table.TableError) as error:
        table.read_table(folder, target)
    return str(error.value).replace(f"{folder}/", "").splitlines()


def test_table_is_read_as_described(tmp_path: Path) -> None:
    read = table.read_table(write(tmp_path), "kind")
    assert (read.name, read.features, read.classes) == ("fruit", ("size", "count", "ripe"), ("pear", "plum"))
    assert read.targets.tolist() == [1, 0, 1]
    assert [[None if math.isnan(value) else value for value in row] for row in read.values.tolist()] == [
        [1.5, 3, 1],
        [None, 4, 0],
        [2000, -5, None],
    ]


def test_target_is_a_number_or_classes_in_their_order(tmp_path: Path) -> None:
    for target, classes in (("size", ()), ("count", ("-5", "3", "4"))):
        types = {"size": "sc:Float", "count": "sc:Integer"}
        read = table.read_table(write(tmp_path, ROWS.replace("\n,", "\n7,"), types), target)
        assert read.classes == classes
        assert read.targets.tolist() == ([1, 2, 0] if classes else [1.5, 7, 2000])


def test_changed_file_is_refused(tmp_path: Path) -> None:
    (write(tmp_path) / "fruit.csv").write_text("size\n1\n")
    [problem] = problems(tmp_path)
    assert problem.startswith("fruit.csv: expected the sha256 ")


def test_wrong_values_are_reported_with_their_lines(tmp_path: Path) -> None:
    rows = "size,count,ripe,kind\nlarge,1.5,yes,plum\ninf,1,true,\n1,2\n1e99,1,true,pear\n"
    assert problems(write(tmp_path, rows)) == [
        "fruit.csv:2: size: expected sc:Float, found 'large'",
        "fruit.csv:2: count: expected sc:Integer, found '1.5'",
        "fruit.csv:2: ripe: expected sc:Boolean, found 'yes'",
        "fruit.csv:3: size: expected sc:Float, found 'inf'",
        "fruit.csv:3: kind: expected sc:Text, found ''",
        "fruit.csv:4: expected 4 values",
        "fruit.csv:5: size: expected sc:Float, found '1e99'",
    ]


def test_missing_columns_are_named(tmp_path: Path) -> None:
    rows = "size,kind\n1,plum\n"
    assert problems(write(tmp_path, rows)) == [
        "fruit.csv:1: expected the columns of croissant.json, missing: count, ripe"
    ]


def test_file_outside_of_the_folder_is_refused(tmp_path: Path) -> None:
    for url in ("/etc/passwd", "../fruit.csv", "https://example.com/fruit.csv", None):
        assert problems(write(tmp_path, contentUrl=url)) == [
            f"croissant.json: distribution: contentUrl: expected the path of a file in this folder, found {url!r}"
        ]


def test_unsupported_descriptions_are_refused_with_all_causes(tmp_path: Path) -> None:
    types = TYPES | {"[bad]": "sc:Float", "name": "sc:Text", "when": "sc:Date"}
    number = "dataType: expected sc:Float, sc:Integer, sc:Boolean, found"
    names = "size, count, ripe, kind, None, name, when"
    assert [
        problem.removeprefix("croissant.json: ")
        for problem in problems(write(tmp_path, types=types, sha256="abc"), "colour")
    ] == [
        "distribution: sha256: expected 64 hexadecimal digits, found 'abc'",
        f"recordSet: field 4: kind: {number} 'sc:Text'",
        "recordSet: field 5: source.extract.column: expected the name of another column, found None",
        f"recordSet: field 6: name: {number} 'sc:Text'",
        f"recordSet: field 7: when: {number} 'sc:Date'",
        f"recordSet: expected the column 'colour', which TARGET names, and others, found {names}",
    ]


def test_other_json_is_refused(tmp_path: Path) -> None:
    for text in ("", "[]", "{}", '{"distribution": 1, "recordSet": [1, {"field": [1, {"source": 1}]}]}'):
        (tmp_path / "croissant.json").write_text(text)
        assert problems(tmp_path)[0].startswith("croissant.json: ")


def test_sample_is_described_for_the_default_target(specs: Path) -> None:
    """The image has the table itself, and the tests on a cluster compare its digest."""
    path = specs / "xgboost-tabular/croissant.json"
    file, types = table._checked(json.loads(path.read_text()), path, "diagnosis")  # noqa: SLF001 - the file is absent
    assert (file["contentUrl"], len(types), types["diagnosis"]) == ("breast_cancer.csv", 31, "sc:Text")

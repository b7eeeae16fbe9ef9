"""A YAML file means what its author sees, in every YAML; what does not is a problem with line and column."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from packager.base import yamlio
from packager.base.problems import MAX_PROBLEMS, Problem

if TYPE_CHECKING:
    from pathlib import Path


def read(text: str | bytes) -> Any:
    document, problems = yamlio.load(text.encode() if isinstance(text, str) else text, "f")
    assert problems == []
    return document.data


def complaints(text: str | bytes) -> list[str]:
    document, problems = yamlio.load(text.encode() if isinstance(text, str) else text, "f")
    assert problems != []
    assert isinstance(document.name, str)
    return [str(problem) for problem in problems]


def test_scalars_mean_the_same_in_every_version_of_yaml() -> None:
    for text in [
        "yes",
        "y",
        "<<",
        "2020-01-01",
        "12:30",
        "1.0.0",
        "010",
        "0o17",
        "0x10",
        "1_000",
        "1.10",
        ".5",
        "5.",
        "1e3",
        "+1",
        "-0",
        ".nan",
    ]:
        assert read(text) == text
    for text, value in {"true": True, "false": False, "0": 0, "-1": -1, "20": 20, "0.5": 0.5, "1.0": 1.0}.items():
        values = read(text)
        assert (values, type(values)) == (value, type(value))
    for text in ("null", "~", "a:", "a: ~"):
        assert read(text) in (None, {"a": None})
    for text in ("'5'", '"5"', "|-\n  5", "'true'", '"~"'):
        assert isinstance(read(text), str)


@given(st.one_of(st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()))
def test_a_scalar_is_what_its_author_wrote(value: object) -> None:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    scalar = yamlio.scalar(text)
    if scalar is not None:
        assert (str(scalar).lower() if isinstance(scalar, bool) else str(scalar)) == text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nb: 2\na: 3\n", "f:3:1: duplicate key 'a' (keep one of them)"),
        ("x: {a: 1, a: 2}", "f:1:11: duplicate key 'a' (keep one of them)"),
        ("{[a]: 1}", "f:1:2: expected text as the key, found a list or a mapping"),
        (b"a: 1\nb: \xc3\xa9\xe9", "f:2:5: expected UTF-8 text, found other bytes"),
        ("a: 1\nb: é\0", "f:2:5: not valid YAML: control characters are not allowed"),
        ("a: [1", "f:2:1: not valid YAML: did not find expected ',' or ']' while parsing a flow sequence"),
        ("a: *b", "f:1:4: not valid YAML: found undefined alias"),
        (
            "a: 1\n---\nb: 2\n",
            "f:2:1: not valid YAML: expected a single document in the stream but found another document",
        ),
        ("%YAML 3.0\n---\na: 1\n", "f:1:1: not valid YAML: found incompatible YAML document"),
        (
            'a: "\\ud800"',
            "f:1:7: not valid YAML: found invalid Unicode character escape code while parsing a quoted scalar",
        ),
        ("[" * 9000 + "]" * 9000, "f:1:41: the document is nested too deeply"),
        ("a:\n  b: " + "{c: " * 60 + "}" * 60, "f:2:158: the document is nested too deeply"),
        ("[a,\n" + "b," * 100_000 + "c]", "f:1:1: the file has more than 100,000 keys and values"),
        ("%TAG !a! !b\n" * 101 + "---\na: 1", "f:1:1: the file has more than 100 tag directives"),
        ("a: &a [*a]", "f:1:4: the document is nested too deeply, or its aliases expand without limit"),
        (b"#" * (1 << 20) + b"#", "f:1:1: the file is larger than 1024 KiB, the limit for such a file"),
    ],
)
def test_a_problem_has_its_place(text: str | bytes, problem: str) -> None:
    assert complaints(text) == [problem]


def test_aliases_that_expand_without_end_cost_nothing() -> None:
    lines = ["l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 30)]
    messages = complaints("\n".join(lines))
    assert len(messages) == 1
    assert "aliases expand without limit" in messages[0]


_MEBIBYTE = 1 << 20
# Each is long enough that work for every pair of its parts, or for every part of every alias, takes minutes.
_HOSTILE = {
    "a long text that aliases repeat": b'x: &a "' + b"A" * (50 << 10) + b'"\ny: [' + b"*a, " * 18_000 + b"]\n",
    "a long key that aliases repeat": b'x: &a {"' + b"A" * (50 << 10) + b'": 1}\ny: [' + b"*a, " * 18_000 + b"]\n",
    "lists of aliases in each document": b"".join(
        b"---\n- &a [1,1,1,1,1,1,1,1,1,1]\n- &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n- [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
        for _ in range(8_000)
    ),
    "the same key again and again": b"a:\n" * (_MEBIBYTE // 3),
    "many tags": b"- !a\n" * (_MEBIBYTE // 5),
    "many tag directives": b"".join(b"%%TAG !%x! !b\n" % number for number in range(_MEBIBYTE // 20)) + b"--- a\n",
    "deep lists": b"[" * _MEBIBYTE,
    "breaks of YAML 1.1": "\u2028".encode() * (_MEBIBYTE // 3 - 10),
}


@pytest.mark.thorough
@pytest.mark.parametrize("shape", _HOSTILE)
def test_hostile_yaml_takes_no_time_and_has_few_problems(shape: str) -> None:
    begin = time.process_time()
    _, problems = yamlio.load(_HOSTILE[shape], "f")
    _, stream_problems = yamlio.load_all(_HOSTILE[shape], "f")
    findings = yamlio.indirections(_HOSTILE[shape], "f")
    assert problems + stream_problems + findings
    assert max(map(len, (problems, stream_problems, findings))) <= 2 * MAX_PROBLEMS
    assert time.process_time() - begin < 10


def test_aliases_of_all_documents_count_together() -> None:
    document = b"---\na: &a '" + b"A" * 1000 + b"'\nb: [" + b"*a," * 100 + b"]\n"
    assert yamlio.load_all(document * 10, "f")[1] == []
    assert "aliases expand without limit" in yamlio.load_all(document * 12, "f")[1][0].message


def test_anchors_windows_files_and_empty_files_are_read() -> None:
    assert read("a: &x {b: 1}\nc: *x\n") == {"a": {"b": 1}, "c": {"b": 1}}
    assert read(b"\xef\xbb\xbfa: 1\r\nb: |\r\n  x\r\n  y\r\n") == {"a": 1, "b": "x\ny\n"}
    for text in ["", "# nothing\n", "---\n", "\n\n"]:
        assert read(text) is None


def test_a_problem_stands_at_its_value_or_key() -> None:
    document, _ = yamlio.load(b"top:\n  list:\n    - a\n    - key: value\n", "f")
    location = ("top", "list", 1, "key")
    assert document.problem(location, "m") == Problem("f", 4, 12, "m")
    assert document.problem(location, "m", at_key=True) == Problem("f", 4, 7, "m")
    assert document.problem((*location, "below"), "m") == Problem("f", 4, 12, "m")
    assert document.problem(("nothing",), "m") == Problem("f", 1, 1, "m")
    assert document.depth((*location, "below")) == 4


def test_several_documents_are_read() -> None:
    documents, problems = yamlio.load_all(b"a: 1\n---\nb: 2\nb: 3\n", "f")
    assert [document.data for document in documents] == [{"a": 1}, {"b": 2}]
    assert [str(problem) for problem in problems] == ["f:4:1: duplicate key 'b' (keep one of them)"]


def test_a_file_is_read_by_name(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text("a: [")
    _, problems = yamlio.read(path)
    assert problems[0].file == str(path)


@pytest.mark.thorough
def test_without_libyaml_the_answers_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yamlio, "_Parser", yaml.BaseLoader)
    assert read("a: [yes, 010, 'x']") == {"a": ["yes", "010", "x"]}
    assert "nested too deeply" in complaints("[" * 1200 + "]" * 1200)[0]
    assert "special characters are not allowed" in complaints("a: \0")[0]
    assert complaints('a: "\\ud800"') == ["f:1:4: expected text, found an unpaired surrogate (\\ud800 to \\udfff)"]


@given(st.text() | st.binary())
def test_any_file_is_read_or_explained(content: str | bytes) -> None:
    try:
        text = content.encode() if isinstance(content, str) else content
    except UnicodeEncodeError:
        return
    document, problems = yamlio.load(text, "f")
    assert not document.is_empty or document.data is None
    for problem in problems:
        assert problem.line >= 1
        assert problem.column >= 1
        assert "\n" not in str(problem)


def test_what_is_dumped_means_the_same_to_every_parser() -> None:
    for value in [
        *("yes", "~", "1e3", "0o17", "12:30", ".5", "", " a ", "a: b", "two\nlines\n", "\x1b[31m", "\u2028", "- x"),
        *("# x", "a" * 5000, [], {}, {"a": [1, {"b": None, "c": True}]}, 5),
    ]:
        text = yamlio.dump([{"key": value}, [value, value]])
        documents, problems = yamlio.load_all(text.encode(), "x")
        assert problems == []
        assert [document.data for document in documents] == [{"key": value}, [value, value]]
        assert list(yaml.safe_load_all(text)) == [{"key": value}, [value, value]]
        assert "\x1b" not in text

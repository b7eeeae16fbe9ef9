"""Patterns among the files of a spec: their matches, in order, and the names that no wildcard matches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.modelspec.patterns import matches

if TYPE_CHECKING:
    from pathlib import Path

FILES = (
    *("a.py", "b.sh", ".hidden.py", ".env", "src/a.py", "src/.x/a.py", "src/deep/er/a.py", "src/__pycache__/a.pyc"),
    *(".venv/lib/a.py", "src/id_rsa", "B.py"),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in FILES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    (tmp_path / "src/link.py").symlink_to("a.py")
    (tmp_path / "src/loop").symlink_to("..")
    return tmp_path


def test_pattern_matches_expected_files_and_excludes_others(folder: Path) -> None:
    for pattern, files, left_out in (
        ("?.py", ["B.py", "a.py"], []),
        ("src/*", ["src/a.py", "src/link.py"], ["src/__pycache__", "src/id_rsa"]),
        ("**/a.py", ["a.py", "src/a.py", "src/deep/er/a.py"], ["src/__pycache__"]),
        ("src/**", ["src/a.py", "src/deep/er/a.py", "src/link.py"], ["src/__pycache__", "src/id_rsa"]),
        (".*.py", [], [".hidden.py"]),
        (".e*", [], [".env"]),
        (".venv/**/*.py", [".venv/lib/a.py"], []),
        ("a.py/*", [], []),
    ):
        omitted: set[str] = set()
        assert list(matches(folder, pattern, omitted)) == files
        assert sorted(omitted) == left_out


def test_pattern_of_many_wildcards_is_matched_in_linear_time(tmp_path: Path) -> None:
    """With a regular expression that tries one way after the other, this would take years."""
    deep = tmp_path
    for _ in range(20):
        deep /= "a" * 30
    deep.mkdir(parents=True)
    (deep / "x").write_text("x")
    assert list(matches(tmp_path, "/".join([*["**"] * 50, "y"]), set())) == []
    assert list(matches(tmp_path, "*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b/**", set())) == []

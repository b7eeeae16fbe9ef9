"""The check of words refuses each kind of text for its reason, and accepts plain ones."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import ToolError
from tests import tools
from tools import check_words

if TYPE_CHECKING:
    from pathlib import Path


def refused(name: str) -> list[str]:
    return [violation.words for violation in check_words.in_test_name(name, "test_x.py:1")]


def test_check_refuses_riddles_as_test_names() -> None:
    for name, words in {
        "test_what_is_killed_leaves_the_old_output": ["what", "what"],
        "test_no_redirect_is_followed": ["no"],
        "test_its_limits": ["its", "test_its_limits"],
        "test_template_is_compiled_anew": ["anew"],
        "test_delete_keeps_objects_without_our_label": [],
        "test_knowledge_counts_as_plain_english": [],
    }.items():
        assert refused(name) == words


MODULE = '''"""What a module is for."""

LIMIT = 3
"""Limit of items."""


class Job:
    """A job that is created anew.

    Attributes:
        slots: They.
        pods: The pods that may run.
    """

    def reason(self) -> str:
        """Return what has stopped it.

        Raises:
            ValueError: It has not.
        """


async def test_what_is_left(): ...
'''


def test_check_names_line_words_and_advice_of_docstrings_and_test_names() -> None:
    lines = [str(violation) for violation in check_words.in_module(MODULE, "x.py")]
    assert lines == [
        "x.py:1: 'What': write a noun first: 'The message ...', 'The limits of ...'",
        "x.py:8: 'anew': write 'again'",
        "x.py:11: 'They': write a noun first: 'The message ...', 'The limits of ...'",
        "x.py:16: 'Return what': write the verb and the noun: 'Return the message'",
        "x.py:19: 'It': write a noun first: 'The message ...', 'The limits of ...'",
        "x.py:23: 'what': write the subject, named with its noun: 'output', 'deploy'",
        "x.py:23: 'what': write the noun that is meant",
    ]


def test_check_reads_messages_and_comments_of_the_product() -> None:
    source = '"""Whoever reads."""\nMESSAGE = "files are gone"\n# a limit that nobody reaches\n'
    places = [(violation.place, violation.words) for violation in check_words.in_product(source, "x.py")]
    assert places == [("x.py:2", "are gone"), ("x.py:1", "Whoever"), ("x.py:3", "nobody")]


def test_check_of_documents_ignores_quoted_code() -> None:
    text = "Use `mend`.\nThe file is there already.\n"
    assert [violation.place for violation in check_words.in_document(text, "a.md")] == ["a.md:2"]


def test_check_of_titles_requires_an_imperative_of_72_characters() -> None:
    for title, words in {
        "Reject JobSets with duplicate role names": [],
        "Added a check of titles": ["Added"],
        "add a check of titles": ["add"],
        "Compile a template anew": ["anew"],
        "Name what is refused": ["what is"],
        "": [""],
        "Add " + "x" * 68: [],
    }.items():
        assert [violation.words for violation in check_words.in_title(title, "abc")] == words
    (violation,) = check_words.in_title("Add " + "x" * 69, "abc")
    assert violation.advice == "at most 72 characters, not 73"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose second commit adds the check; two follow it."""

    program = tools.require("git")

    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run([program, "-C", str(tmp_path), *identity, *arguments], check=True, capture_output=True)

    git("init")
    git("commit", "--allow-empty", "-m", "Before the rules")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "check_words.py").touch()
    git("add", ".")
    git("commit", "-m", "The check itself")
    git("tag", "start")
    git("commit", "--allow-empty", "-m", "Fixed a limit")
    git("commit", "--allow-empty", "-m", "Add a limit")
    return tmp_path


def test_check_of_titles_begins_after_a_commit(repository: Path) -> None:
    for since, words in ((None, ["Fixed"]), ("start", ["Fixed"]), ("HEAD~1", [])):
        assert [violation.words for violation in check_words.in_titles(repository, since)] == words
    with pytest.raises(ToolError, match=r"unknown revision|bad revision"):
        [*check_words.in_titles(repository, "nothing")]


def test_command_prints_violations_and_fails(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check_words.rules()  # of this checkout, before it is replaced
    monkeypatch.setattr(check_words, "CHECKOUT", repository)
    (repository / "README.md").write_text("It is done anew.\n", encoding="utf-8")
    assert check_words.main([]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first == "README.md:1: 'anew': write 'again'"
    assert second.endswith(": 'Fixed': write a verb of tools/words.toml in its base form first, such as 'Add'")


def test_command_checks_files_without_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tools.require("git")
    monkeypatch.setattr(check_words, "CHECKOUT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert check_words.main([]) == 0
    assert capsys.readouterr().err.startswith("check_words: titles of commits are not checked: fatal: not a git")


def test_every_unchecked_path_exists() -> None:
    assert [path for path in check_words.NOT_YET_CHECKED if not (check_words.CHECKOUT / path).exists()] == []

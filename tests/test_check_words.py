"""The check of words refuses each kind of text for its reason, and accepts plain ones."""

from __future__ import annotations

from tools import check_words

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


def test_every_unchecked_path_exists() -> None:
    assert [path for path in check_words.NOT_YET_CHECKED if not (check_words.CHECKOUT / path).exists()] == []

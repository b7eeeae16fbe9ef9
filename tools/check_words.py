"""Checks the words of documents, messages, docstrings, test names and commit titles against tools/words.toml.

    python -m tools.check_words
    python -m tools.check_words --since origin/main

Each violation is printed with its place and the words to write instead; the exit code is 1 if there is any.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base import process
from packager.base.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


CHECKOUT = Path(__file__).resolve().parents[1]

DOCUMENTS = ("*.md", "docs/**/*.md", "tests/testbed/*.md", "packager/**/templates/**/*.md", "Makefile")
FOLDERS = ("packager", "tests", "tools", "benchmarks")
GENERATED = "compiled_templates.py"

NOT_YET_CHECKED = (
    "tests/base/test_problems.py",
    "tests/base/test_yamlio.py",
)
"""Folders and modules that are older than the rules for docstrings and test names. Remove each once it is rewritten."""

TITLE_CHARACTERS = 72
_NAME_WORDS = 3
_ENTRY = re.compile(r"\s+\*{0,2}\w+: +(?P<text>\S.*)")
"""A line of a docstring that describes a field, an argument or an error."""


@dataclass(frozen=True, slots=True)
class Violation:
    """Words that a rule refuses.

    Attributes:
        place: A path and a line, or a commit.
        words: The refused words.
        advice: The words to write instead.
    """

    place: str
    words: str
    advice: str

    def __str__(self) -> str:
        """Return the line that is printed."""
        return f"{self.place}: {self.words!r}: write {self.advice}"


@dataclass(frozen=True, order=True, slots=True)
class Text:
    """A text in a module, and the line on which it begins."""

    line: int
    text: str


@cache
def rules() -> Mapping[str, Mapping[str, str]]:
    """Return the tables of tools/words.toml: each refused pattern, with its advice."""
    tables: dict[str, dict[str, str]] = tomllib.loads((CHECKOUT / "tools" / "words.toml").read_text(encoding="utf-8"))
    return tables


@cache
def patterns(table: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    """Return the refused patterns of a table, each with its advice."""
    return tuple((re.compile(pattern, re.IGNORECASE), advice) for pattern, advice in rules()[table].items())


@cache
def verbs() -> frozenset[str]:
    """Return the verbs that a commit title may begin with."""
    return frozenset(rules()["title_verbs"]["base_forms"].split())


def violations(text: str, place: str, table: str, *, at_start: bool = False) -> Iterator[Violation]:
    """Yield the violations of a table's rules in `text`; with `at_start`, only in its first words."""
    for pattern, advice in patterns(table):
        if match := pattern.match(text) if at_start else pattern.search(text):
            yield Violation(place, match[0], advice)


def in_document(text: str, place: str) -> Iterator[Violation]:
    """Yield the violations in a Markdown document, except in its quoted code."""
    for number, line in enumerate(re.sub(r"`[^`\n]*`", "", text).splitlines(), 1):
        yield from violations(line, f"{place}:{number}", "phrases")


def in_product(source: str, place: str) -> Iterator[Violation]:
    """Yield the violations in a module of the product: in its messages, and in each line."""
    for message in messages(nodes(source)):
        yield from violations(message.text, f"{place}:{message.line}", "phrases")
    for number, line in enumerate(source.splitlines(), 1):
        yield from violations(line, f"{place}:{number}", "code")


def in_module(source: str, place: str) -> Iterator[Violation]:
    """Yield the violations in the docstrings and test names of a module."""
    for docstring in sorted(docstrings(nodes(source))):
        for number, line in enumerate(docstring.text.splitlines()):
            where = f"{place}:{docstring.line + number}"
            yield from violations(line, where, "docstrings")
            opening = _ENTRY.fullmatch(line) if number else None
            if opening or not number:
                text = opening["text"] if opening else line
                yield from violations(text, where, "docstring_openings", at_start=True)
    for name in named_tests(nodes(source)):
        yield from in_test_name(name.text, f"{place}:{name.line}")


def in_test_name(name: str, place: str) -> Iterator[Violation]:
    """Yield the violations in the name of a test function."""
    behaviour = name.removeprefix("test_").replace("_", " ")
    yield from violations(behaviour, place, "test_name_openings", at_start=True)
    yield from violations(behaviour, place, "test_names")
    if len(behaviour.split()) < _NAME_WORDS:
        yield Violation(place, name, "test_<subject>_<verb>_<object>")


def in_title(title: str, place: str) -> Iterator[Violation]:
    """Yield the violations in the title of a commit."""
    if len(title) > TITLE_CHARACTERS:
        yield Violation(place, title, f"at most {TITLE_CHARACTERS} characters, not {len(title)}")
    verb = title.split(maxsplit=1)[0] if title.strip() else ""
    if verb != verb.capitalize() or verb.lower() not in verbs():
        yield Violation(place, verb, "a verb of tools/words.toml in its base form first, such as 'Add'")
    yield from violations(title, place, "phrases")
    yield from violations(title, place, "titles")


@lru_cache(maxsize=1)
def nodes(source: str) -> tuple[ast.AST, ...]:
    """Return all nodes of a module. The last answer is kept, since several rules read each module."""
    return tuple(ast.walk(ast.parse(source)))


def messages(module: Sequence[ast.AST]) -> Iterator[Text]:
    """Yield the texts of a module that are not docstrings."""
    described = {id(node.value) for node in module if isinstance(node, ast.Expr)}
    for node in module:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in described:
            yield Text(node.lineno, node.value)


def docstrings(module: Sequence[ast.AST]) -> Iterator[Text]:
    """Yield the docstrings of a module, its classes, functions and constants."""
    for node in module:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield Text(node.lineno, node.value.value)


def named_tests(module: Sequence[ast.AST]) -> Iterator[Text]:
    """Yield the names of a module's test functions."""
    for node in module:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield Text(node.lineno, node.name)


def in_files(checkout: Path) -> Iterator[Violation]:
    """Yield the violations in all files of a checkout, except in the modules that are not yet checked."""
    for path in sorted({path for pattern in DOCUMENTS for path in checkout.glob(pattern)}):
        yield from in_document(path.read_text(encoding="utf-8"), path.relative_to(checkout).as_posix())
    for path in sorted(path for folder in FOLDERS for path in (checkout / folder).glob("**/*.py")):
        source, place = path.read_text(encoding="utf-8"), path.relative_to(checkout).as_posix()
        if path.name == GENERATED:
            continue
        if place.startswith("packager/"):
            yield from in_product(source, place)
        if not any(f"{place}/".startswith(f"{skipped}/") for skipped in NOT_YET_CHECKED):
            yield from in_module(source, place)


def in_titles(checkout: Path, since: str | None) -> Iterator[Violation]:
    """Yield the violations in the titles of commits.

    Args:
        checkout: A checkout of git.
        since: The commit after which titles are checked; None for the commit that added this module.

    Raises:
        ToolError: git is missing or fails; the checkout is not one of git.
    """
    since = since or _git(checkout, "log", "--diff-filter=A", "--format=%H", "-1", "--", "tools/check_words.py").strip()
    if since:
        for line in _git(checkout, "log", "--no-merges", "--format=%h %s", f"{since}..HEAD", "--").splitlines():
            commit, _, title = line.partition(" ")
            yield from in_title(title, commit)


def _git(checkout: Path, *arguments: str) -> str:
    finished = process.run(["git", "-C", str(checkout), *arguments])
    if finished.returncode:
        raise ToolError(finished.stderr.strip() or "git failed")
    return finished.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Print all violations, and return the exit code: 1 if there is any."""
    parser = argparse.ArgumentParser(prog="python -m tools.check_words", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--since",
        metavar="REVISION",
        help="check the titles of the commits after this one; by default, after the commit that added this check",
    )
    options = parser.parse_args(arguments)
    refused = [*in_files(CHECKOUT)]
    try:
        refused += in_titles(CHECKOUT, options.since)
    except ToolError as error:
        if options.since:
            parser.error(str(error))
        sys.stderr.write(f"check_words: titles of commits are not checked: {error}\n")
    sys.stdout.writelines(f"{violation}\n" for violation in refused)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())

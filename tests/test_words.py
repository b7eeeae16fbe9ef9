"""Documents, messages and code avoid phrases that readers have stumbled over; each has a plain one to write instead."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]

BANNED = {
    r"(?<!there )\bis no (?!longer|error)": "'is not a ...': 'X is no text' reads as a riddle",
    r"\b(?:stands?|stood|lies?) (?:here|there|in|on|at|below|behind|beside)\b": "'is in ...', 'is below ...'",
    r"\b(?:whoever|whichever|whosever|nobody|anybody)\b": "name the person or the thing, or 'anyone', 'no one'",
    r"\b(?:go|goes|went) with (?:it|the|them|its)\b": "'is deleted with ...' or 'belongs to ...'",
    r"\bmend(?:s|ed|ing)?\b": "'fix' or 'correct'",
    r"\banew\b": "'again'",
    r"\b(?:un-comment)": "'uncomment'",
    r"\b(?:said|says?|told|tells?) of\b": "'reports about', 'prints for'",
    r"\ball the same\b": "'still', 'nevertheless'",
    r"\bthe like\b": "'similar', 'and so on'",
    r"\bis there already\b|\bis not there\b|\bthat is there\b": "'already exists', 'not found', 'existing'",
    r"\btaken? away\b|\btakes away\b|\bgoes away\b": "'removed', 'deleted'",
    r"\ba(?:re|s|nd| is|) gone\b": "'deleted', 'no longer exists'",
    r"\bfor ever\b": "'forever', or better: 'without end'",
    r"\bmeanwhile\b": "'during the ...', 'since then'",
    r"\b(?:in|out of) reach\b": "'reachable', 'not reachable'",
    r"\bevery one\b|\beach of them\b": "'all', 'each of the ...'",
}
"""Each phrase, as a pattern, and what to write instead."""

BANNED_IN_CODE = r"\b(?:nobody|somebody|anybody|whoever)\b|\bstands?\b(?! for)"
"""What docstrings and comments avoid: name the person; of a place, write 'is'."""

DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "tests/testbed/*.md", "packager/**/templates/**/*.md", "Makefile")
    for path in CHECKOUT.glob(pattern)
)
MODULES = sorted(path for path in CHECKOUT.glob("packager/**/*.py") if path.stem != "compiled_templates")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_documents_are_plain(document: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", document.read_text(encoding="utf-8"))
    lines = enumerate(text.splitlines(), 1)
    assert [f"{number}: {advice}" for number, line in lines for advice in _advice(line)] == []


def test_messages_are_plain() -> None:
    assert [
        f"{path.relative_to(CHECKOUT)}:{line}: {advice}"
        for path in MODULES
        for line, text in _messages(path)
        for advice in _advice(text)
    ] == []


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_docstrings_and_comments_are_plain(module: Path) -> None:
    lines = enumerate(module.read_text(encoding="utf-8").splitlines(), 1)
    assert [f"{number}: {line}" for number, line in lines if re.search(BANNED_IN_CODE, line, re.IGNORECASE)] == []


def _advice(text: str) -> list[str]:
    matches = ((pattern, re.search(pattern, text, flags=re.IGNORECASE)) for pattern in BANNED)
    return [f"{match[0]!r}: write {BANNED[pattern]}" for pattern, match in matches if match]


def _messages(module: Path) -> list[tuple[int, str]]:
    """Return the texts of a module with their lines; its docstrings, which are for whoever reads the code, left out."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    ]

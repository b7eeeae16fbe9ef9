"""Patterns that meet texts of others: each takes time in proportion to a text's length, not to its square."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from packager.base.masking import masked_urls
from packager.kubernetes.kubectl import messages
from packager.modelspec.importers.pods import escaped, expanded
from packager.service.page.html import visible
from packager.workloads.program import references

if TYPE_CHECKING:
    from collections.abc import Callable

LENGTH = 200_000


def repeated(before: str, text: str) -> str:
    return before + text * (LENGTH // len(text))


JUDGES: list[tuple[Callable[[str], object], str]] = [
    (lambda text: list(references(text)), repeated("", "$(")),
    (lambda text: list(references(text)), repeated("$(A)", "$(A")),
    (lambda text: escaped(text, set()), repeated("", "$(")),
    (lambda text: expanded(text[:60_000], {}), repeated("", "$(")),
    (masked_urls, repeated("://", ":")),
    (masked_urls, repeated("", "://a:")),
    (messages.CONFLICT.findall, repeated('conflict with "a":', "\n - ")),
    (messages.PREREQUISITE_MISSING.search, repeated("", "namespaces ")),
    *((rule.pattern.search, repeated("", "must specify ")) for rule in messages.REFUSALS),
    (visible, repeated("\x1b[", "0")),
]


def test_a_long_text_of_others_is_read_in_linear_time() -> None:
    for judge, text in JUDGES:
        begun = time.process_time()
        judge(text)
        assert time.process_time() - begun < 3, text[:40]

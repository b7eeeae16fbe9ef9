"""Documents, messages, docstrings and test names avoid the words that tools/words.toml lists."""

from __future__ import annotations

from tools import check_words


def test_checkout_has_no_refused_words() -> None:
    assert [str(violation) for violation in check_words.in_files(check_words.CHECKOUT)] == []

from __future__ import annotations

from packager.service.page.revisions import compared


def test_texts_over_the_line_limit_are_not_compared() -> None:
    old, new = {"template": "\n" * 3000}, {"template": "a\n" * 3000}
    ((line,),) = [item.lines for item in compared(old, new)]
    assert line.text == "too long to compare: 3,000 and 3,000 lines"
    assert compared(old, old) == ()

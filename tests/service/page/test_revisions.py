from __future__ import annotations

from packager.service.page.revisions import compared


def test_texts_over_the_line_limit_are_not_compared() -> None:
    old, new = {"template": "\n" * 3000}, {"template": "a\n" * 3000}
    ((line,),) = [item.lines for item in compared(old, new)]
    assert line.text == "too long to compare: 3,000 and 3,000 lines"
    assert compared(old, old) == ()


def test_changed_lines_that_begin_with_the_marks_of_headers_are_shown() -> None:
    old, new = {"template": "a\n---\n-- b\nc\n"}, {"template": "a\nc\n+++\n++ d\n"}
    ((*lines,),) = [item.lines for item in compared(old, new)]
    assert [(line.mark, line.text) for line in lines[1:]] == [
        (" ", "a"),
        ("-", "---"),
        ("-", "-- b"),
        (" ", "c"),
        ("+", "+++"),
        ("+", "++ d"),
    ]
    assert lines[0].mark == "@"

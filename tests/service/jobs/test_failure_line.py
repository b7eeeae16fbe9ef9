from __future__ import annotations

import pytest

from packager.service.jobs.user_hints import explaining

TRACEBACK = ["Traceback (most recent call last):\n", '  File "train.py", line 3, in <module>\n', "    train()\n"]
METRIC = '{"step": 8, "loss": 264.1}\n'


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        ([*TRACEBACK, "KeyError: 'x'\n", "Saving failed logs\n"], "KeyError: 'x'"),
        ([*TRACEBACK, "ValueError: a\n", "\n", *TRACEBACK, "RuntimeError: b\n"], "RuntimeError: b"),
        ([*TRACEBACK, "ValueError: a\n", *TRACEBACK, "torch.distributed.elastic.X: \n"], "ValueError: a"),
        ([f"[rank0]: {line}" for line in (*TRACEBACK, "OSError: c\n")], "OSError: c"),
        ([METRIC, "ValueError: the loss is not a number\n", METRIC], "ValueError: the loss is not a number"),
        (["\x1b[31mCUDA out of memory\x1b[0m\n", "bye\n", METRIC], "CUDA out of memory"),
        (["10%\r100%\n", "see you\n", "\n"], "see you"),
        ([METRIC], None),
    ],
)
def test_line_that_explains_a_failure_is_found(lines: list[str], line: str | None) -> None:
    found = explaining(lines)
    assert (found[1] if found else None) == line

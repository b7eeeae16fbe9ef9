"""What GNU tar and busybox tar say while they pack, as they said it."""

from __future__ import annotations

import pytest

from packager.cluster.tarmessages import Remarks, parse_remarks

GNU = """\
tar: ./secret: Cannot open: Permission denied
tar: ./log.txt: file changed as we read it
tar: ./big: File shrank by 299930368 bytes; padding with zeros
tar: ./tmp: File removed before we read it
tar: ./part: Cannot stat: No such file or directory
tar: ./sock: socket ignored
tar: ./bad: Read error at byte 0, while reading 1024 bytes: Input/output error
tar: ./n\\303\\244 me\\nx\\\\y: Cannot open: Permission denied
tar: Exiting with failure status due to previous errors
command terminated with exit code 2
"""

BUSYBOX = """\
tar: can't open './secret': Permission denied
tar: ./deep: Permission denied
tar: can't open './tmp': No such file or directory
tar: ./part: No such file or directory
tar: ./sock: socket ignored
tar: error exit delayed from previous errors
command terminated with exit code 1
"""


def test_gnu_tar() -> None:
    assert parse_remarks(GNU, "/out") == Remarks(
        unread=("secret: Permission denied", "bad: Input/output error", "nä me\nx\\y: Permission denied"),
        changed=("log.txt", "big"),
        gone=("tmp", "part"),
        left_out=("sock",),
    )


def test_busybox_tar() -> None:
    assert parse_remarks(BUSYBOX, "/out") == Remarks(
        unread=("secret: Permission denied", "deep: Permission denied"), gone=("tmp", "part"), left_out=("sock",)
    )


@pytest.mark.parametrize(
    "line",
    [
        "tar: /out: Cannot open: No such file or directory",
        "tar: /out: Cannot chdir: No such file or directory",
        "tar: can't change directory to '/out': No such file or directory",
    ],
)
def test_a_folder_that_is_not_there(line: str) -> None:
    remarks = parse_remarks(f"{line}\ntar: Error is not recoverable: exiting now\n", "/out")
    assert remarks == Remarks(folder="No such file or directory")


def test_names_that_look_like_what_tar_says() -> None:
    stderr = "tar: ./a: file changed as we read it: Cannot open: Permission denied\n"
    assert parse_remarks(stderr, "/out") == Remarks(unread=("a: file changed as we read it: Permission denied",))


def test_unknown_messages_are_kept_within_bounds() -> None:
    stderr = "".join(f"line {number} {'x' * 400}\n" for number in range(1000))
    remarks = parse_remarks(stderr, "/out")
    assert (len(remarks.others), remarks.more) == (20, 980)
    assert remarks.others[0] == f"line 0 {'x' * 290}..."
    assert remarks.is_complete


def test_very_many_names_are_counted() -> None:
    stderr = "".join(f"tar: ./{number}: Cannot open: Permission denied\n" for number in range(50_001))
    remarks = parse_remarks(stderr, "/out")
    assert (len(remarks.unread), remarks.more) == (1_000, 49_001)


def test_warnings_of_kubectl_are_ignored() -> None:
    stderr = "W1122 10:00:00.000000    7 warnings.go:70] deprecated\ncommand terminated with exit code 1\n"
    assert parse_remarks(stderr, "/out") == Remarks()

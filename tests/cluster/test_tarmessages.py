"""Tests of the parser of messages, with recorded ones of GNU tar and busybox tar."""

from __future__ import annotations

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


def test_remarks_are_parsed_from_gnu_tar() -> None:
    assert parse_remarks(GNU, "/out") == Remarks(
        unread=("secret: Permission denied", "bad: Input/output error", "nä me\nx\\y: Permission denied"),
        changed=("log.txt", "big"),
        gone=("tmp", "part"),
        left_out=("sock",),
    )


def test_remarks_are_parsed_from_busybox_tar() -> None:
    assert parse_remarks(BUSYBOX, "/out") == Remarks(
        unread=("secret: Permission denied", "deep: Permission denied"), gone=("tmp", "part"), left_out=("sock",)
    )


def test_missing_folder_is_recognized_in_messages_of_tar() -> None:
    for line in [
        "tar: /out: Cannot open: No such file or directory",
        "tar: /out: Cannot chdir: No such file or directory",
        "tar: can't change directory to '/out': No such file or directory",
    ]:
        remarks = parse_remarks(f"{line}\ntar: Error is not recoverable: exiting now\n", "/out")
        assert remarks == Remarks(folder="No such file or directory")


def test_file_name_that_contains_a_message_of_tar_is_not_misread() -> None:
    stderr = "tar: ./a: file changed as we read it: Cannot open: Permission denied\n"
    assert parse_remarks(stderr, "/out") == Remarks(unread=("a: file changed as we read it: Permission denied",))

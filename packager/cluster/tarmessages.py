"""Parses tar's messages on stderr in a pod: which files are missing from the archive or changed while read."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAMED = 1_000
"""The largest number of names to keep."""

_OTHERS = 20
_WIDTH = 300

# GNU tar (src/create.c, src/misc.c) and busybox (archival/tar.c, libbb/perror_msg.c), in English: LC_ALL=C.
_UNREAD = re.compile(
    r"tar: (?P<name>.+): Cannot (?P<verb>open|stat|read|savedir|close|seek|readlink): (?P<why>[^:]+)"
    r"|tar: (?P<read>.+): Read error at byte \d+, while reading \d+ bytes: (?P<error>[^:]+)"
    r"|tar: can't open '(?P<unopened>.+)': (?P<reason>[^:]+)"
    r"|tar: (?P<plain>\.(?:/.*)?): (?P<words>Permission denied|Input/output error|Stale file handle)"
)
_CHANGED = re.compile(
    r"tar: (?P<name>.+): (?:file changed as we read it|[Ff]ile shrank by \d+ bytes?; padding with zeros)"
)
_GONE = re.compile(
    r"tar: (?P<name>.+): (?:File removed before we read it|Cannot (?:open|stat): No such file or directory)"
    r"|tar: can't open '(?P<unopened>.+)': No such file or directory|tar: (?P<plain>\./.*): No such file or directory"
)
_LEFT_OUT = re.compile(
    r"tar: (?P<name>.+): (?:socket ignored|door ignored|[Uu]nknown file type(?:; file ignored)?"
    r"|file name is too long.*|link name is too long.*|file is the archive.*)"
)
_NO_FOLDER = re.compile(
    r"tar: (?:can't change directory to '(?P<name>.+)'|(?P<gnu>.+): Cannot (?:open|chdir)): (?P<why>.+)"
)
_SUMMARY = re.compile(
    r"tar: (?:Exiting with failure status due to previous errors|error exit delayed from previous errors"
    r"|Error is not recoverable: exiting now)|command terminated with exit code \d+|[EIW]\d{4} .*"
)

_OCTAL = re.compile(r"\\([0-3][0-7]{2}|[abfnrtv\\])")
_LETTERS = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92}


@dataclass(frozen=True, slots=True)
class Remarks:
    """The messages of tar, by meaning.

    Attributes:
        unread: The paths that could not be read, with the reason: `a.txt: Permission denied`.
        changed: The files that changed or became shorter while they were read, whose copies may be inconsistent.
        gone: The paths that were deleted between listing and reading.
        left_out: The paths that are neither files nor folders, or whose names tar cannot write.
        folder: The reason why the folder itself could not be entered; None if it could.
        others: The first lines that were not recognized.
        more: The number of further paths and lines.
    """

    unread: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    folder: str | None = None
    others: tuple[str, ...] = ()
    more: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether all files have arrived unchanged."""
        return not (self.unread or self.changed or self.gone)


def parse_remarks(stderr: str, folder: str) -> Remarks:
    """Parse the stderr of a tar that packs `folder`."""
    names: dict[str, dict[str, None]] = {"unread": {}, "changed": {}, "gone": {}, "left_out": {}, "others": {}}
    folder_problem, more = None, 0
    for line in stderr.split("\n"):
        if not line.strip() or _SUMMARY.fullmatch(line):
            continue
        not_entered = _NO_FOLDER.fullmatch(line)
        if not_entered and _plain(not_entered["name"] or not_entered["gnu"]) == folder:
            folder_problem = not_entered["why"]
            continue
        kind, text = _kind(line)
        known = names[kind]
        if text in known:
            continue
        if len(known) < (_OTHERS if kind == "others" else _NAMED):
            known[text] = None
        else:
            more += 1
    return Remarks(**{kind: tuple(known) for kind, known in names.items()}, folder=folder_problem, more=more)


def _kind(line: str) -> tuple[str, str]:
    for kind, pattern in (("changed", _CHANGED), ("gone", _GONE), ("left_out", _LEFT_OUT)):
        if match := pattern.fullmatch(line):
            return kind, _plain(next(text for text in match.groups() if text))
    if match := _UNREAD.fullmatch(line):
        name, why = [text for key, text in match.groupdict().items() if text and key != "verb"]
        return "unread", f"{_plain(name)}: {why}"
    return "others", line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}..."


def _plain(name: str) -> str:
    """Return a name without its leading `./`, and with GNU tar's octal escapes decoded."""
    if name.isascii() and "\\" in name:
        data = _OCTAL.sub(lambda code: chr(_LETTERS.get(code[1]) or int(code[1], 8)), name).encode("latin-1")
        name = data.decode(errors="replace")
    return name.removeprefix("./") or name

"""Records the changes that this process makes on disk outside of a folder, from Python's audit events (PEP 578)."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

# For each event, the indices of the arguments that are paths, and of their folders (-1: the current one).
_PATHS: dict[str, tuple[tuple[int, int | None], ...]] = {
    "os.mkdir": ((0, 2),),
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
    "os.truncate": ((0, None),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.utime": ((0, 3),),
}


class _State:
    folder: str | None = None
    outside: list[str] = []  # noqa: RUF012 - there is one hook for the whole process, and it can never be removed
    hooked = False


@contextmanager
def confined(folder: Path) -> Iterator[list[str]]:
    """Yield the list of changes outside of `folder`, which grows while the block runs."""
    if not _State.hooked:
        sys.addaudithook(_note)
        _State.hooked = True
    before, _State.folder, _State.outside = _State.folder, os.path.realpath(folder), []
    try:
        yield _State.outside
    finally:
        _State.folder = before


def is_change(event: str, arguments: tuple[Any, ...]) -> bool:
    """Whether an audit event is a change of a file or a folder."""
    return event in _PATHS or (event == "open" and bool(arguments[2] & _WRITING))


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if _State.folder is None:
        return
    if event == "open":
        path, _, flags = arguments
        # A relative path may be below an open folder, which this event does not name: an earlier event made it.
        if isinstance(path, str | bytes) and flags & _WRITING and os.fsdecode(path).startswith("/"):
            _check(event, os.fsdecode(path))
        return
    for path, place in _PATHS.get(event, ()):
        if isinstance(arguments[path], str | bytes | os.PathLike):
            _check(event, _whole(os.fsdecode(arguments[path]), -1 if place is None else arguments[place]))


def _whole(path: str, place: int) -> str:
    base = os.readlink(f"/proc/self/fd/{place}") if place >= 0 else os.getcwd()  # noqa: PTH109, PTH115 - strings all through
    return os.path.join(base, path)  # noqa: PTH118


def _check(event: str, path: str) -> None:
    whole = os.path.normpath(path)
    if whole != os.devnull and not f"{whole}/".startswith(f"{_State.folder}/"):
        _State.outside.append(f"{event} {whole}")

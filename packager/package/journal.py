"""Changes many files of a package's folder: it is wholly old, wholly new, or has a journal that completes either.

All new contents, and all old ones, are in a folder of the package before a file changes. That folder, the journal,
appears by one rename, and disappears by one. While it exists, the package is between the two, no command uses it, and
either one can be completed from the journal, as often as this is interrupted. No step needs more than rename(2) of a
file, which NFS has too, and no file is replaced or removed while it is open.

    plan.json  the files, in the order in which they change; `undo.json` since the change is undone
    new/N      the new content of the file N, until it has replaced the old one
    old/N      the old content of the file N: a copy, or a link to a file that is too large to be edited
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
from typing import IO, TYPE_CHECKING, Any

from packager.base import atomic, plainfiles, workfolder
from packager.base.errors import ToolError, UsageError, VerificationError, reason
from packager.base.locks import lock
from packager.base.problems import Problem
from packager.base.values import Value
from packager.package.path_checks import ContentError, inactive, normalized

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

NAME = ".mlpack-upgrade"
"""The name of the journal in a package's folder."""

_PLAN, _UNDO = "plan.json", "undo.json"
_NEW, _OLD = "new", "old"
_MAX_BYTES = 16 << 20
_CHUNK = 1 << 20
_MOST_COPIED = 1 << 20
"""The most bytes of an old file that is copied into the journal."""

_MODES = {"0644": 0o644, "0755": 0o755}
_UNPACK = "its files may be of two versions: unpack the package again into another folder"


class Step(Value, frozen=True):
    """The change of one file.

    Attributes:
        path: The path below the package's root.
        before: The sha256 of the old content in hex; None for no file.
        mode: The new mode in octal; None if the file is removed.
        content: The new content: bytes, or a file on disk; None if the file is removed.
    """

    path: str
    before: str | None
    mode: str | None
    content: bytes | Path | None


def refuse_pending(folder: Path) -> None:
    """Refuse a package between its old and its new version.

    Raises:
        VerificationError: There is a journal.
    """
    if os.path.lexists(folder / NAME):
        raise VerificationError(
            f"an upgrade of {folder} was interrupted, and its files are of two versions",
            hint=f"`mlpack upgrade --continue {folder}` completes it, and --abort undoes it",
        )


def change(folder: Path, steps: Sequence[Step]) -> None:
    """Make the changes of all files, in their order.

    Raises:
        UsageError: There is a journal already.
        ToolError: A file has changed since it was read, or cannot be read or written; then nothing has changed, or the
            journal remains.
    """
    with atomic.folder(folder / NAME, exists_hint=f"mlpack upgrade --continue {folder}") as work:
        rows = []
        for name in (_NEW, _OLD):
            (work / name).mkdir()
        for number, step in enumerate(steps):
            digest = _stage(work / _NEW / str(number), step, _mode(folder / step.path, step))
            _keep(folder, step, work / _OLD / str(number))
            rows.append({"path": step.path, "before": step.before, "after": digest, "mode": step.mode})
        _write(work / _PLAN, json.dumps(rows).encode(), 0o644)
        for part in (work / _NEW, work / _OLD, work):
            _sync(part)
    _sync(folder)
    complete(folder)


def complete(folder: Path) -> None:
    """Complete the change that the journal describes, or its undoing if that has begun.

    Raises:
        UsageError: There is no journal, or another process works on it.
        VerificationError: The journal is damaged, or a file that would be replaced was edited; nothing has changed.
        ToolError: A file cannot be written; the journal remains.
    """
    with _opened(folder) as (rows, is_undone):
        _check_present(folder, rows, is_undone=is_undone)
        if is_undone:
            _undo(folder, rows)
        else:
            for number, row in enumerate(rows):
                _advance(folder, number, row)


def undo(folder: Path) -> None:
    """Restore the files as they were before the change that the journal describes. Raises as `complete`."""
    with _opened(folder) as (rows, is_undone):
        _check_present(folder, rows, is_undone=True)
        if not is_undone:
            (folder / NAME / _PLAN).rename(folder / NAME / _UNDO)
            _sync(folder / NAME)
        _undo(folder, rows)


def _stage(path: Path, step: Step, mode: int) -> str | None:
    """Write the new content of a file into the journal, and return its sha256; None if the file is removed."""
    return None if step.content is None else _write(path, step.content, mode)


def _mode(path: Path, step: Step) -> int:
    """Return the mode of a file after its change: of an existing file, only the bits to execute it change."""
    mode = _MODES[step.mode or "0644"]
    if step.before is None or not path.is_file():
        return mode
    present = path.stat().st_mode & 0o666
    return present | (present >> 2 & 0o111 if mode & 0o111 else 0)


def _write(path: Path, content: bytes | Path, mode: int) -> str:
    """Write a file and return its sha256; the file is on the disk afterwards."""
    hashed = hashlib.sha256()
    with path.open("wb") as stream:
        for chunk in _chunks(content):
            hashed.update(chunk)
            stream.write(chunk)
        os.fchmod(stream.fileno(), mode)
        stream.flush()
        os.fsync(stream.fileno())
    return hashed.hexdigest()


def _chunks(content: bytes | Path) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
        return
    with plainfiles.open_below(content.parent, content.name) as stream:
        while chunk := stream.read(_CHUNK):
            yield chunk


def _keep(folder: Path, step: Step, kept: Path) -> None:
    """Keep the old content of a file in the journal: of a large one, as a second link where that is possible.

    Raises:
        ToolError: The file is not the one that was read.
    """
    path = folder / step.path
    is_there = os.path.lexists(path) and not (step.before is None and path.is_dir())  # a folder that will be empty
    if is_there != (step.before is not None) or (is_there and _digest(path) != step.before):
        raise ToolError(f"{path} changed since it was read", hint="try again when no program is writing to it")
    if not is_there:
        return
    if path.stat().st_size <= _MOST_COPIED:  # an edit of the file would change a link too
        _copy(path, kept)
        return
    try:
        os.link(path, kept, follow_symlinks=False)
    except OSError:  # a file system without links
        _copy(path, kept)


def _copy(path: Path, kept: Path) -> None:
    _write(kept, path, 0o600)
    shutil.copystat(path, kept)


def _check_present(folder: Path, rows: Sequence[dict[str, Any]], *, is_undone: bool) -> None:
    """Check that no file which is replaced or removed next has another content than before or after the change.

    A missing file is accepted: so a user who has moved an edited file elsewhere can go on.

    Raises:
        VerificationError: There is such a file, or a kept old content has changed.
    """
    edited = []
    for number, row in enumerate(rows):
        path = _place(folder, row["path"])
        staged, kept = (folder / NAME / part / str(number) for part in (_NEW, _OLD))
        if is_undone:
            is_next = kept.exists() if row["before"] is not None else not staged.exists()
        else:
            is_next = row["mode"] is None or staged.exists()
        if is_next and os.path.lexists(path) and not _is_folder(path) and not _is_either(path, row):
            edited.append(Problem(str(path), 0, 0, "was edited since the upgrade began"))
        elif is_next and is_undone and kept.exists() and _digest(kept) != row["before"]:
            raise VerificationError(f"{kept} is damaged", hint=f"mlpack upgrade --continue {folder}")
    if edited:
        hint = "move these files elsewhere, run this again, and then make your edits again"
        raise VerificationError(f"{folder} was left as it is: edits would be lost", hint=hint, problems=edited)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _is_either(path: Path, row: dict[str, Any]) -> bool:
    """Whether a file has the content from before or after the change."""
    try:
        return _digest(path) in (row["before"], row["after"])
    except plainfiles.NotPlainError:
        return False


def _digest(path: Path) -> str:
    hashed = hashlib.sha256()
    for chunk in _chunks(path):
        hashed.update(chunk)
    return hashed.hexdigest()


def _advance(folder: Path, number: int, row: dict[str, Any]) -> None:
    """Make one change, unless it has been made."""
    path = _place(folder, row["path"])
    if row["mode"] is None:
        if _is_folder(path):  # of new files, which has replaced it
            return
        with contextlib.suppress(NotADirectoryError):  # a new file has replaced its folder
            path.unlink(missing_ok=True)
            _remove_empty(folder, path.parent)
            _sync_existing(path.parent)
        return
    staged = folder / NAME / _NEW / str(number)
    if not staged.exists():
        return
    if _digest(staged) != row["after"]:
        raise VerificationError(f"{staged} is damaged", hint=f"mlpack upgrade --abort {folder}")
    _make_parents(folder, path)
    staged.rename(path)
    _sync(path.parent)


def _undo(folder: Path, rows: Sequence[dict[str, Any]]) -> None:
    for number, row in reversed(list(enumerate(rows))):
        path = _place(folder, row["path"])
        kept = folder / NAME / _OLD / str(number)
        if row["before"] is None:
            with contextlib.suppress(NotADirectoryError):  # the file in place of its folder was restored
                if not (folder / NAME / _NEW / str(number)).exists() and not path.is_dir():  # a folder was restored
                    path.unlink(missing_ok=True)
                _remove_empty(folder, path.parent)
        elif kept.exists():
            if _is_folder(path):  # of new files, which are removed
                _remove_empty(folder, path)
            _make_parents(folder, path)
            kept.rename(path)
            kept.unlink(missing_ok=True)  # a rename to another link of the same file does nothing
        _sync_existing(path.parent)


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[tuple[list[dict[str, Any]], bool]]:
    """Lock the journal, and yield its rows and whether they are being undone; remove the journal afterwards."""
    journal = folder / NAME
    if not os.path.lexists(journal):
        raise UsageError(f"no upgrade of {folder} was interrupted")
    for part in (journal, journal / _NEW, journal / _OLD):
        if part.is_symlink():
            raise VerificationError(f"{part} is a link", hint=_UNPACK)
    try:
        is_undone = (journal / _UNDO).exists()
        with _plan(journal, _UNDO if is_undone else _PLAN) as stream:
            if lock(stream.fileno()) is False:
                raise UsageError(f"another process upgrades {folder}")
            yield _rows(stream.read(_MAX_BYTES), journal), is_undone
        _discard(folder)
    except OSError as error:
        message = f"{folder} cannot be upgraded: {reason(error)} ({error.filename or journal})"
        raise ToolError(message, hint=f"`mlpack upgrade --continue {folder}` completes it") from None


def _plan(journal: Path, name: str) -> IO[bytes]:
    """Open the plan of a journal.

    Raises:
        VerificationError: There is no plan, such as where the journal is not a folder.
        OSError: The plan cannot be opened.
    """
    try:
        return plainfiles.open_below(journal, name)
    except (plainfiles.NotPlainError, FileNotFoundError, NotADirectoryError):
        raise _unreadable(journal) from None


def _unreadable(journal: Path) -> VerificationError:
    return VerificationError(f"{journal} is not the journal of an upgrade that mlpack can read", hint=_UNPACK)


def _rows(content: bytes, journal: Path) -> list[dict[str, Any]]:
    """Return the content of a plan. Raises VerificationError when it is not one that `change` writes."""
    try:
        rows = json.loads(content)
        are_valid = isinstance(rows, list) and all(map(_is_row, rows))
    except (ValueError, TypeError, KeyError, ContentError, RecursionError):
        are_valid = False
    if not are_valid:
        raise _unreadable(journal)
    return list(rows)


def _is_row(row: Any) -> bool:
    """Return whether a value has the form of a row. Raises the errors of a value that has not."""
    if not isinstance(row, dict) or not isinstance(row["path"], str):
        return False
    is_path = inactive(normalized(row["path"])) == row["path"] != ""
    have_digests = all(row[key] is None or isinstance(row[key], str) for key in ("before", "after"))
    return is_path and row["mode"] in (None, *_MODES) and have_digests


def _place(folder: Path, path: str) -> Path:
    """Return the place of a file. Raises VerificationError when a link is on the way, which might lead elsewhere."""
    place = folder / path
    for parent in place.relative_to(folder).parents:
        if (folder / parent).is_symlink() and folder / parent != folder:
            raise VerificationError(f"{folder / parent} is a link")
    return place


def _make_parents(folder: Path, path: Path) -> None:
    for parent in reversed(path.relative_to(folder).parents[:-1]):
        step = folder / parent
        if not step.is_dir():
            step.mkdir()
            step.chmod(0o755)  # whatever the umask


def _remove_empty(folder: Path, parent: Path) -> None:
    """Remove a folder and those around it that are empty now, up to the package's."""
    while parent != folder:
        try:
            parent.rmdir()
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return
            raise
        parent = parent.parent


def _discard(folder: Path) -> None:
    """Remove the journal: by one rename into a work folder, which a later run removes if this one is killed."""
    with workfolder.beside(folder / NAME) as work:
        (folder / NAME).rename(work / workfolder.FOLDER)
        _sync(folder)


def _sync_existing(folder: Path) -> None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        _sync(folder)


def _sync(folder: Path) -> None:
    """Put the names in a folder on the disk, on a file system that can do so."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)

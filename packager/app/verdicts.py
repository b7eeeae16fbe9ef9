"""Remembers the packages that were verified on this machine: `push` and `upgrade` do not render them again.

`verify`, `stamp`, `push` and `upgrade` remember what they have verified.

A verdict is of all files of a package, edits included, as one kubectl renders them and the installed modules of mlpack
check them: after a change of any of these, it is not found. Only packages without problems have one.

Tests: cli/test_push_verdicts.py.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import packager
from packager.base import atomic, jsonio, privatefolder, process
from packager.base.errors import MlpackError
from packager.base.limits import DEFAULT
from packager.base.values import Value
from packager.package import integrity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.package.opened import Package
    from packager.verify import Checks
    from packager.verify.report import Report

_FILE = "verdicts/verdicts.json"
_MOST = 64
_BYTES = 1 << 20


class EarlierVerdict(Value, frozen=True):
    """A package without problems.

    Attributes:
        title: The title of its model; None if it was not read.
        renders: The digest of what each overlay renders to.
        images: The images of each overlay.
    """

    title: str | None
    renders: Mapping[str, str]
    images: Mapping[str, tuple[str, ...]]


NOTE = "verified before on this machine: not rendered again"
"""The note about a package that has a verdict."""


def of_package(cache: Path | None, package: Package, kubectl: str) -> EarlierVerdict | None:
    """Return the verdict about an open package; None if no verification of it was remembered.

    Args:
        cache: The folder of mlpack's caches; None for none.
        package: The package.
        kubectl: The kubectl that renders.

    Raises:
        ToolError: A folder of the package cannot be read.
    """
    received = None if cache is None else integrity.check(package, DEFAULT).received
    return None if cache is None or received is None else find(cache, received, kubectl)


def find(cache: Path, received: str, kubectl: str) -> EarlierVerdict | None:
    """Return the verdict about a package; None if no verification of it was remembered.

    Args:
        cache: The folder of mlpack's caches.
        received: The digest of all files of the package, as `integrity.received_digest` computes it.
        kubectl: The kubectl that renders.
    """
    entry = _read(cache / _FILE).get(_name(received, kubectl))
    title, renders, images = (
        entry.get(key) if isinstance(entry, dict) else None for key in ("title", "renders", "images")
    )
    if not isinstance(title, str | None) or not isinstance(renders, dict) or not isinstance(images, dict):
        return None
    return EarlierVerdict(title, renders, {overlay: tuple(names) for overlay, names in images.items()})


def keep(cache: Path | None, report: Report, checks: Checks, title: str | None = None) -> None:
    """Remember the verdict of a report, unless it has problems, or its checks were others than those of a push.

    Args:
        cache: The folder of mlpack's caches; nothing is remembered without one, or if it cannot be written.
        report: The report.
        checks: The options of the verification.
        title: The title of the package's model; None if it was not read.
    """
    # A Pod Security level that the user sets may accept what a push refuses.
    is_usual = len(checks.kubectls) == 1 and checks.limits == DEFAULT and not (checks.kubernetes or checks.allowed)
    is_usual = is_usual and checks.namespace is None and checks.level is None
    if cache is None or report.problems or report.unchecked or report.received is None or not is_usual:
        return
    path = cache / _FILE
    name = _name(report.received, checks.kubectls[0])
    entries = {key: value for key, value in _read(path).items() if key != name}
    recent = dict(list(entries.items())[-_MOST + 1 :])
    recent[name] = {
        "title": title,
        "renders": dict(report.renders),
        "images": {key: list(value) for key, value in report.images.items()},
    }
    with suppress(OSError, MlpackError):
        privatefolder.make(path.parent)
        with atomic.file(path) as stream:
            stream.write(jsonio.compact_bytes(recent))


def _read(path: Path) -> dict[str, Any]:
    """Return the verdicts in a file, the newest last; none if it cannot be read."""
    with suppress(OSError, MlpackError, jsonio.JsonError):
        if path.is_file():
            privatefolder.make(path.parent)  # another user's verdicts do not count
            with path.open("rb") as stream:
                return jsonio.read_object(stream.read(_BYTES))
    return {}


def _name(received: str, kubectl: str) -> str:
    """Return a name for a package, a kubectl and the installed modules."""
    path = process.find(kubectl) or kubectl
    with suppress(OSError):
        status = Path(path).stat()
        return f"{received} {path} {status.st_ino} {status.st_size} {status.st_mtime_ns} {_modules()}"
    return f"{received} without a kubectl"


def _modules() -> str:
    """Return a text that changes with the modules of mlpack."""
    statuses = [entry.stat(follow_symlinks=False) for entry in _files(str(Path(packager.__file__).parent))]
    newest, size = max(status.st_mtime_ns for status in statuses), sum(status.st_size for status in statuses)
    return f"{packager.__version__} {len(statuses)} {size} {newest}"


def _files(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                yield entry
            elif entry.name != "__pycache__":
                yield from _files(entry.path)

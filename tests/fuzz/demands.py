"""The demands on every input: a documented exit code, no traceback, no file outside, and no partial package."""

from __future__ import annotations

import contextlib
import io
import re
import signal
import sys
import traceback
from functools import cache
from typing import TYPE_CHECKING, Any
from unittest import mock

import typer

from packager import cli
from packager.base.errors import MlpackError
from packager.base.paths import DEFAULT_LIMITS
from packager.cli import verbs
from packager.kubernetes.kubectl.kustomize import Rendered
from packager.package import integrity as files
from packager.package.opened import opened
from tests.fuzz.runner import HangsError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packager.base.process import Runner
    from tests.fuzz.inputs import Input

_BESIDE = ".sigstore.json"
"""The end of the name of the file that `pull` writes beside a package."""

CODES = frozenset((0, 1, 2, 3, 4, 5, 6, 7, 8, 130))


def broken(tried: Input, folder: Path, temporary: Path) -> tuple[str | None, str]:
    """Run mlpack in this process, and return the violated demand, or None, and the output.

    Args:
        tried: The input.
        folder: The folder with the input and the destination.
        temporary: The folder for temporary files, which must be empty before and afterwards.
    """
    before = _outside(folder, tried.destination)
    code, output, failure = _run(tried)
    return failure or next(_broken_demands(tried, code, output, folder, temporary, before), None), output


def _broken_demands(
    tried: Input, code: Any, output: str, folder: Path, temporary: Path, before: list[tuple[str, int, int]]
) -> Iterator[str]:
    if code not in CODES:
        yield f"the exit code {code} is not in the table"
    if "Traceback" in output:
        yield "a traceback"
    if code and not re.search(r"error: |problem|not checked|Error|Usage|models were not built", output):
        yield f"it ended with {code} and said nothing of it"
    if left := [path.name for path in temporary.iterdir()]:
        yield f"temporary files were left: {left}"
    if _outside(folder, tried.destination) != before:
        yield "something was written outside of the destination"
    if tried.destination is not None:
        yield from _partial(tried.destination, edited=tried.edited)


def _run(tried: Input) -> tuple[Any, str, str | None]:
    output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    code: Any = None
    failure = None
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    stand_in = contextlib.nullcontext() if tried.real else mock.patch("packager.rendering.render.kustomize", _rendered)
    try:
        with (
            stand_in,
            mock.patch.object(sys, "argv", ["mlpack", *tried.argv]),
            mock.patch.object(cli, "app", _command()),
            mock.patch.object(verbs, "load", _LOAD),
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(output),
        ):
            cli.main()
    except SystemExit as end:
        code = end.code
    except HangsError:
        raise
    except BaseException:  # noqa: BLE001 - whatever comes out here is the find
        failure = traceback.format_exc(limit=-8)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert isinstance(output.buffer, io.BytesIO)
    return code, output.buffer.getvalue().decode("utf-8", "replace"), failure


# Each verb is loaded once, not for each input.
_LOAD = cache(verbs.load)


@cache
def _command() -> object:
    """Return the command line, built once for all inputs."""
    return typer.main.get_command(cli.app)


def _rendered(folder: Path, *, program: str = "kubectl", runner: Runner) -> Rendered:
    """Replace kubectl: return the overlay's manifests as they are written, mutations included."""
    del program, runner
    bases = sorted(folder.parents[3].glob("quickstart/**/base/*.yaml"))
    texts = [
        path.read_text(encoding="utf-8", errors="replace")
        for path in [*sorted(folder.glob("*.yaml")), *bases]
        if not path.name.startswith("kustomization")
    ]
    return Rendered("\n---\n".join(texts), ())


def _outside(folder: Path, destination: Path | None) -> list[tuple[str, int, int]]:
    paths = sorted(folder.rglob("*"))
    return [
        (str(path), path.lstat().st_size, path.lstat().st_mtime_ns)
        for path in paths
        if destination is None or destination not in (path, *path.parents)
    ]


def _partial(destination: Path, *, edited: bool) -> Iterator[str]:
    """Yield a message for each item in `destination` that is not a complete package as it was sealed, edits aside."""
    for path in sorted(destination.iterdir()):
        if path.name.endswith(_BESIDE):
            continue
        try:
            with opened(path) as package:
                checked = files.check(package, DEFAULT_LIMITS)
        except MlpackError as error:
            yield f"{path.name} was written, and cannot be opened: {error}"
        else:
            if checked.problems or (checked.edits and not edited):
                yield f"{path.name} was written, and is not as it was sealed: {checked.problems}, {checked.edits}"

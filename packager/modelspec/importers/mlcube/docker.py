"""Reads the options of `docker run` in a cube: some become options of a site.

Tests: modelspec/importers/mlcube/test_read.py.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from packager.base.problems import show
from packager.modelspec.importers.container import complaint_about
from packager.modelspec.importers.draft import with_option

if TYPE_CHECKING:
    from packager.modelspec.importers.draft import Sketch
    from packager.modelspec.importers.source import ForeignValue

_NOTHING = ("--gpus", "--rm", "--runtime", "--interactive", "--tty", "-it", "-i", "-t")
_WITH_VALUE = (
    "--shm-size",
    "--network",
    "--net",
    "--gpus",
    "--runtime",
    "--env",
    "-e",
    "--volume",
    "-v",
    "--ulimit",
    "--ipc",
    "--memory",
    "-m",
    "--cpuset-cpus",
    "--security-opt",
    "--user",
    "-u",
    "--name",
)


def words(entry: ForeignValue) -> list[str]:
    """Return the words of an entry; add a problem if a shell could not split it."""
    text = entry.text()
    try:
        return shlex.split(text or "")
    except ValueError:
        entry.refuse(f"expected words as a shell reads them, found {show(entry.value)}", "a quote is not closed")
        return []


def options(entry: ForeignValue) -> list[tuple[str, str]]:
    """Return the options of an entry, each with its value."""
    result: list[tuple[str, str]] = []
    rest = words(entry)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if not equals and name in _WITH_VALUE and rest:
            value = rest.pop(0)
        result.append((name, value))
    return result


def run_options(entry: ForeignValue, sketch: Sketch) -> None:
    """Carry over `gpu_args` or `cpu_args`; add a finding for each option that is not carried over unchanged."""
    for name, value in options(entry):
        if name == "--shm-size":
            size = _size(value)
            hint = with_option(sketch, "shared-memory", **({"SHM_SIZE": size} if size else {}))
            lost = "" if size else ", without this size"
            entry.leave(f"--shm-size {value} is the option shared-memory of a site{lost}", hint)
        elif name in ("--network", "--net") and value == "host":
            entry.leave("--network=host is the option host-network of a site", "--with host-network, if needed")
        elif name not in _NOTHING:
            entry.leave(f"{f'{name}={value}' if value else name} is not carried over")
    entry.done()


def _size(text: str) -> str | None:
    """Return a size of docker (`1g`, `512m`) as a quantity."""
    match = re.fullmatch(r"([0-9]{1,9})([bkmgBKMG]?)[bB]?", text)
    if match is None:
        return None
    return match[1] + {"": "", "b": "", "k": "Ki", "m": "Mi", "g": "Gi"}[match[2].lower()]


def variables(entry: ForeignValue, sketch: Sketch) -> None:
    """Carry over `env_args`: put each `-e KEY=VALUE` into the environment."""
    for name, value in options(entry):
        if name not in ("-e", "--env"):
            entry.leave(f"{f'{name}={value}' if value else name} is not carried over")
            continue
        key, equals, text = value.partition("=")
        complaint = complaint_about(key, text)
        if not equals:
            entry.leave(f"{show(key)} is not carried over: its value is the user's own")
        elif complaint:
            entry.leave(f"{show(key)} is not carried over: {complaint}")
        else:
            sketch.put(("environment", key), text, entry.origin)
    entry.done()

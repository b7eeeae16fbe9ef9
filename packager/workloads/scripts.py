"""The scripts that pods run, as their manifests name them: the user's choice of one, and the one that fetches files.

Tests: configure/test_changes.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.problems import show, similar
from packager.base.values import Value
from packager.kubernetes.manifest import mapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.workloads.pods import Pods

CHOICE = "SCRIPT"
"""The variable that says which of several scripts runs."""

_SCRIPTS = "mlpack/scripts"
"""The annotation of pods that lists the scripts among which CHOICE chooses."""

FETCH = "/etc/mlpack/runtime/sources.sh"
"""The script that fetches files. Its arguments: five for each source, `--`, and the program that follows."""

_WORDS, _NONE = 5, "-"


class FetchedSource(Value, frozen=True):
    """A source that pods fetch, as the arguments of the script: words that an edit may have changed."""

    address: str  # the place that it is fetched from
    path: str  # the file or the folder that it becomes
    sha256: str | None  # the digest of the file; None where the address names a commit or a digest
    size: str  # the most bytes, and those of a file
    secret: str | None  # the variable with the token; None without one


def fetched(command: Sequence[str]) -> Iterator[tuple[int, FetchedSource]]:
    """Yield the sources that the command of a container fetches, and the index of the first word of each."""
    if FETCH not in command or "--" not in command:
        return
    for index in range(command.index(FETCH) + 1, command.index("--") - _WORDS + 1, _WORDS):
        address, path, digest, size, secret = command[index : index + _WORDS]
        sha256 = None if digest == _NONE else digest
        yield index, FetchedSource(address, path, sha256, size, None if secret == _NONE else secret)


def choices(pods: Pods) -> tuple[str, ...]:
    """Return the scripts among which the user of pods chooses by CHOICE; none where there is nothing to choose."""
    listed = mapping(pods.metadata.get("annotations")).get(_SCRIPTS)
    return tuple(str(listed).split()) if listed is not None else ()


def wrong_choice(value: str, scripts: Sequence[str]) -> tuple[str, str | None]:
    """Return the message for a value of CHOICE that is not one of `scripts`, and the fix if there is a similar one."""
    return f"expected one of {', '.join(scripts)}, found {show(value)}", similar(value, scripts)

"""Program: what the main container starts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base.values import Value
from packager.package.layout import SCRIPTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Kubernetes, third_party/forked/golang/expansion: `$$` means one `$`, whatever follows.
_REFERENCES = re.compile(r"\$\$|\$\(([^)]*)\)")


class Program(Value, frozen=True):
    """What a container starts, as Kubernetes takes it: `$(KEY)` in a word becomes the value of an environment variable.

    Attributes:
        command: In place of the image's ENTRYPOINT; empty for that.
        args: In place of the image's CMD; empty for that, or for nothing where there is a command.
        directory: Where it starts; None for the image's working directory, to which relative words refer.
    """

    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    directory: str | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The command and what it is given."""
        return (*self.command, *self.args)


def of_script(script: str, starter: Sequence[str] = ()) -> Program:
    """Return the program that is a file of the package, below quickstart/scripts, started by `starter`."""
    # ROOT, if it is not replaced, is a folder at the root for the kubelet that mounts the files there.
    return Program((*starter, f"$(MODEL_DIR)/{SCRIPTS}/{script}"), directory="/")


def references(word: str) -> Iterator[str]:
    """Yield each KEY of `$(KEY)` that Kubernetes looks up for `word`."""
    return (match[1] for match in _REFERENCES.finditer(word) if match[1] is not None)

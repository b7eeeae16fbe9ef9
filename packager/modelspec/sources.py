"""Checks the sources of a spec: the files that pods fetch before their program starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.modelspec.model import Spec

_FOLDERS = ("OUTPUT_DIR", "CHECKPOINT_DIR")
"""The variables of the folders that pods of every package can write to, if they are set."""


def check(spec: Spec) -> Iterator[Fault]:
    """Yield a fault for each source whose folder is not writable, whose secret is missing, or whose place is taken."""
    taken: set[str] = set()
    for index, source in enumerate(spec.sources):
        place = ("sources", index)
        variable = source.to.partition("/")[0]
        if variable not in _FOLDERS or (variable == "CHECKPOINT_DIR" and variable not in spec.environment):
            message = f"{variable} is not a folder that the pods of this model can write to"
            yield Fault((*place, "to"), message, "OUTPUT_DIR always is", needs=((*place, "to"), ("environment",)))
        if source.secret is not None and source.secret not in spec.secrets:
            yield Fault((*place, "secret"), f"{source.secret!r} is not one of `secrets`", "add it there")
        if source.secret is not None and not source.address.startswith("https://"):
            yield Fault((*place, "from"), "a secret is only sent by https", "use https://…")
        if source.to in taken:
            yield Fault((*place, "to"), f"another source has the place {source.to!r}", "use another path")
        taken.add(source.to)

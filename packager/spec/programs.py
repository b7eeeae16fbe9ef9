"""Checks the program of each overlay of a spec: a script, a command with arguments, or the image's entrypoint."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

from packager.base.faults import Fault
from packager.base.problems import show, similar
from packager.package.layout import SCRIPTS
from packager.workloads.program import references

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.base.yamlio import Location
    from packager.spec.model import Spec
    from packager.workloads import AnyOverlay

_BYTES = 64 << 10
"""How much a command may take, of the 256 KiB that kubectl keeps of an object, which may name it once a role."""

_KEYS = ("command", "args")

_GIVEN = ("REGISTRY", "DATASET_DIR", "MODEL_DIR", "OUTPUT_DIR", "HOME")
"""What every container finds in its environment."""

_KUBERNETES = ("KUBERNETES_", "MLPACK_")
"""How the names begin of what Kubernetes and the package add to it."""


def check(spec: Spec) -> Iterator[Fault]:
    """Yield the problems of the programs of the overlays of `spec`."""
    yield from _choices(spec)
    for name, overlay in spec.overlays.items():
        yield from (fault.below(("overlays", name)) for fault in _words(overlay))
    yield from _unknown(spec)


def _choices(spec: Spec) -> Iterator[Fault]:
    """Check that each overlay has exactly one program, and that its script exists."""
    seen: set[tuple[str, str | None]] = set()
    idle: set[int] = set()
    for index, name in spec.pairs():
        overlay, variant = spec.overlays[name], spec.variants[index]
        place = ("overlays", name)
        needs = (place, ("variants", index))
        own = next((key for key in _KEYS if getattr(overlay, key) is not None), None)
        if variant.script is None and own is None and spec.files:
            if index not in idle:
                idle.add(index)
                message = f"the key 'script' is missing, and the overlay {name!r} has no `command` and no `args`"
                hint = "to run the image's own entrypoint with `files` beside it, give the overlay `command: []`"
                yield Fault(("variants", index), message, hint, needs=(*needs, ("files",)))
            continue
        if (name, variant.script) in seen:
            continue
        seen.add((name, variant.script))
        if variant.script is not None and own is not None:
            message = f"the variant {variant.label!r} runs the script {variant.script!r} in this overlay already"
            hint = f"remove one of them; $(MODEL_DIR)/{SCRIPTS}/{variant.script} is the script for a command"
            yield Fault((*place, own), message, hint, at_key=True, needs=needs)
            continue
        for fault in overlay.program_faults(variant.script):
            yield replace(fault.below(place), needs=needs)


def _words(overlay: AnyOverlay) -> Iterator[Fault]:
    """Check that a command begins with a program, and is not too long."""
    for location, words, _ in overlay.words():
        if location[-1] == "command" and words and not words[0].strip():
            yield Fault((*location, 0), f"expected a program, found {show(words[0])}")
        size = sum(len(word.encode()) for word in words)
        if size > _BYTES:
            message = f"the words take {size / 1024:.0f} KiB; at most {_BYTES >> 10} KiB fit"
            yield Fault(location, message, "put them into a file", at_key=True)


def _unknown(spec: Spec) -> Iterator[Fault]:
    """Find references to variables that the container does not have: Kubernetes would leave them unexpanded.

    Only names in capitals: `$(date)` may be intended for a shell, which receives it unchanged.
    """
    seen = set()
    for index, name in spec.pairs():
        overlay = spec.overlays[name]
        common = (*_GIVEN, *itertools.chain(*spec.environments(spec.variants[index], name)))
        for location, words, own in overlay.words():
            known = (*common, *own)
            for place, variable in _references(("overlays", name, *location), words):
                if variable not in known and (place, variable) not in seen:
                    seen.add((place, variable))
                    hint = overlay.missing_reason(variable) or similar(variable, known)
                    hint = hint or f"add it to `environment`, or write $$({variable}) to keep it"
                    needs = (place, ("environment",), ("variants", index), ("overlays", name))
                    yield Fault(place, f"no variable {variable!r} in mlops.env", hint, needs=needs)


def _references(location: Location, words: Sequence[str]) -> Iterator[tuple[Location, str]]:
    """Yield each variable that `words` name and that has to be one of a container's, and which word names it."""
    for position, word in enumerate(words):
        for variable in references(word):
            if variable.isidentifier() and variable.isupper() and not variable.startswith(_KUBERNETES):
                yield (*location, position), variable

"""Checks the program of each overlay of a spec: a script, a command with arguments, or the image's entrypoint."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from packager.base.problems import Fault, show, similar
from packager.kubernetes import configmap
from packager.package.layout import SCRIPTS
from packager.workloads.program import CHOICE, references

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.base.yamlio import Location
    from packager.modelspec.model import AnyOverlay, Spec, Variant
    from packager.workloads.program import Init

_BYTES = 64 << 10
"""The bytes of a command, of the 256 KiB that kubectl keeps of an object, which may repeat it for each role."""

_GIVEN = ("REGISTRY", "IMAGE", "MODEL_DIR", "OUTPUT_DIR", "HOME")
"""The variables that every container has in its environment."""

_KUBERNETES = ("KUBERNETES_", "MLPACK_")
"""The prefixes of variables that Kubernetes and the package add."""


def check(spec: Spec) -> Iterator[Fault]:
    """Yield the problems of the programs of the overlays of `spec`."""
    yield from _scripts(spec)
    yield from _choices(spec)
    yield from _words(spec)
    yield from _unknown(spec)
    for index, name in enumerate(spec.sequence):
        if name not in spec.overlays:
            hint = similar(name, list(spec.overlays)) or f"the overlays are: {', '.join(spec.overlays)}"
            yield Fault(("sequence", index), f"overlay {name!r} not found", hint)


def warnings(spec: Spec) -> Iterator[Fault]:
    """Yield roles of which it is not checked whether their pods meet, and overlays that never end in a sequence."""
    for index, name in enumerate(spec.sequence[:-1]):
        if spec.overlays[name].serves:
            following = spec.sequence[index + 1]
            message = f"{name!r} does not end: {following!r} starts when it serves, and runs beside it"
            hint = "put it at the end, unless those after it need it"
            yield Fault(("sequence", index), message, hint)
    for name in spec.overlays:
        runs = [spec.overlays[name].run(spec.variants[index].run) for index, other in spec.pairs() if other == name]
        for role in dict.fromkeys(role for run in runs for role in spec.overlays[name].unchecked(run)):
            message = f"it is not checked whether the pods of {role} meet: they run the image's own entrypoint"
            hint = "write it as `command`, or set `checks_world: false`"
            yield Fault(("overlays", name), message, hint, at_key=True)


def _choices(spec: Spec) -> Iterator[Fault]:
    """Check that each overlay has exactly one program, and that its script exists."""
    seen: set[tuple[str, tuple[str, ...]]] = set()
    idle: set[int] = set()
    for index, name in spec.pairs():
        variant = spec.variants[index]
        overlay = spec.planned_overlay(variant, name)
        run = overlay.run(variant.run)
        place = ("overlays", name)
        if (
            not run.scripts
            and not overlay.has_program
            and any(names for place, names in spec.code_lists() if place in spec.code_places(index))
        ):
            if index not in idle:
                idle.add(index)
                message = f"the key 'script' is missing, and the overlay {name!r} has no `command` and no `args`"
                hint = "to run the image's own entrypoint with `files` beside it, give the overlay `command: []`"
                yield Fault(("variants", index), message, hint)
            continue
        scripts = run.scripts or variant.run.scripts
        if (name, scripts) in seen:
            continue
        seen.add((name, scripts))
        if variant.run.scripts and overlay.command is not None:
            script = variant.run.scripts[0]
            message = f"the variant {variant.label!r} runs the script {script!r} in this overlay already"
            hint = f"remove one of them; $(MODEL_DIR)/{SCRIPTS}/{script} is the script for a command"
            yield Fault((*place, "command"), message, hint, at_key=True)
            continue
        for fault in overlay.program_faults(run):
            yield fault.below(place)


def _scripts(spec: Spec) -> Iterator[Fault]:
    """Check that each variant and overlay names its scripts once, and that arguments are for one."""
    for index, variant in enumerate(spec.variants):
        yield from _names(variant, ("variants", index))
        yield from _init(variant.init, ("variants", index, "init"))
        runs = [spec.overlays[name].run(variant.run) for number, name in spec.pairs() if number == index]
        if variant.args is not None and not any(run.scripts for run in runs):
            message = "there is no script that the arguments are for"
            yield Fault(("variants", index, "args"), message, "set `script`, or `args` in the overlay", at_key=True)
    for name, overlay in spec.overlays.items():
        yield from _names(overlay, ("overlays", name))
        yield from _init(overlay.init, ("overlays", name, "init"))
        if overlay.command is not None and (overlay.script or overlay.scripts):
            message = "the overlay runs a script already"
            yield Fault(("overlays", name, "command"), message, "remove one of them", at_key=True)


def _init(init: Init | None, place: Location) -> Iterator[Fault]:
    if init is not None:
        yield from (fault.below(place) for fault in init.faults())


def _names(holder: Variant | AnyOverlay, place: Location) -> Iterator[Fault]:
    if holder.script is not None and holder.scripts is not None:
        yield Fault((*place, "scripts"), "expected either `script` or `scripts`, found both", at_key=True)
    for position, script in enumerate(holder.scripts or ()):
        if script in (holder.scripts or ())[:position]:
            yield Fault((*place, "scripts", position), f"duplicate entry {script!r}", "remove one of them")


def _words(spec: Spec) -> Iterator[Fault]:
    """Check that a command begins with a program, and is not too long."""
    for place, words in _lists(spec):
        if place[-1] == "command" and words and not words[0].strip():
            yield Fault((*place, 0), f"expected a program, found {show(words[0])}")
        for position, word in enumerate(words):
            if configmap.unreadable_reason(word.encode()):  # a word has no character that is refused
                message = "a text of several lines begins with a tab: kubectl cannot read it in a manifest"
                yield Fault((*place, position), message, "begin it with a line end, or put it into a file")
        size = sum(len(word.encode()) for word in words)
        if size > _BYTES:
            message = f"the words take {size / 1024:.0f} KiB; at most {_BYTES >> 10} KiB fit"
            yield Fault(place, message, "put them into a file", at_key=True)


def _lists(spec: Spec) -> Iterator[tuple[Location, Sequence[str]]]:
    """Yield each list of words of the spec, and its location."""
    for index, variant in enumerate(spec.variants):
        yield ("variants", index, "args"), variant.args or ()
        yield from ((("variants", index, *location), words) for location, words in _of_init(variant.init))
    for name, overlay in spec.overlays.items():
        for location, words, _ in overlay.words():
            yield ("overlays", name, *location), words
        yield from ((("overlays", name, *location), words) for location, words in _of_init(overlay.init))


def _of_init(init: Init | None) -> Iterator[tuple[Location, Sequence[str]]]:
    if init is not None:
        yield ("init", "command"), init.command or ()
        yield ("init", "args"), init.args or ()


def _unknown(spec: Spec) -> Iterator[Fault]:
    """Find references to variables that the container does not have: Kubernetes would leave them unexpanded.

    Only names in capitals: `$(date)` may be intended for a shell, which receives it unchanged.
    """
    seen = set()
    for index, name in spec.pairs():
        variant = spec.variants[index]
        overlay = spec.planned_overlay(variant, name)
        run = overlay.run(variant.run)
        optional = (*(("DATASET_DIR",) if spec.dataset else ()), *((CHOICE,) if run.is_choice else ()))
        amounts = [amount.key for amount in overlay.amounts(run)]
        common = (*_GIVEN, *optional, *amounts, *spec.secrets, *itertools.chain(*spec.environments(variant, name)))
        lists = [
            (("overlays", name, *location), words, role_variables)
            for location, words, role_variables in overlay.words()
        ]
        if run.scripts and overlay.args is None:
            variables_of_args = next(
                role_variables for location, _, role_variables in overlay.words() if location == ("args",)
            )
            lists.append((("variants", index, "args"), variant.args or (), variables_of_args))
        for holder, init in ((("variants", index), variant.init), (("overlays", name), overlay.init)):
            if init is run.init:
                lists += [((*holder, *location), words, ()) for location, words in _of_init(init)]
        for location, words, role_variables in lists:
            variables = (*common, *role_variables)
            named = [((*location, position), name) for position, word in enumerate(words) for name in references(word)]
            for place, variable in named:
                is_checked = variable.isidentifier() and variable.isupper() and not variable.startswith(_KUBERNETES)
                if is_checked and variable not in variables and (place, variable) not in seen:
                    seen.add((place, variable))
                    hint = overlay.missing_reason(variable) or similar(variable, variables)
                    hint = hint or f"add it to `environment`, or write $$({variable}) to keep it"
                    yield Fault(place, f"no variable {variable!r} in mlops.env", hint)

"""Checks the program of each overlay of a spec: a script, a command with arguments, or the image's entrypoint.

Tests: modelspec/test_code.py.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from packager.base.problems import Fault, show, similar
from packager.base.values import replace
from packager.kubernetes import configmap
from packager.package.layout import SCRIPTS
from packager.workloads.program import CHOICE, references

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.base.yamlio import Location
    from packager.modelspec.model import AnyOverlay, Spec, Variant
    from packager.workloads.program import Init

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
            yield Fault(("sequence", index), f"overlay {name!r} not found", hint, needs=(("overlays",),))


def warnings(spec: Spec) -> Iterator[Fault]:
    """Yield roles of which it is not checked whether their pods meet."""
    for name in spec.overlays:
        runs = [run for _, other, _, run in spec.runs() if other == name]
        for role in dict.fromkeys(role for run in runs for role in spec.overlays[name].unchecked(run)):
            message = f"it is not checked whether the pods of {role} meet: they run the image's own entrypoint"
            hint = "write it as `command`, or set `checks_world: false`"
            yield Fault(("overlays", name), message, hint, at_key=True)


def _choices(spec: Spec) -> Iterator[Fault]:
    """Check that each overlay has exactly one program, and that its script exists."""
    for index, name, overlay, run in spec.runs():
        variant, place = spec.variants[index], ("overlays", name)
        needs = (("files",), place, ("variants", index))
        has_code = any(names for place, names in spec.code_lists() if place in spec.code_places(index))
        if not run.scripts and not overlay.has_program and has_code:
            message = f"the key 'script' is missing, and the overlay {name!r} has no `command` and no `args`"
            hint = "to run the image's own entrypoint with `files` beside it, give the overlay `command: []`"
            yield Fault(("variants", index), message, hint, needs=needs)
        elif variant.run.scripts and overlay.command is not None:
            script = variant.run.scripts[0]
            message = f"the variant {variant.label!r} runs the script {script!r} in this overlay already"
            hint = f"remove one of them; $(MODEL_DIR)/{SCRIPTS}/{script} is the script for a command"
            yield Fault((*place, "command"), message, hint, at_key=True, needs=needs)
        else:
            yield from (replace(fault.below(place), needs=needs) for fault in overlay.program_faults(run))


def _holders(spec: Spec) -> dict[Location, Variant | AnyOverlay]:
    """Return the variants and the overlays by their locations."""
    holders: dict[Location, Variant | AnyOverlay] = {
        ("variants", index): variant for index, variant in enumerate(spec.variants)
    }
    return holders | {("overlays", name): overlay for name, overlay in spec.overlays.items()}


def _scripts(spec: Spec) -> Iterator[Fault]:
    """Check that each variant and overlay names its scripts in one way, and that arguments are for one."""
    for place, holder in _holders(spec).items():
        if holder.script is not None and holder.scripts is not None:
            message = "expected either `script` or `scripts`, found both"
            yield Fault((*place, "scripts"), message, at_key=True, needs=((*place, "script"),))
        if holder.init is not None:
            yield from (fault.below((*place, "init")) for fault in holder.init.faults())
    for index, variant in enumerate(spec.variants):
        has_script = any(run.scripts for number, _, _, run in spec.runs() if number == index)
        if variant.args is not None and not has_script:
            message = "there is no script that the arguments are for"
            hint = "set `script`, or `args` in the overlay"
            needs = (("overlays",), ("variants", index), *(("overlays", name) for name in spec.overlays))
            yield Fault(("variants", index, "args"), message, hint, at_key=True, needs=needs)
    for name, overlay in spec.overlays.items():
        if overlay.command is not None and (overlay.script or overlay.scripts):
            message = "the overlay runs a script already"
            yield Fault(("overlays", name, "command"), message, "remove one of them", at_key=True)


def _words(spec: Spec) -> Iterator[Fault]:
    """Check that a command begins with a program, and that kubectl can read its words."""
    for place, words in _lists(spec):
        if place[-1] == "command" and words and not words[0].strip():
            yield Fault((*place, 0), f"expected a program, found {show(words[0])}")
        for position, word in enumerate(words):
            if configmap.unreadable_reason(word.encode()):  # a word has no character that is refused
                message = "a text of several lines begins with a tab: kubectl cannot read it in a manifest"
                yield Fault((*place, position), message, "begin it with a line end, or put it into a file")


def _lists(spec: Spec) -> Iterator[tuple[Location, Sequence[str]]]:
    """Yield each list of words of the spec, and its location."""
    for index, variant in enumerate(spec.variants):
        yield ("variants", index, "args"), variant.args or ()
    for name, overlay in spec.overlays.items():
        yield from ((("overlays", name, *location), words) for location, words, _ in overlay.words())
    for place, holder in _holders(spec).items():
        yield from (((*place, *location), words) for location, words in _of_init(holder.init))


def _of_init(init: Init | None) -> Iterator[tuple[Location, Sequence[str]]]:
    if init is not None:
        yield ("init", "command"), init.command or ()
        yield ("init", "args"), init.args or ()


def _unknown(spec: Spec) -> Iterator[Fault]:
    """Find references to variables that the container does not have: Kubernetes would leave them unexpanded.

    Only names in capitals: `$(date)` may be intended for a shell, which receives it unchanged.
    """
    for index, name, overlay, run in spec.runs():
        variant = spec.variants[index]
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
                if is_checked and variable not in variables:
                    hint = overlay.missing_reason(variable) or similar(variable, variables)
                    hint = hint or f"add it to `environment`, or write $$({variable}) to keep it"
                    needs = (("environment",), ("secrets",), ("dataset",), ("overlays", name), ("variants", index))
                    yield Fault(place, f"no variable {variable!r} in mlops.env", hint, needs=needs)

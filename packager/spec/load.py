"""YAML -> Spec: reads a spec file, applies `--set`, and says everything that is wrong with it at once."""

from __future__ import annotations

import hashlib
import re
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from packager import yamlio
from packager.contents import shown
from packager.errors import SpecError, UsageError, reason
from packager.problems import Problem, show
from packager.spec import check
from packager.spec.files import Sources, collect
from packager.spec.model import Spec
from packager.spec.schema import takes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from packager.spec.findings import Finding
    from packager.yamlio import Document, Location


@dataclass(frozen=True, slots=True)
class Setting:
    """One `--set PATH=VALUE`.

    Attributes:
        argument: As it was given.
        location: Where in the spec.
        value: What stands there instead.
    """

    argument: str
    location: Location
    value: str

    @property
    def label(self) -> str:
        """How problems name it, in place of a file."""
        return shown(f"--set {self.argument.partition('=')[0]}")


@dataclass(frozen=True, slots=True)
class LoadedSpec:
    """A valid spec with the files that it names.

    Attributes:
        spec: The values.
        path: The spec file.
        text: Its bytes, as they travel in the package.
        sources: The files that the spec names.
        settings: What `--set` changed in it.
    """

    spec: Spec
    path: Path
    text: bytes
    sources: Sources
    settings: tuple[Setting, ...]

    @property
    def digest(self) -> str:
        """The sha256 of the spec file, in hex."""
        return hashlib.sha256(self.text).hexdigest()


def parse_setting(argument: str) -> Setting:
    r"""Read `a.b.0.c=VALUE`; a dot inside a key is written `\.`, as in `helm --set`.

    Raises:
        UsageError: There is no `=`, a step of the path is empty, or it is not UTF-8.
    """
    path, equals, value = argument.partition("=")
    steps = [step.replace("\0", ".") for step in path.replace(r"\.", "\0").split(".")]
    if not equals or not all(steps):
        raise UsageError(f"--set {shown(argument)}: expected PATH=VALUE, such as environment.STEPS=100")
    if not argument.isascii() and any("\ud800" <= character <= "\udfff" for character in argument):
        raise UsageError(f"--set {shown(argument)}: expected UTF-8 text")
    return Setting(
        argument, tuple(int(step) if re.fullmatch("0|[1-9][0-9]{0,5}", step) else step for step in steps), value
    )


def load(path: Path, settings: Sequence[Setting] = ()) -> LoadedSpec:
    """Read the spec at `path` with `settings` applied, and check it and the files that it names.

    Raises:
        SpecError: It is not valid; `problems` holds everything that is wrong with it.
    """
    name = str(path)
    try:
        with path.open("rb") as stream:
            text = stream.read(yamlio.MAX_BYTES + 1)
    except OSError as error:
        raise SpecError(f"{name}: {reason(error)}") from None
    document, problems = yamlio.load(text, name)
    if document.root is None:
        raise _invalid(name, problems or [Problem(name, 1, 1, "the file is empty", "`mlpack init NAME` writes one")])
    data = deepcopy(document.data) if settings else document.data
    for setting in settings:
        problems.extend(_apply(data, setting))

    spec, faults, doubtful = _convert(data)
    problems.extend(_place(document, settings, fault) for fault in faults)
    if spec is not None:
        sources, found = collect(path.parent, spec)
        found.extend(check.check(spec, sources))
        sound = (fault for fault in found if not fault.rests_on(doubtful))
        problems.extend(_place(document, settings, fault) for fault in sound)
        if not problems:
            return LoadedSpec(spec, path, text, sources, tuple(settings))
    raise _invalid(name, problems)


def _convert(data: Any) -> tuple[Spec | None, list[Finding], list[Location]]:
    """Return the spec, what is wrong with its types, and where.

    A spec with wrong types comes back with stand-ins in these places, so that the rest can be judged in the same
    run; None when no stand-ins will do.
    """
    try:
        return msgspec.convert(data, Spec), [], []
    except msgspec.ValidationError as error:
        first = str(error)
    # Costs a slow import (60 ms), which only a wrong spec pays for.
    from packager.spec.findings import Finding, findings, mended  # noqa: PLC0415

    faults = findings(data) or [Finding((), first)]
    doubtful = [fault.location for fault in faults]
    attempt = mended(data, faults)
    for _ in range(3):  # a stand-in may disagree with what stands beside it: a kind with another kind's keys
        try:
            return msgspec.convert(attempt, Spec), faults, doubtful
        except msgspec.ValidationError:
            more = findings(attempt)
            doubtful.extend(fault.location for fault in more)
            attempt = mended(attempt, more)
    return None, faults, doubtful


def _apply(data: Any, setting: Setting) -> list[Problem]:
    """Put the value where the setting says, making lists and mappings on the way."""
    value: Any = yamlio.scalar(setting.value)
    if not isinstance(value, str) and not takes(setting.location, value):
        value = setting.value
    holder = data
    for depth, step in enumerate(setting.location):
        if isinstance(holder, list):
            if not isinstance(step, int) or step > len(holder):
                message = f"expected an item's number, 0 to {len(holder)}, found {step!r}"
                return [Problem(setting.label, 0, 0, message)]
            if step == len(holder):
                holder.append(None)
            key: Any = step
        elif isinstance(holder, dict):
            key = str(step)
            holder.setdefault(key, None)
        else:
            above = ".".join(str(step) for step in setting.location[:depth])
            return [Problem(setting.label, 0, 0, f"expected {above or 'the spec'} to have keys, found {show(holder)}")]
        if depth == len(setting.location) - 1:
            _replace(holder, key, value)
        elif holder[key] is None:
            holder[key] = [] if isinstance(setting.location[depth + 1], int) else {}
        holder = holder[key]
    return []


def _replace(holder: Any, key: Any, value: Any) -> None:
    """Set `holder[key]`; of a parameter, its value, so that its description stays."""
    there = holder[key]
    if isinstance(there, dict) and "value" in there:
        there["value"] = value
    else:
        holder[key] = value


def _place(document: Document, settings: Sequence[Setting], fault: Finding | check.Fault) -> Problem:
    """Return the fault with its place: a setting, when what is wrong came by it, or else the file's."""
    there = document.depth(fault.location)
    for setting in reversed(settings):
        common = _common(setting.location, fault.location)
        if common == len(setting.location) or there < common:
            return Problem(setting.label, 0, 0, fault.message, fault.hint)
    return document.problem(fault.location, fault.message, hint=fault.hint, at_key=fault.at_key)


def _common(one: Location, other: Location) -> int:
    """Return how many steps two locations have in common from the top."""
    same = [str(left) == str(right) for left, right in zip(one, other, strict=False)]
    return (*same, False).index(False)


def _invalid(name: str, problems: list[Problem]) -> SpecError:
    count = f"{len(problems)} problems" if len(problems) > 1 else "1 problem"
    ordered = sorted(problems, key=lambda problem: (problem.file, problem.line, problem.column))
    return SpecError(f"{name} is not a valid spec: {count}", problems=ordered)

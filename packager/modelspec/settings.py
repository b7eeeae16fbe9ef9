"""Parses `--set PATH=VALUE` and `--add PATH=VALUE`, and applies them to a spec. Tests: modelspec/test_load.py."""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Any

from packager.base import envfile, yamlio
from packager.base.errors import UsageError
from packager.base.problems import Problem, show, similar
from packager.base.values import Value
from packager.kubernetes.containers import MOUNTED, refusal_reason
from packager.modelspec.schema import accepts
from packager.package.path_checks import shown
from packager.workloads.program import CHOICE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from packager.base.yamlio import Location

_CHECKED_LATER = frozenset(("MODEL_DIR", "REGISTRY", "IMAGE", CHOICE))
"""Variables that every package has, for which the checks of a spec name another option."""


class Setting(Value, frozen=True):
    """One `--set PATH=VALUE`, or `--add PATH=VALUE`."""

    argument: str  # the text on the command line
    location: Location  # the place in the spec
    value: str  # the new value
    option: str = "--set"  # of the command line

    @property
    def adds(self) -> bool:
        """Whether it adds an environment variable that the spec does not have."""
        return self.option == "--add"

    @property
    def label(self) -> str:
        """The name of the setting in problems, in place of a file."""
        return shown(f"{self.option} {self.argument.partition('=')[0]}")

    @property
    def variable(self) -> str | None:
        """The environment variable that it is about, of the spec, a variant or an overlay; None without one."""
        holders = {"variants": 2, "overlays": 2}
        steps = self.location[holders.get(str(self.location[0]), 0) :]
        return str(steps[1]) if len(steps) > 1 and steps[0] == "environment" else None


def parse_setting(
    argument: str, example: str = "environment.STEPS=100", *, adds: bool = False, option: str = "--set"
) -> Setting:
    r"""Read `a.b.0.c=VALUE` of `--set`, or of `--add`; a dot inside a key is written `\.`, as in `helm --set`.

    Raises:
        UsageError: There is no `=`, a step of the path is empty, it is not UTF-8, or it adds no variable.
    """
    option = "--add" if adds else option
    path, equals, value = argument.partition("=")
    steps = [step.replace("\0", ".") for step in path.replace(r"\.", "\0").split(".")]
    if not equals or not all(steps):
        raise UsageError(f"{option} {shown(argument)}: expected PATH=VALUE, such as {example}")
    if not argument.isascii() and any("\ud800" <= character <= "\udfff" for character in argument):
        raise UsageError(f"{option} {shown(argument)}: expected UTF-8 text")
    location = tuple(int(step) if re.fullmatch("0|[1-9][0-9]{0,5}", step) else step for step in steps)
    setting = Setting(argument, location, value, option)
    if adds and setting.variable is None:
        hint = f"--set {shown(path)}=VALUE changes a field of the spec"
        raise UsageError(f"--add {shown(argument)}: expected environment.KEY=VALUE", hint=hint)
    return setting


def misplaced(data: Any, settings: Sequence[Setting]) -> list[Problem]:
    """Return the problems of settings for unknown variables, and of additions of known ones."""
    declared = set(_variables(data))
    known = {*declared, *MOUNTED, *(setting.variable for setting in settings if setting.adds)}
    problems = []
    for setting in settings:
        key = setting.variable
        if key is None or not re.fullmatch(envfile.NAME, key):
            continue
        if setting.adds and key in declared:
            hint = f"--set environment.{key}=VALUE changes it"
            problems.append(Problem(setting.label, 0, 0, f"the spec has the variable {key} already", hint))
        elif not setting.adds and key not in known and not refusal_reason(key) and key not in _CHECKED_LATER:
            names = {*declared, *MOUNTED}
            nearest = similar(key, names) or similar(key.upper(), names)
            addition = f"--add {setting.argument.partition('=')[0]}=VALUE adds it"
            message = f"the spec has no variable {show(key)}"
            problems.append(Problem(setting.label, 0, 0, message, nearest or addition))
    return problems


def _variables(data: Any) -> Iterator[str]:
    """Yield the names of the variables and secrets of a spec, which may have any form."""
    spec = data if isinstance(data, dict) else {}
    variants, overlays = spec.get("variants"), spec.get("overlays")
    holders = [
        spec,
        *(variants if isinstance(variants, list) else ()),
        *(overlays.values() if isinstance(overlays, dict) else ()),
    ]
    for holder in holders:
        environment = holder.get("environment") if isinstance(holder, dict) else None
        yield from map(str, environment if isinstance(environment, dict) else ())
    secrets = spec.get("secrets")
    yield from map(str, secrets if isinstance(secrets, (dict, list)) else ())


def apply(data: Any, setting: Setting) -> list[Problem]:
    """Put the value at the setting's location in a spec, making lists and mappings on the way."""
    value: Any = yamlio.scalar(setting.value)
    if not isinstance(value, str) and not accepts(setting.location, value):
        value = setting.value
    return put(data, setting, value, root="the spec", replace=_replace)


def put(
    data: Any, setting: Setting, value: Any, *, root: str, replace: Callable[[Any, Any, Any], None] = operator.setitem
) -> list[Problem]:
    """Put a value at a setting's location, making lists and mappings on the way."""
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
            return [Problem(setting.label, 0, 0, f"expected {above or root} to have keys, found {show(holder)}")]
        if depth == len(setting.location) - 1:
            replace(holder, key, value)
        elif holder[key] is None:
            holder[key] = [] if isinstance(setting.location[depth + 1], int) else {}
        holder = holder[key]
    return []


def _replace(holder: Any, key: Any, value: Any) -> None:
    """Set `holder[key]`; of a parameter, its value, so that its description stays."""
    current = holder[key]
    if isinstance(current, dict) and "value" in current:
        current["value"] = value
    else:
        holder[key] = value

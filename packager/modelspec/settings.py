"""Parses `--set PATH=VALUE` and applies it to a spec."""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Any

from packager.base import yamlio
from packager.base.errors import UsageError
from packager.base.problems import Problem, show
from packager.base.values import Value
from packager.modelspec.schema import accepts
from packager.package.contents import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from packager.base.yamlio import Location


class Setting(Value, frozen=True):
    """One `--set PATH=VALUE`.

    Attributes:
        argument: The text on the command line.
        location: The place in the spec.
        value: The new value.
    """

    argument: str
    location: Location
    value: str

    @property
    def label(self) -> str:
        """The name of the setting in problems, in place of a file."""
        return shown(f"--set {self.argument.partition('=')[0]}")


def parse_setting(argument: str, example: str = "environment.STEPS=100") -> Setting:
    r"""Read `a.b.0.c=VALUE`; a dot inside a key is written `\.`, as in `helm --set`.

    Args:
        argument: The text on the command line.
        example: A valid argument, for the message.

    Raises:
        UsageError: There is no `=`, a step of the path is empty, or it is not UTF-8.
    """
    path, equals, value = argument.partition("=")
    steps = [step.replace("\0", ".") for step in path.replace(r"\.", "\0").split(".")]
    if not equals or not all(steps):
        raise UsageError(f"--set {shown(argument)}: expected PATH=VALUE, such as {example}")
    if not argument.isascii() and any("\ud800" <= character <= "\udfff" for character in argument):
        raise UsageError(f"--set {shown(argument)}: expected UTF-8 text")
    return Setting(
        argument, tuple(int(step) if re.fullmatch("0|[1-9][0-9]{0,5}", step) else step for step in steps), value
    )


def apply(data: Any, setting: Setting) -> list[Problem]:
    """Put the value at the setting's location in a spec, making lists and mappings on the way."""
    value: Any = yamlio.scalar(setting.value)
    if not isinstance(value, str) and not accepts(setting.location, value):
        value = setting.value
    return put(data, setting, value, root="the spec", replace=_replace)


def put(
    data: Any, setting: Setting, value: Any, *, root: str, replace: Callable[[Any, Any, Any], None] = operator.setitem
) -> list[Problem]:
    """Put a value at a setting's location, making lists and mappings on the way.

    Args:
        data: The document to change.
        setting: The setting.
        value: The parsed value.
        root: The name of `data` in problems.
        replace: Sets a value of a list or a mapping by its key.
    """
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

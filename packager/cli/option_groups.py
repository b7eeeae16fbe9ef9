"""Gives verbs the options that several share, as fields of a dataclass. Tests: cli/test_verbs.py."""

from __future__ import annotations

import functools
import inspect
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from dataclasses import Field


def with_options(
    name: str, group: type[Any], *, without: Collection[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that replaces the parameter `name` of a verb by options.

    Args:
        name: The parameter; its options come after those of the verb.
        group: The type of the parameter: a dataclass whose fields are annotated as typer reads options.
        without: The fields that the verb has no option for; they keep their defaults.
    """
    hints = get_type_hints(group, include_extras=True)
    options = [
        inspect.Parameter(
            option.name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=hints[option.name],
            default=_default(option),
        )
        for option in fields(group)
        if option.name not in without
    ]

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(verb, eval_str=True)
        parameters = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in signature.parameters.values()
            if parameter.name != name
        ]
        parameters += options

        @functools.wraps(verb)
        def run(**arguments: Any) -> None:
            values = {option.name: arguments.pop(option.name) for option in options}
            verb(**arguments, **{name: group(**values)})

        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def _default(option: Field[Any]) -> Any:
    """Return the default of a field; that of a parameter without one if it has none."""
    if option.default_factory is not MISSING:
        return option.default_factory()
    return inspect.Parameter.empty if option.default is MISSING else option.default

"""Makes commands of typer from the functions of verbs, with options that several share. Tests: cli/test_verbs.py."""

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Annotated, Any, get_origin, get_type_hints

import typer

_contexts: list[typer.Context] = []
"""The contexts of the commands that run: one, but for a command that a test runs inside of another."""


def context() -> typer.Context:
    """Return the context of the command that runs."""
    return _contexts[-1]


def command(verb: Callable[..., None]) -> Callable[..., None]:
    """Return a function for typer that has an option for each field of the parameters that are values.

    A field without an annotation for typer, or with the name of another parameter of the verb, keeps its default. The
    options of these groups come after those of the verb.
    """
    given = inspect.signature(verb).parameters
    groups: dict[str, Any] = {
        name: parameter.annotation
        for name, parameter in given.items()
        if hasattr(parameter.annotation, "__struct_fields__")
    }
    options = {
        name: [option for option in _options(group) if option.name not in given] for name, group in groups.items()
    }
    own = [parameter for name, parameter in given.items() if name not in groups]
    here = inspect.Parameter("_context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in (here, *own)]
    parameters += [option for group in options.values() for option in group]

    @functools.wraps(verb)
    def run(_context: typer.Context, **arguments: Any) -> None:
        for name, group in groups.items():
            arguments[name] = group(**{option.name: arguments.pop(option.name) for option in options[name]})
        _contexts.append(_context)
        try:
            verb(**arguments)
        finally:
            _contexts.pop()

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _options(group: Any) -> Iterator[inspect.Parameter]:
    """Yield a parameter for each field of a type of values that has an annotation for typer."""
    usual, keyword = group(), inspect.Parameter.KEYWORD_ONLY
    for name, kind in get_type_hints(group, include_extras=True).items():
        if get_origin(kind) is Annotated:
            yield inspect.Parameter(name, keyword, annotation=kind, default=getattr(usual, name))


def group(summary: str, **verbs: Callable[..., None]) -> typer.Typer:
    """Return a group of commands by their names; the name of the group alone prints its help."""
    app = typer.Typer(help=summary, no_args_is_help=True)
    app.callback()(lambda: None)
    for name, verb in verbs.items():
        app.command(name)(command(verb))
    return app

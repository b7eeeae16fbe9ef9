"""The verbs, by name: which module has each, so that only the one that runs is imported.

A verb's module brings the types of its options, and typer reads all of its signature; doing both for every verb takes
longer than building a package.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group


class Verb(NamedTuple):
    """The module below packager.cli that registers a verb, and the verb's line in `mlpack --help`."""

    module: str
    summary: str


VERBS = {
    "build": Verb("build", "Build the package of a model: a tarball for kubectl alone."),
    "configure": Verb("configure", "Say where a package lies, and as whom it runs."),
    "doctor": Verb("doctor", "Find what would make a package fail on this cluster."),
    "deploy": Verb("deploy", "Bring a package into a cluster and wait for its end."),
    "status": Verb("status", "Say how a deployed package is doing, and why."),
    "logs": Verb("logs", "Print the log of a deployed package, from its first line."),
    "exec": Verb("exec", "Run a command in a pod of a deployed package."),
    "results": Verb("results", "Copy what a package has written into a folder here."),
    "delete": Verb("delete", "Delete what a package has applied."),
    "history": Verb("history", "List what was deployed of a package and is still there."),
    "operator": Verb("operator", "Install, look at or remove the operator workloads need."),
    "image": Verb("image", "Build or push a package's image."),
    "list": Verb("models", "List the models, their variants and aliases."),
    "show": Verb("models", "Show a model: its variants, overlays and parameters."),
    "init": Verb("init", "Make a folder with a commented spec that builds as it is."),
    "lint": Verb("lint", "Check specs, and print one line for each problem."),
    "render": Verb("render", "Print the manifests of one overlay, as kubectl has them."),
    "schema": Verb("schema", "Print the JSON Schema of specs."),
    "verify": Verb("verify", "Check a package, and print one line for each finding."),
    "version": Verb("version", "Print the version of mlpack."),
    "completion": Verb("completion", "Print the completion script of a shell."),
}
"""Every verb, in the order of `mlpack --help`."""


class Verbs(TyperGroup):
    """The group of all verbs. For help and completion a stand-in with the summary will do."""

    def __init__(self, **attributes: Any) -> None:
        stand_ins = {name: TyperCommand(name, help=verb.summary) for name, verb in VERBS.items()}
        super().__init__(**{**attributes, "commands": stand_ins})

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, TyperCommand | None, list[str]]:
        """Return the verb that `args` begin with, under its name, and the rest of them."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, load(name) if name else cast("TyperCommand | None", command), rest


def load(name: str) -> TyperCommand:
    """Import the verb `name` and return its command."""
    app = typer.Typer(rich_markup_mode=None)
    import_module(f"packager.cli.{VERBS[name].module}").register(app)
    return cast("TyperCommand", get_group(app).commands[name])

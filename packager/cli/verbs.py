"""Maps the verbs to their modules, so that only the module of the verb that runs is imported.

A verb's module imports the types of its options, and typer reads its whole signature; doing this for every verb takes
longer than building a package.
"""

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple, cast

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.main import get_group

from packager.cli.console import state
from packager.cli.examples import as_text


class Verb(NamedTuple):
    """The module below packager.cli that contains a verb, and the verb's line in `mlpack --help`.

    The module has a function of the verb's name, or of the one given here; or a group of commands called GROUP.
    """

    module: str
    summary: str
    function: str = ""


GROUPS = {
    "Make a package": {
        "init": Verb("models", "Create a folder with a commented spec, ready to build."),
        "list": Verb("models", "List the models, their variants and aliases.", "list_models"),
        "show": Verb("models", "Show a model: its variants, overlays and parameters."),
        "lint": Verb("models", "Check specs, and print one line for each problem."),
        "build": Verb("build", "Build the package of a model: a tarball for kubectl alone."),
        "import": Verb("importing", "Make a model of a workload of another system."),
        "schema": Verb("others", "Print the JSON Schema of specs."),
        "image": Verb("image", "Build or push a package's image."),
    },
    "Use a package": {
        "verify": Verb("verify", "Check a package, and print one line for each finding."),
        "configure": Verb("configure", "Set where a package is and which user runs it."),
        "options": Verb("configure", "List the options that fit a package, and what they read."),
        "upgrade": Verb("upgrade", "Upgrade a package to a newer build and keep its edits."),
        "overlay": Verb("overlay", "Write an overlay of your own outside of a package."),
        "lock": Verb("lock", "Write the digests of a package's images into the package."),
        "site": Verb("site", "Create, show and check the defaults of a site."),
    },
    "Run it": {
        "doctor": Verb("doctor", "Find problems that would make a package fail on this cluster."),
        "deploy": Verb("deploy", "Deploy a package to a cluster and wait until it has ended."),
        "run": Verb("run", "Run overlays, or tasks of an MLCube, one by one."),
        "dev": Verb("dev", "Copy changed code into running pods, and start it again."),
        "status": Verb("status", "Show the state of a deployed package, and the reasons."),
        "logs": Verb("logs", "Print the log of a deployed package, from its first line."),
        "results": Verb("results", "Copy what a package has written to a local folder."),
        "workspace": Verb("workspace", "Copy files to and from a package's storage."),
        "history": Verb("status", "List the deployments of a package."),
        "delete": Verb("delete", "Delete what a package has applied."),
        "operator": Verb("operator", "Install or look at an operator that workloads need."),
    },
    "Registry": {
        "push": Verb("push", "Push a package to a registry."),
        "pull": Verb("pull", "Pull a package from a registry."),
        "inspect": Verb("inspect", "Describe a package in a registry without pulling it."),
        "key": Verb("key", "Make the keys that sign packages."),
        "bundle": Verb("bundle", "Write a package with its images into one file."),
        "load": Verb("bundle", "Store a bundle in a registry."),
    },
    "Task service": {
        "task": Verb("task", "Create and follow the jobs of a task service."),
        "serve": Verb("serve", "Serve the REST API of the task service."),
    },
    "Others": {
        "completion": Verb("others", "Print the completion script of a shell."),
        "version": Verb("others", "Print the version of mlpack."),
    },
}
"""Every verb, by what a person does, in the order of `mlpack --help`."""

VERBS = {name: verb for verbs in GROUPS.values() for name, verb in verbs.items()}


class Verbs(TyperGroup):
    """The group of all verbs; help and completion use placeholders that have only the summaries."""

    def __init__(self, **attributes: Any) -> None:
        stand_ins = {name: TyperCommand(name, help=verb.summary) for name, verb in VERBS.items()}
        super().__init__(**{**attributes, "commands": stand_ins})
        self.params.append(_quiet())

    def format_commands(self, _ctx: Any, formatter: Any) -> None:
        """Write the verbs of each group in a section of its own."""
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, verb.summary) for name, verb in group.items()])

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, TyperCommand | None, list[str]]:
        """Return the name of the verb that `args` begin with, its command, and the remaining arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        if not name:
            return name, cast("TyperCommand | None", command), rest
        loaded = load(name)
        return name, loaded, _with_side_of_dry_run(loaded, rest)


def _with_side_of_dry_run(command: Any, arguments: list[str]) -> list[str]:
    """Return a command line in which `--dry-run` alone is `--dry-run=client`, where a value is expected."""
    for word in arguments:
        if (inner := getattr(command, "commands", {}).get(word)) is None:
            break
        command = inner
    sides = next((one.type.choices for one in command.params if "--dry-run" in one.opts and not one.is_flag), None)
    if sides is None or not arguments:
        return arguments
    end = arguments.index("--") if "--" in arguments else len(arguments)
    values = {str(side) for side in sides}
    return [
        "--dry-run=client" if word == "--dry-run" and index < end and following not in values else word
        for index, (word, following) in enumerate(zip(arguments, [*arguments[1:], ""], strict=True))
    ]


def load(name: str) -> TyperCommand:
    """Import the verb `name` and return its command."""
    from packager.cli.commands import command as make_command

    app = typer.Typer(rich_markup_mode=None)
    module = import_module(f"packager.cli.{VERBS[name].module}")
    if hasattr(module, "GROUP"):
        app.add_typer(module.GROUP, name=name)
    else:
        app.command(name)(make_command(getattr(module, VERBS[name].function or name)))
    command = cast("TyperCommand", get_group(app).commands[name])
    command.epilog = as_text(name)
    for full_name, subcommand in leaves(name, command):
        subcommand.short_help = _first_clause(subcommand.help or "")  # in the list of a group, which cuts longer texts
        subcommand.params.append(_quiet())
        subcommand.epilog = as_text(full_name)
    return command


def _first_clause(text: str) -> str:
    """Return the text up to its first full stop, colon or semicolon, as a sentence."""
    return re.split(r"[.:;](?: |$)", " ".join(text.split()), maxsplit=1)[0] + "."


def leaves(name: str, command: TyperCommand) -> Iterator[tuple[str, TyperCommand]]:
    """Yield each command at or below `command` that has no subcommands, with its full name."""
    subcommands = getattr(command, "commands", None)
    if subcommands is None:
        yield name, command
        return
    for step, subcommand in subcommands.items():
        yield from leaves(f"{name} {step}", subcommand)


def _quiet() -> TyperOption:
    """Return the option that mlpack and every verb has."""

    def take(_context: Any, _option: Any, is_asked: bool) -> None:
        state.is_quiet = state.is_quiet or bool(is_asked)

    return TyperOption(
        param_decls=["-q", "--quiet"],
        is_flag=True,
        expose_value=False,
        callback=take,
        help="Print nothing on stderr but errors.",
    )

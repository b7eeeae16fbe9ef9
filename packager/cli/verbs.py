"""Maps the verbs to their modules, so that only the module of the verb that runs is imported; and their examples.

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


class Verb(NamedTuple):
    """The module below packager.cli that contains a verb, and the verb's line in `mlpack --help`.

    The module has a function of the verb's name, or a group of commands called GROUP; or what is named here.
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
        "overlay": Verb("upgrade", "Write an overlay of your own outside of a package."),
        "lock": Verb("lock", "Write the digests of a package's images into the package."),
        "site": Verb("site", "Create and show the defaults of a site."),
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
        "delete": Verb("delete", "Delete what a package has applied."),
        "operator": Verb("operator", "Show an operator that workloads need."),
    },
    "Registry": {
        "push": Verb("push", "Push a package to a registry."),
        "pull": Verb("pull", "Pull a package from a registry."),
        "inspect": Verb("pull", "Describe a package in a registry without pulling it."),
        "key": Verb("push", "Make the keys that sign packages.", "KEY"),
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
        if name in ("deploy", "run"):  # --dry-run alone is --dry-run=client, as with kubectl
            sides = ("client", "server")
            pairs = zip(rest, [*rest[1:], ""], strict=False)
            rest = ["--dry-run=client" if word == "--dry-run" and after not in sides else word for word, after in pairs]
        return name, load(name), rest


def load(name: str) -> TyperCommand:
    """Import the verb `name` and return its command."""
    from packager.cli.commands import command as make_command

    app = typer.Typer(rich_markup_mode=None)
    module = import_module(f"packager.cli.{VERBS[name].module}")
    verb = getattr(module, VERBS[name].function or "GROUP", None) or getattr(module, name)
    if isinstance(verb, typer.Typer):
        app.add_typer(verb, name=name)
    else:
        app.command(name)(make_command(verb))
    command = cast("TyperCommand", get_group(app).commands[name])
    command.epilog = as_text(name)
    for full_name, subcommand in leaves(name, command):
        # up to the first full stop, colon or semicolon: the list of a group cuts longer texts
        subcommand.short_help = re.split(r"[.:;](?:\s|$)", subcommand.help or "", maxsplit=1)[0] + "."
        subcommand.params.append(_quiet())
        subcommand.epilog = as_text(full_name)
    return command


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


EXAMPLES = """
build: mlpack build llm-finetune  # the package of a bundled model, in this folder
build: mlpack build ./my-model --format dir --set environment.STEPS=100  # of your own model, as a folder
build: mlpack build --all --specs models -d packages  # of every model in a folder
configure: mlpack configure hello-mpi --registry registry.example.com/team --uid 1000  # registry and user
configure: mlpack configure hello-mpi --storage output-pvc --set OUTPUT_CLAIM=results  # results on a claim
lock: mlpack lock hello-mpi  # write the digests
lock: mlpack lock hello-mpi --check  # compare them
site init: mlpack site init  # write ~/.config/mlpack/site.yaml
site show: mlpack site show  # what is in effect, and which line says so
options: mlpack options hello-mpi  # which options fit it, and which of them it has
upgrade: mlpack upgrade hello-mpi hello-mpi-2.tar.gz --dry-run  # show what an upgrade changes
upgrade: mlpack upgrade hello-mpi oci://registry.example.com/team/hello-mpi:2.0  # upgrade from a registry
overlay: mlpack overlay vendor/hello-mpi --to mine  # mine/multi-node and mine/single-node
overlay: mlpack overlay vendor/hello-mpi --to mine --dry-run  # what a newer build in vendor/hello-mpi changes
doctor: mlpack doctor hello-mpi --overlay multi-node -n team  # will it run in this namespace?
deploy: mlpack deploy hello-mpi  # apply it, and wait for its end
deploy: mlpack deploy hello-mpi --overlay single-node --follow --results runs  # print its log, and record the run
deploy: mlpack deploy hello-mpi --dry-run=server  # ask the cluster, and apply nothing
run: mlpack run llm-finetune-cpu  # its overlays in order: train, then serve
run: mlpack run ./mnist --task download,train  # two tasks of an MLCube
dev: mlpack dev ./my-model --set environment.STEPS=100  # each saved file runs in seconds, in the same pods
dev: mlpack dev ./my-model --stop  # delete the pods
status: mlpack status hello-mpi --watch  # until it has ended
status: mlpack status hello-mpi --curves  # numbers of its log
logs: mlpack logs hello-mpi --follow  # of the main pod
logs: mlpack logs hello-mpi --all --tail 20  # the last lines of all pods
results: mlpack results hello-mpi results  # copy the results into a folder
workspace push: mlpack workspace push hello-mpi data --folder DATASET_DIR  # copy data to the storage
workspace ls: mlpack workspace ls hello-mpi  # what is on the storage
workspace pull: mlpack workspace pull hello-mpi results  # copy from the storage
delete: mlpack delete hello-mpi --dry-run  # list what would be deleted
delete: mlpack delete hello-mpi --keep-results  # keep claims and their data
task export: mlpack task export train.tar.gz --to service  # a template and a definition of a package
task create: mlpack task create train --set epochs=3  # a job from a definition
task create: mlpack task create train -f values.yaml --dry-run  # its manifests, without creating it
task status: mlpack task status JOB --watch  # until it has ended
task logs: mlpack task logs JOB --follow  # as it is written
task cancel: mlpack task cancel JOB  # end it, and keep its record
task rerun: mlpack task rerun JOB  # a new job with the same values
task delete: mlpack task delete JOB  # remove it with its record
task list: mlpack task list -o name  # the names of your jobs
task templates show: mlpack task templates show train -o yaml  # one template
task templates apply: mlpack task templates apply -f template.yaml  # register or change it
task templates delete: mlpack task templates delete train  # remove it
task definitions show: mlpack task definitions show train -o yaml  # one definition
task definitions apply: mlpack task definitions apply -f definition.yaml  # register or change it
task definitions delete: mlpack task definitions delete train  # remove it
serve: mlpack serve --config server.yaml  # the page and the API, on this machine
serve token: mlpack serve token NAME  # make a token; it is shown once
serve backup: mlpack serve backup backup.sqlite  # copy the database while the server runs
serve migrate: mlpack serve migrate  # bring the database to this version
serve check: mlpack serve check  # what the server could do with this configuration
operator status: mlpack operator status mpi  # what it serves, and whether it runs
push: mlpack push hello-mpi.tar.gz oci://registry.example.com/team/hello-mpi:1.0  # with a tag
pull: mlpack pull oci://registry.example.com/team/hello-mpi:1.0 --extract  # as a folder
inspect: mlpack inspect oci://registry.example.com/team/hello-mpi:1.0 -o images  # its images alone
key new: mlpack key new prod  # write prod.key and prod.pub
bundle: mlpack bundle oci://registry.example.com/team/hello-mpi:1.0  # with its images, in one file
load: mlpack load hello-mpi.bundle.tar --registry registry.site.example  # on the other side
image build: mlpack image build hello-mpi -- --no-cache  # with an option of the builder
image push: mlpack image push hello-mpi --registry registry.example.com/team  # to another registry
list: mlpack list  # bundled models
list: mlpack list --specs models -o name  # with yours, the names alone
show: mlpack show llm-finetune  # variants, overlays, parameters
init: mlpack init my-model --kind JobSet  # a model that several nodes run
import kubeflow: mlpack import kubeflow job.yaml  # each job in a file
import kubeflow: mlpack import kubeflow --from-cluster pytorchjob/digits  # a job in the cluster
import jobset: mlpack import jobset jobset.yaml  # each JobSet in a file
import mxjob: mlpack import mxjob job.yaml  # a job of an MXNet operator
import mlcube: mlpack import mlcube ./mnist --claim workspace  # with a claim that exists
import intel: mlpack import intel models/tools/docker/specs -o zoo  # every spec of a checkout
lint: mlpack lint my-model/spec.yaml  # all problems, with line and column
schema: mlpack schema > spec.schema.json  # for an editor
verify: mlpack verify -v hello-mpi.tar.gz  # all checks, with what was checked
verify: mlpack verify hello-mpi --expect sha256:…  # is it the package that its sender meant?
version: mlpack version -o json  # for programs
completion: source <(mlpack completion bash)  # in ~/.bashrc
"""
"""A line for each example, for --help and docs/commands.md: the command's full name, a command line, its purpose."""


def examples(name: str) -> list[tuple[str, str]]:
    """Return the examples of a command: command lines, each with what it is for."""
    lines = [line.removeprefix(f"{name}: ") for line in EXAMPLES.splitlines() if line.startswith(f"{name}: ")]
    return [(command, purpose) for command, _, purpose in (line.rpartition("  # ") for line in lines)]


def as_text(name: str) -> str:
    """Return the examples of the command `name` for its --help; empty without any."""
    lines = [f"  {command}\n      {purpose}" for command, purpose in examples(name)]
    return "\b\nExamples:\n" + "\n".join(lines) if lines else ""  # \b keeps the lines as they are

"""`mlpack dev`: runs a model while its code is changed, in the same pods."""

from pathlib import Path
from typing import Annotated

import typer

from packager.base.errors import UsageError
from packager.cli.arguments import AcceptOptions, OverlayOption
from packager.cli.cluster_arguments import ClusterOptions, Patience, Verify, open_target, seconds
from packager.cli.console import progress, say
from packager.cli.delete import report
from packager.cli.printing import print_deployed, print_parts
from packager.cli.run import SourceOptions
from packager.cluster import deploy as deploying
from packager.cluster import dev as use_case
from packager.cluster.dev import PreparedDev
from packager.cluster.runnable import package_of, runnable, spec_of


class CodeOptions(SourceOptions, frozen=True):
    """The options of a build, without that which adds variables."""

    additions: list[str] = []


def dev(
    build: CodeOptions,
    accept: AcceptOptions,
    at: ClusterOptions,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model: a folder, or its spec.")],
    overlay: OverlayOption = None,
    stop: Annotated[bool, typer.Option("--stop", help="Delete the pods, and keep claims and their data.")] = False,
    verify: Verify = True,
    patience: Patience = "10m",
) -> None:
    """Run a model while you change its code: each saved file is copied into its pods, and all programs start again.

    It is deployed once, without deadlines. The logs of all pods are printed. A program that has ended waits for the
    next change. Ctrl-C leaves the pods for the next `mlpack dev`; --stop deletes them. Only code that ConfigMaps
    deliver is copied: a change of the spec, the image or the assets needs --stop first.
    """
    spec = spec_of(model)
    if spec is None:
        raise UsageError(f"{model} is not a model", hint="the code of a package is that of its model")
    request = build.source(model)
    longest = seconds(patience)
    client = at.client()
    if stop:
        with open_target(package_of(request, progress=progress).package, overlay, client) as target:
            report(use_case.stop(target))
        return
    package = runnable(request, tell=say, progress=progress).package
    with open_target(package, overlay, client) as target:
        code = use_case.code_of(spec, target, build.settings)
        if verify:
            deploying.check(target, *accept.accepted())
        prepared = use_case.prepare(target, model, code)
        is_applied = not prepared.is_new
        try:
            if prepared.is_new:
                print_deployed(use_case.deploy(prepared))
                is_applied = True
            print_parts(use_case.DevLoop(prepared, longest).parts())
        except Exception:
            raise
        except BaseException:  # Ctrl-C
            _leave(prepared, is_applied=is_applied)
            raise


def _leave(prepared: PreparedDev, *, is_applied: bool) -> None:
    shown = prepared.target.shown_all
    applied = f"detached; the pods of {shown} stay for the next `mlpack dev`"
    unknown = f"stopped before {shown} was known to be fully applied"
    say("", applied if is_applied else unknown, f"  delete them: {prepared.stop_command}")

"""`mlpack dev`: runs a model while its code is changed, in the same pods."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from packager.cli import completing
from packager.cli.arguments import with_site
from packager.cli.build_arguments import ModelOptions, with_code
from packager.cli.cluster_arguments import (
    Allow,
    ClusterOptions,
    OverlayOption,
    Patience,
    PodSecurity,
    Verify,
    open_target,
    seconds,
    with_cluster,
)
from packager.cli.console import progress, say
from packager.cli.delete import report
from packager.cli.printing import print_deployed, print_parts

if TYPE_CHECKING:
    from packager.cluster.dev import PreparedDev


@with_cluster
@with_code
def dev(
    ctx: typer.Context,
    at: ClusterOptions,
    build: ModelOptions,
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A model, or a package: a folder.", autocompletion=completing.models)
    ],
    overlay: OverlayOption = None,
    stop: Annotated[bool, typer.Option("--stop", help="Delete the pods, and keep claims and their data.")] = False,
    verify: Verify = True,
    allow: Allow = [],  # noqa: B006 - typer copies it
    pod_security: PodSecurity = None,
    patience: Patience = "10m",
) -> None:
    """Run a model while you change its code: each saved file is copied into its pods, and all programs start again.

    It is deployed once, without deadlines. The logs of all pods are printed. A program that has ended waits for the
    next change. Ctrl-C leaves the pods for the next `mlpack dev`; --stop deletes them. Only code that ConfigMaps
    deliver is copied: a change of the spec, the image or the assets needs --stop first.
    """
    from packager.cluster import dev as use_case
    from packager.cluster.runnable import package_of, runnable, spec_of
    from packager.verify.command import allowed_words, level

    request = build.request(model)
    longest = seconds(patience)
    to_cluster = at.client(ctx)
    if stop:
        package = package_of(request, progress=progress).package
        with open_target(ctx, package, overlay, to_cluster) as target:
            report(use_case.stop(target))
        return
    package = runnable(request, tell=say, progress=progress).package
    with open_target(ctx, package, overlay, to_cluster) as target:
        code = use_case.code_of(model, spec_of(model), target, build.settings)
        if verify:
            use_case.check(target, allowed_words(with_site(allow)), level(pod_security))
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
    target = prepared.target
    say("")
    if is_applied:
        say(f"detached; the pods of {target.shown_all} stay for the next `mlpack dev`")
    else:
        say(f"stopped before {target.shown_all} was known to be fully applied")
    say(f"  delete them: {prepared.stop_command}")

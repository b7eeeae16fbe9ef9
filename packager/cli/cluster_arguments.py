"""Arguments and options of the verbs for clusters, named as kubectl names them. Tests: cli/test_usage_messages.py."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from packager.base import durations
from packager.base.errors import UsageError
from packager.cli import completing
from packager.cli.console import say
from packager.cli.option_groups import with_options

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from packager.cluster.target import Target
    from packager.kubernetes.kubectl.client import Kubectl

PackagePath = Annotated[Path, typer.Argument(metavar="PACKAGE", help="A package: its tarball, or its folder.")]
PackageToRead = Annotated[
    Path,
    typer.Argument(
        metavar="PACKAGE", help="A package: its tarball, its folder, or oci://HOST/REPOSITORY:TAG in a registry."
    ),
]
OverlayOption = Annotated[
    str | None,
    typer.Option(
        "--overlay",
        metavar="NAME",
        help="The overlay to use; by default multi-node if the package has it.",
        autocompletion=completing.overlays,
    ),
]
OnlyOverlay = Annotated[
    str | None,
    typer.Option(
        "--overlay",
        metavar="NAME",
        help="Only this overlay; by default all overlays.",
        autocompletion=completing.overlays,
    ),
]
OneWorkload = Annotated[
    str | None,
    typer.Option(
        "--workload", metavar="NAME", help="The workload, if the overlay has several; by default the main one."
    ),
]
Program = Annotated[str, typer.Option("--kubectl", metavar="PATH", envvar="KUBECTL", help="The kubectl to run.")]
PodSecurity = Annotated[
    str | None,
    typer.Option(
        metavar="LEVEL",
        help="The Pod Security level that every overlay must meet, such as restricted.",
        autocompletion=completing.levels,
    ),
]
Allow = Annotated[
    list[str],
    typer.Option(
        metavar="WORD",
        help="Allow what no build makes: KIND, KIND.GROUP, a field (pod.spec.hostname), label:KEY, annotation:KEY, "
        "variable:NAME, which an edit adds, or name:NAME, which objects have or begin with. Repeatable.",
    ),
]
Expect = Annotated[
    str | None,
    typer.Option(
        metavar="DIGEST", help="Accept only the package with this digest, sha256:…, as its sender has told you."
    ),
]
Worker = Annotated[int | None, typer.Option(min=0, metavar="N", help="The worker, or the index of a Job, from 0 on.")]


class DryRun(StrEnum):
    """The side that validates the objects of a dry run: kubectl or the server."""

    client = "client"
    server = "server"


Patience = Annotated[
    str,
    typer.Option(
        metavar="DURATION",
        help="How long to wait for temporary problems: no free resources, a full quota, no operator.",
    ),
]
DryRunOption = Annotated[
    DryRun | None,
    typer.Option(
        "--dry-run",
        help="Apply nothing; show what would be applied. It needs the cluster, which checks the objects with server.",
    ),
]
Verify = Annotated[
    bool, typer.Option("--verify/--no-verify", help="Apply only the sealed package and permitted edits of it.")
]
ForceConflicts = Annotated[
    bool, typer.Option("--force-conflicts", help="Also set fields that another user has changed.")
]
Yes = Annotated[bool, typer.Option("-y", "--yes", help="Answer every question with yes.")]
RecordsFolder = Annotated[
    Path | None,
    typer.Option(
        "--results",
        metavar="DIR",
        help="Record the run in a folder below it: logs, manifests, verdict, numbers, and OUTPUT_DIR.",
    ),
]
Hold = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="With --results: how long pods wait after their programs, until results that would be deleted with them "
        "are copied. 0 for not at all; by default 10m.",
    ),
]

_HOLD = "10m"
"""The longest hold unless the user sets another."""


def acceptance(allow: Sequence[str], pod_security: str | None) -> list[str]:
    """Return the arguments that let another command accept the same kinds and Pod Security level."""
    levels = ["--pod-security", pod_security] if pod_security is not None else []
    return [*levels, *(word for name in allow for word in ("--allow", name))]


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The options that name the cluster, and the kubectl that sends requests to it."""

    namespace: Annotated[
        str | None,
        typer.Option(
            "-n",
            "--namespace",
            metavar="NAME",
            help="The namespace; by default that of the context.",
            autocompletion=completing.namespaces,
        ),
    ] = None
    context: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The kubeconfig context to use.", autocompletion=completing.contexts),
    ] = None
    kubeconfig: Annotated[
        Path | None,
        typer.Option(metavar="PATH", exists=True, dir_okay=False, help="The kubeconfig to use instead of $KUBECONFIG."),
    ] = None
    kubectl: Program = "kubectl"
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show each kubectl command that is run.")] = False

    def client(self, ctx: typer.Context, namespace: str | None = None) -> Kubectl:
        """Return a client for the cluster that the options name.

        Args:
            ctx: The command.
            namespace: The namespace if the options name none; by default that of the context.
        """
        from packager.cli.host import host
        from packager.cluster.target import reach

        namespace = namespace if self.namespace is None else self.namespace
        for flag, value in (("--namespace", namespace), ("--context", self.context), ("--kubectl", self.kubectl)):
            if value is not None and (not value or value.startswith("-")):
                raise UsageError(f"{flag}: expected a name, found {value!r}")
        where = (self.kubectl, namespace, self.context, self.kubeconfig)
        return reach(*where, environment=os.environ, show=self._show, runner=host(ctx).runner)

    def _show(self, argv: list[str]) -> None:
        if self.verbose:
            say(f"+ {shlex.join(argv)}")


with_cluster = with_options("at", ClusterOptions)
"""Gives a verb the options that name the cluster: they are passed together, as `at`."""


def open_target(
    ctx: typer.Context, package: Path, overlay: str | None, kubectl: Kubectl, workload: str | None = None
) -> AbstractContextManager[Target]:
    """Open a package for the user of this machine, and render its overlay."""
    from packager.cli.host import host
    from packager.cli.registry_arguments import local_package
    from packager.cluster import target

    package = local_package(ctx, package)

    return target.open_target(package, overlay, kubectl, workload=workload, person=host(ctx).person, tell=say)


def open_target_to_delete(
    ctx: typer.Context, package: Path, overlay: str | None, kubectl: Kubectl
) -> AbstractContextManager[Target]:
    """Open a package as `open_target` does; if it cannot be rendered, with its objects in the cluster."""
    from packager.cli.host import host
    from packager.cli.registry_arguments import local_package
    from packager.cluster import target

    package = local_package(ctx, package)
    return target.open_target_to_delete(package, overlay, kubectl, person=host(ctx).person, tell=say)


_LONGEST = timedelta(days=365)
"""The timers and waits of the system do not take numbers of any size."""


def hold_seconds(hold: str | None, results: Path | None) -> float:
    """Return the longest hold of pods in seconds; 0 if the run is not recorded."""
    if results is None and hold is not None:
        raise UsageError("--hold needs --results DIR")
    return seconds(hold or _HOLD) if results is not None else 0.0


def moment_of_since(text: str, now: datetime) -> datetime:
    """Return the time that `--since` names: in RFC 3339, or as a duration before `now`."""
    try:
        return durations.moment(text, now)
    except ValueError as error:
        raise UsageError(f"--since: {error}") from None


def seconds(text: str) -> float:
    """Return the seconds of a duration such as 90s, 5m or 1h30m; 0 stands for no limit."""
    if text == "0":
        return 0.0
    try:
        return durations.parse(text, _LONGEST).total_seconds()
    except ValueError as error:
        raise UsageError(str(error), hint="write a unit, as in 5m; 0 means no limit") from None

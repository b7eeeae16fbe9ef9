"""Arguments and options of the verbs for clusters, named as kubectl names them. Tests: cli/test_cli.py."""

import os
import shlex
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from packager.base import units
from packager.base.errors import UsageError
from packager.base.values import Value
from packager.cli.arguments import AcceptOptions, Yes
from packager.cli.console import say
from packager.cli.host import host

if TYPE_CHECKING:
    from packager.cluster.target import Target
    from packager.kubernetes.kubectl.client import Kubectl

OneWorkload = Annotated[
    str | None,
    typer.Option("--workload", metavar="NAME", help="The workload, if there are several; by default the main one."),
]
Worker = Annotated[int | None, typer.Option(min=0, metavar="N", help="The worker, or the index of a Job, from 0 on.")]
Patience = Annotated[
    str, typer.Option(metavar="DURATION", help="How long to wait for free nodes, a free quota or an operator.")
]
Verify = Annotated[
    bool, typer.Option("--verify/--no-verify", help="Apply only the sealed package and permitted edits of it.")
]
ForceConflicts = Annotated[
    bool, typer.Option("--force-conflicts", help="Also set fields that another user has changed.")
]


DryRunOption = Annotated[
    Literal["client", "server"] | None,
    typer.Option(
        "--dry-run",
        help="Apply nothing; show what would be applied. It needs the cluster, which checks the objects with server.",
    ),
]

_HOLD = "10m"
"""The longest hold unless the user sets another."""

_LONGEST = timedelta(days=365)
"""The timers and waits of the system do not take numbers of any size."""


class ConnectionOptions(Value, frozen=True):
    """The options that name the cluster, and the kubectl that sends requests to it."""

    namespace: str | None = None
    context: Annotated[str | None, typer.Option(metavar="NAME", help="The kubeconfig context to use.")] = None
    kubeconfig: Annotated[
        Path | None,
        typer.Option(metavar="PATH", exists=True, dir_okay=False, help="The kubeconfig to use instead of $KUBECONFIG."),
    ] = None
    kubectl: Annotated[str, typer.Option("--kubectl", metavar="PATH", envvar="KUBECTL", help="The kubectl to run.")] = (
        "kubectl"
    )
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show each kubectl command that is run.")] = False

    def client(self, namespace: str | None = None) -> "Kubectl":
        """Return a client for the cluster that the options name.

        `namespace` is that to use if the options name none; by default that of the context.
        """
        from packager.cluster.target import reach

        return reach(
            self.kubectl,
            namespace if self.namespace is None else self.namespace,
            self.context,
            self.kubeconfig,
            environment=os.environ,
            show=lambda argv: say(f"+ {shlex.join(argv)}") if self.verbose else None,
            runner=host().runner,
        )


class ClusterOptions(ConnectionOptions, frozen=True):
    """The options that name the cluster and the namespace."""

    namespace: Annotated[
        str | None,
        typer.Option("-n", "--namespace", metavar="NAME", help="The namespace; by default that of the context."),
    ] = None


def open_target(
    package: Path, overlay: str | None, kubectl: "Kubectl", *, workload: str | None = None, to_delete: bool = False
) -> AbstractContextManager["Target"]:
    """Open a package for the user of this machine, and render its overlay.

    To delete it, the objects in the cluster take the place of an overlay that cannot be rendered.
    """
    from packager.cli.registry_arguments import local_package
    from packager.cluster import target

    package = local_package(package)
    return target.open_target(
        package, overlay, kubectl, workload=workload, to_delete=to_delete, person=host().person, tell=say
    )


class DeployOptions(AcceptOptions, frozen=True):
    """The options of the verbs that deploy a package and follow it to its end."""

    follow: Annotated[
        bool, typer.Option("--follow", help="Print its log to stdout while it runs, with that of each attempt.")
    ] = False
    replace: Annotated[
        bool, typer.Option("--replace", help="Delete finished or different jobs of the same names first.")
    ] = False
    yes: Yes = False
    dry_run: DryRunOption = None
    force_conflicts: ForceConflicts = False
    verify: Verify = True
    timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How long to wait at most, such as 90s or 2h.")
    ] = None
    patience: Patience = "10m"
    results: Annotated[
        Path | None,
        typer.Option(
            "--results",
            metavar="DIR",
            help="Record the run in a folder below it: logs, manifests, verdict, and OUTPUT_DIR.",
        ),
    ] = None
    hold: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="With --results: how long pods wait after their programs, until results that would be deleted with "
            "them are copied. 0 for not at all; by default 10m.",
        ),
    ] = None

    @property
    def limit(self) -> float | None:
        """The timeout in seconds; None for none."""
        return (seconds(self.timeout) or None) if self.timeout is not None else None

    @property
    def hold_seconds(self) -> float:
        """The longest hold of pods; 0 if the run is not recorded."""
        if self.results is None and self.hold is not None:
            raise UsageError("--hold needs --results DIR")
        return seconds(self.hold or _HOLD) if self.results is not None else 0.0


def seconds(text: str) -> float:
    """Return the seconds of a duration such as 90s, 5m or 1h30m; 0 stands for no limit."""
    if text == "0":
        return 0.0
    try:
        return units.parse_duration(text, _LONGEST).total_seconds()
    except ValueError as error:
        raise UsageError(str(error), hint="write a unit, as in 5m; 0 means no limit") from None

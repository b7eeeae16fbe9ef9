"""Arguments and options of the verbs that work with a package in a cluster, named as kubectl names them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from packager.cli.console import say
from packager.errors import UsageError

if TYPE_CHECKING:
    from packager.cluster.client import Kubectl

PackagePath = Annotated[
    Path, typer.Argument(metavar="PACKAGE", help="A package: its tarball, or its folder.", show_default=False)
]
Overlay = Annotated[
    str | None,
    typer.Option(
        "--overlay",
        metavar="NAME",
        help="Which of the package's overlays; multi-node when it has one.",
        show_default=False,
    ),
]
Namespace = Annotated[
    str | None,
    typer.Option("-n", "--namespace", metavar="NAME", help="The context's own when not given.", show_default=False),
]
Context = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Which of the kubeconfig's contexts.", show_default=False),
]
Kubeconfig = Annotated[
    Path | None,
    typer.Option(metavar="PATH", exists=True, dir_okay=False, help="In place of $KUBECONFIG.", show_default=False),
]
Program = Annotated[str, typer.Option("--kubectl", metavar="PATH", envvar="KUBECTL", help="Which kubectl works.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Show each kubectl command that is run.")]
Worker = Annotated[
    int | None, typer.Option(min=0, metavar="N", help="Which worker, counted from 0.", show_default=False)
]
Yes = Annotated[bool, typer.Option("-y", "--yes", help="Answer every question with yes.")]


def reach(
    program: str, namespace: str | None, context: str | None, kubeconfig: Path | None, *, verbose: bool
) -> Kubectl:
    """Return the user's kubectl, pointed at the cluster that the options name."""
    from packager.cluster.client import Kubectl

    def show(argv: list[str]) -> None:
        say(f"+ {shlex.join(argv)}")

    where = str(kubeconfig) if kubeconfig else None
    if verbose:
        return Kubectl(program, namespace, context, where, show)
    return Kubectl(program, namespace, context, where)


def seconds(text: str) -> float:
    """Return the seconds that a duration as kubectl takes it means: 90s, 5m, 1h30m, 0 for none.

    Raises:
        UsageError: It is no duration.
    """
    if text == "0":
        return 0.0
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|h|m|s)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UsageError(f"{text!r} is no duration", hint="such as 90s, 5m or 1h30m")
    scale = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
    return sum(float(number) * scale[unit] for number, unit in parts)

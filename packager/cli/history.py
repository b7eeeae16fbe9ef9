"""`mlpack history`: what of a package is in a cluster, and of which build."""

from __future__ import annotations

from typing import Annotated

import typer

from packager.cli.cluster_arguments import Context, Kubeconfig, Namespace, PackagePath, Program, Verbose, reach
from packager.cli.console import Machine, emit, emit_json, say


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    app.command()(history)


def history(
    package: PackagePath,
    namespace: Namespace = None,
    everywhere: Annotated[bool, typer.Option("-A", "--all-namespaces", help="Look in every namespace.")] = False,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    kubectl: Program = "kubectl",
    output: Annotated[Machine | None, typer.Option("-o", "--output", help="For machines.", show_default=False)] = None,
    verbose: Verbose = False,
) -> None:
    """List what was deployed of a package and is still there: when, by whom, and whether it was this very build."""
    from packager.cluster.history import deployments
    from packager.package import opened

    with opened(package) as one:
        client = reach(kubectl, namespace, context, kubeconfig, verbose=verbose)
        found = deployments(client, one.name, everywhere=everywhere)
        if output is not None:
            emit_json({"package": one.name, "digest": one.digest, "deployments": [each.as_json() for each in found]})
            return
        if not found:
            say(f"nothing of {one.name} is there")
            return
        lines = [("DEPLOYED", "NAMESPACE", "WORKLOAD", "ENDED", "BUILD", "BY")]
        for each in found:
            build = "applied by kubectl" if each.digest is None else each.digest.removeprefix("sha256:")[:12]
            build += " (this one)" if each.digest == one.digest else ""
            when = each.created.astimezone().strftime("%Y-%m-%d %H:%M")
            lines.append((when, each.namespace, each.workload, each.ended or "-", build, each.deployed_by or "-"))
        widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
        for line in lines:
            emit("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())

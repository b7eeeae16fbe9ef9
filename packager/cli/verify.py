"""`mlpack verify`: whether a package that somebody sent can be trusted to run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from packager.cli.cluster_arguments import Context, Kubeconfig, Namespace, PackagePath, reach
from packager.cli.console import Machine, emit, emit_json, say
from packager.errors import ToolError, UsageError, VerificationError

if TYPE_CHECKING:
    from packager.contents import Limits
    from packager.verify.report import Report
    from packager.verify.security import Level


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    app.command()(verify)


def verify(
    package: PackagePath,
    kubectl: Annotated[
        list[str],
        typer.Option(
            metavar="PATH", envvar="KUBECTL", help="Which kubectl renders; several have to agree. Repeatable."
        ),
    ] = ["kubectl"],  # noqa: B006 - typer copies it
    kubernetes_version: Annotated[
        list[str],
        typer.Option(
            metavar="1.N", help="Check against this version of Kubernetes, not all. Repeatable.", show_default=False
        ),
    ] = [],  # noqa: B006
    pod_security: Annotated[
        str | None,
        typer.Option(metavar="LEVEL", help="Every overlay has to keep within it: restricted, say.", show_default=False),
    ] = None,
    server: Annotated[bool, typer.Option("--server", help="Ask a cluster too, by a server-side dry run.")] = False,
    context: Context = None,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    max_size: Annotated[str, typer.Option(metavar="SIZE", help="Refuse an archive with more in it.")] = "64Gi",
    max_files: Annotated[int, typer.Option(metavar="N", min=1, help="Refuse more files and folders.")] = 50_000,
    max_ratio: Annotated[
        int, typer.Option(metavar="N", min=1, help="Refuse what unpacks to more times its size.")
    ] = 200,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Say what was checked, and what it reaches.")
    ] = False,
    output: Annotated[Machine | None, typer.Option("-o", "--output", help="As JSON.", show_default=False)] = None,
) -> None:
    """Check a package: one line for each finding, all of them; nothing when it is good.

    Ends with 5 when something is wrong, and with 6 when nothing is but something could not be checked.
    """
    from packager.package import opened
    from packager.verify import Checks
    from packager.verify import verify as judge

    if (context or namespace or kubeconfig) and not server:
        raise UsageError("--context, --namespace and --kubeconfig say which cluster --server asks", hint="add --server")
    limits = _limits(max_size, max_files, max_ratio)
    cluster = reach(kubectl[0], namespace, context, kubeconfig, verbose=False) if server else None
    checks = Checks(tuple(dict.fromkeys(kubectl)), _versions(kubernetes_version), _level(pod_security), cluster, limits)
    with opened(package, limits=limits) as found:
        report = judge(found, checks)
    if output is Machine.json:
        emit_json(_as_json(report))
    else:
        for problem in report.problems:
            emit(str(problem))
    _explain(report, verbose=verbose)
    if report.problems:
        count = len(report.problems)
        say(f"{count} problem{'s' if count > 1 else ''}")
        raise typer.Exit(VerificationError.exit_code)
    if report.unchecked:
        raise typer.Exit(ToolError.exit_code)


def _explain(report: Report, *, verbose: bool) -> None:
    for file in report.edits:
        say(f"edited: {file}")
    for reason in report.unchecked:
        say(f"not checked: {reason}")
    if not verbose:
        return
    say(f"{report.package} {report.digest}")
    kubernetes = report.kubernetes
    span = f"{kubernetes[0]} to {kubernetes[-1]}" if len(kubernetes) > 2 else " and ".join(kubernetes)
    say(f"rendered by {', '.join(report.kubectls)}; schemas of Kubernetes {span}")
    for security in report.security:
        say(f"{security.overlay}: Pod Security {security.level}")
        for field in security.exceeded:
            file, line, column = field.place
            say(f"  {file}:{line}:{column}: {field.manifest}: {field.field}: {field.reason}")


def _as_json(report: Report) -> dict[str, Any]:
    from dataclasses import asdict

    valid = False if report.problems else None if report.unchecked else True
    content = asdict(report)
    for security in content["security"]:
        for field in security["exceeded"]:
            field["place"] = field["place"]._asdict()
    return {"valid": valid, **content}


def _level(name: str | None) -> Level | None:
    from packager.verify.security import Level

    if name is not None and name not in list(Level):
        raise UsageError(f"--pod-security {name}: expected {', '.join(Level)}")
    return Level(name) if name is not None else None


def _limits(size: str, files: int, ratio: int) -> Limits:
    from packager.contents import Limits
    from packager.quantity import parse

    try:
        number = int(parse(size))
    except (ValueError, OverflowError):
        raise UsageError(f"--max-size {size}: expected bytes, or a quantity such as 512Mi or 64Gi") from None
    if number < 1:
        raise UsageError(f"--max-size {size}: expected at least 1")
    return Limits(number, files, ratio)


def _versions(asked: list[str]) -> tuple[str, ...]:
    from packager.verify.schema import versions

    known = versions()
    short = tuple(dict.fromkeys(re.sub(r"^v?(1\.\d+)(\.\d+)?$", r"\1", version) for version in asked))
    for version, given in zip(short, asked, strict=False):
        if version not in known:
            message = f"--kubernetes-version {given}: there are schemas for {known[0]} to {known[-1]}"
            raise UsageError(message)
    return tuple(version for version in known if version in short)

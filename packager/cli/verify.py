"""`mlpack verify`: checks whether a package can be trusted to run. Tests: verify/test_verify.py."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from packager.base.errors import UsageError
from packager.base.paths import DEFAULT_LIMITS
from packager.base.values import replace
from packager.cli.arguments import AcceptOptions, Expect, PackageOrBundle, cache_folder, folders
from packager.cli.cluster_arguments import ClusterOptions
from packager.cli.console import Output, emit_output, progress, say
from packager.cli.host import host
from packager.cli.registry_arguments import SignatureOptions, package_or_bundled, tag_of
from packager.verify import Checks, schema
from packager.verify.case import Report, Security
from packager.verify.command import Further, expected_digest
from packager.verify.command import verify as judge

_MOST_EDITED = 500
"""How many edited files are listed."""


def verify(
    accept: AcceptOptions,
    signatures: SignatureOptions,
    at: ClusterOptions,
    package: PackageOrBundle,
    kubectl: Annotated[
        list[str],
        typer.Option(
            metavar="PATH",
            envvar="KUBECTL",
            help="The kubectl that renders; several must give the same output. Repeatable.",
        ),
    ] = ["kubectl"],
    kubernetes_version: Annotated[
        list[str], typer.Option(metavar="1.N", help="Check against this version of Kubernetes only. Repeatable.")
    ] = [],
    expect: Expect = None,
    require_locked: Annotated[
        bool, typer.Option("--require-locked", help="Refuse images that are named by a tag, which may move.")
    ] = False,
    rebuild: Annotated[
        str | None,
        typer.Option(metavar="SPEC", help="Also build it again from this model or spec: the digest must be the same."),
    ] = None,
    server: Annotated[bool, typer.Option("--server", help="Also ask a cluster, with a server-side dry run.")] = False,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Also print what was checked, and the Pod Security levels.")
    ] = False,
    output: Output = None,
) -> None:
    """Check a package and print one line for each problem; prints nothing when there are none.

    A required signature is checked before the package is opened: that of a file is in FILE.sigstore.json beside it.
    Of a bundle, the layout and all digests are checked first, then the signature, and the package in it.
    Exit code 5 when something is wrong, 6 when nothing is wrong but something could not be checked.
    """
    if (at.context or at.namespace or at.kubeconfig) and not server:
        raise UsageError("--context, --namespace and --kubeconfig say which cluster --server asks", hint="add --server")
    allowed, level = accept.accepted()
    checks = Checks(
        kubectls=tuple(dict.fromkeys(kubectl)),
        kubernetes=_versions(kubernetes_version),
        level=level,
        server=replace(at, kubectl=kubectl[0]).client() if server else None,
        allowed=allowed,
        namespace=at.namespace,
        expected=expected_digest(expect),
        must_be_locked=require_locked,
        runner=host().runner,
    )
    further: list[Further] = []
    tag = tag_of(Path(package))
    with package_or_bundled(Path(package), signatures.trust()) as (local, bundle):
        if rebuild is not None:
            from packager.builder.rebuild import RebuildRequest
            from packager.builder.rebuild import rebuild as build_again

            request = RebuildRequest(rebuild, tuple(folders([])), cache_folder(), progress)
            further.append(lambda _: build_again(local, request, DEFAULT_LIMITS))
        if bundle is not None:
            from packager.publish.load import compared

            tag = bundle.package.tag
            further.append(lambda report: compared(bundle, report))
        report = judge(local, checks, further, tag)
    emit_output(report.as_json(), [report.package], output, map(str, report.problems))
    say(*(*report.proofs, *_explanation(report, verbose=verbose)))
    if expect is not None and not report.problems:
        whole = "as it was sealed, without edits" if expect == report.digest else "as received, with its edits"
        say(f"{report.package} has the expected digest, {whole}")
    if report.problems:
        count = len(report.problems)
        say(f"{count} problem{'s' if count > 1 else ''}")
    if report.exit_code:
        raise typer.Exit(report.exit_code)


def _explanation(report: Report, *, verbose: bool) -> Iterator[str]:
    """Yield each edited line, below its file; then the notes, and what was checked."""
    for file in report.edits[:_MOST_EDITED]:
        yield f"edited: {file}"
        yield from (f"  {change}" for change in report.changes if change.file == file)
    if len(report.edits) > _MOST_EDITED:
        yield f"edited: {len(report.edits) - _MOST_EDITED:,} more files"
    yield from (f"note: {note}" for note in report.notes)
    yield from (f"not checked: {reason}" for reason in report.unchecked)
    if verbose:
        yield from _checked(report)
    elif report.version:
        yield f"{report.package} {report.version}"


def _checked(report: Report) -> Iterator[str]:
    yield " ".join(filter(None, (report.package, report.version, report.digest)))
    if report.edits and report.received:
        yield f"{report.package} {report.received} as received, with the edits above"
    kubernetes = report.kubernetes
    span = f"{kubernetes[0]} to {kubernetes[-1]}" if len(kubernetes) > 2 else " and ".join(kubernetes)
    yield f"rendered by {', '.join(report.kubectls)}; schemas and levels of Kubernetes {span}"
    for security in report.security:
        kinds = Counter(item.kind for item in report.objects if item.overlay == security.overlay)
        yield f"{security.overlay} creates {', '.join(f'{count} {kind}' for kind, count in kinds.items()) or 'nothing'}"
    for overlay, images in report.images.items():
        if all("@sha256:" in image for image in images):
            yield f"{overlay}: images locked by digest"
    for security in report.security:
        yield f"{security.overlay}: Pod Security {_levels(security)}"
        for field in security.exceeded:
            file, line, column = field.place
            yield f"  {file}:{line}:{column}: {field.manifest}: {field.field}: {field.reason}"


def _levels(security: Security) -> str:
    """Return the level of an overlay, or each of its levels with the versions of Kubernetes in which it has it."""
    if len(security.levels) < 2:
        return str(security.level or "unknown")
    spans = {
        level: f"{those[0]} to {those[-1]}" if len(those) > 1 else those[0] for level, those in security.levels.items()
    }
    return ", ".join(f"{level} in Kubernetes {span}" for level, span in spans.items())


def _versions(requested: list[str]) -> tuple[str, ...]:
    """Return the versions of Kubernetes that the user names, the oldest first."""
    supported = schema.versions()
    if unknown := [version for version in requested if version not in supported]:
        message = f"--kubernetes-version {unknown[0]}: there are schemas for {supported[0]} to {supported[-1]}"
        raise UsageError(message)
    return tuple(version for version in supported if version in requested)

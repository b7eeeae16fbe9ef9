"""`mlpack workspace`: copies files to and from the storage that a package's pods use."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from packager.base.errors import ClusterError, UsageError
from packager.cli.arguments import Output, cache_folder
from packager.cli.cluster_arguments import ClusterOptions, OverlayOption, open_target, seconds, with_cluster
from packager.cli.console import OutputFormat, emit_output, emit_table, progress, say
from packager.cli.printing import print_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.cluster.files import Listing
    from packager.cluster.sequence import Runnable
    from packager.cluster.workspace import Copied, Listed, Session
    from packager.kubernetes.kubectl.client import Kubectl


TargetPath = Annotated[
    Path, typer.Argument(metavar="TARGET", help="A package, an MLCube or a model: a folder or a file.")
]
LocalFolder = Annotated[Path, typer.Argument(metavar="DIR", help="The local folder.")]
PushedFolder = Annotated[
    Path | None, typer.Argument(metavar="DIR", help="The local folder; without it, the folder workspace of an MLCube.")
]
FolderOption = Annotated[
    str | None,
    typer.Option(
        "--folder",
        metavar="PATH",
        help="The folder of the storage: as the pods see it, below the only storage, or a key of mlops.env.",
    ),
]
ImageOption = Annotated[
    str | None,
    typer.Option("--image", metavar="REF", help="The image of the temporary pod; by default the package's own."),
]
Patience = Annotated[
    str, typer.Option("--timeout", metavar="DURATION", help="How long to wait without any data; 0 for no limit.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace files that have another content.")]
DryRunFlag = Annotated[bool, typer.Option("--dry-run", help="Copy nothing; compare, and show what would be copied.")]


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    group = typer.Typer(help="Copy files to and from a package's storage.", no_args_is_help=True)
    group.command()(push)
    group.command()(ls)
    group.command()(pull)
    group.callback()(lambda: None)
    app.add_typer(group, name="workspace")


@with_cluster
def push(
    ctx: typer.Context,
    at: ClusterOptions,
    target: TargetPath,
    directory: PushedFolder = None,
    folder: FolderOption = None,
    overlay: OverlayOption = None,
    image: ImageOption = None,
    force: Force = False,
    dry_run: DryRunFlag = False,
    timeout: Patience = "1m",
    output: Output = None,
) -> None:
    """Copy the files in a local folder to the storage that the package's pods use.

    A temporary pod mounts the storage. Files with the same content are skipped; files with another content are replaced
    with --force only. The files appear when all have arrived. After a broken connection, what has arrived is not sent
    again. Links and devices are refused.
    """
    from packager.cluster import workspace

    patience = seconds(timeout)
    source = _package_of(target)
    directory = directory or source.workspace
    if directory is None:
        raise UsageError(f"{target} is not an MLCube: name the local folder")
    to_cluster = at.client(ctx, source.namespace)
    with _session(ctx, source, overlay, to_cluster, folder, patience, image) as session:
        pushed = workspace.push(session, directory, force=force, dry_run=dry_run, progress=progress)
    _show_copied(pushed, output, "would push" if dry_run else "pushed", f"{directory} to {pushed.place.path}")


@with_cluster
def ls(
    ctx: typer.Context,
    at: ClusterOptions,
    target: TargetPath,
    folder: FolderOption = None,
    overlay: OverlayOption = None,
    image: ImageOption = None,
    timeout: Patience = "1m",
    output: Output = None,
) -> None:
    """List the files on the storage that the package's pods use: size, time (UTC) and path."""
    from packager.cluster import workspace

    patience = seconds(timeout)
    source = _package_of(target)
    to_cluster = at.client(ctx, source.namespace)
    with _session(ctx, source, overlay, to_cluster, folder, patience, image) as session:
        listed = workspace.ls(session)
    _show_listed(listed, output)


@with_cluster
def pull(
    ctx: typer.Context,
    at: ClusterOptions,
    target: TargetPath,
    directory: LocalFolder,
    folder: FolderOption = None,
    overlay: OverlayOption = None,
    image: ImageOption = None,
    force: Force = False,
    dry_run: DryRunFlag = False,
    timeout: Patience = "1m",
    output: Output = None,
) -> None:
    """Copy the files on the storage that the package's pods use to a local folder.

    A temporary pod mounts the storage. Files with the same content are skipped; local files with another content are
    replaced with --force only. A file appears when it has arrived completely. After a broken connection, what has
    arrived is not read again. Links and devices are skipped. Everything that can be read is copied; exit code 7
    when something could not be read, or changed while it was read.
    """
    from packager.cluster import workspace

    patience = seconds(timeout)
    source = _package_of(target)
    to_cluster = at.client(ctx, source.namespace)
    with _session(ctx, source, overlay, to_cluster, folder, patience, image) as session:
        pulled = workspace.pull(session, directory, force=force, dry_run=dry_run, progress=progress)
    assert pulled.pull is not None
    listing, unread = pulled.pull.listing, pulled.pull.unread
    print_names("skipped: not a plain file, or a name that is not allowed here", listing.odd, listing.unnamed)
    print_names("not read", unread)
    print_names("changed or deleted while it was read", pulled.changed)
    _show_copied(pulled, output, "would pull" if dry_run else "pulled", f"{pulled.place.path} to {directory}")
    _require_complete(unread, pulled.changed)


def _package_of(target: Path) -> Runnable:
    """Return a package; for a cube or a model, the package of its last run if that is up to date, else a new one."""
    from packager.builder.build import BuildRequest
    from packager.cluster.runnable import RunRequest, package_of

    return package_of(RunRequest(target, BuildRequest(None, (), cache=cache_folder())), progress=progress)


@contextmanager
def _session(
    ctx: typer.Context,
    source: Runnable,
    overlay: str | None,
    kubectl: Kubectl,
    folder: str | None,
    patience: float,
    image: str | None,
) -> Iterator[Session]:
    from packager.cluster import workspace

    name = source.overlay(overlay, ()) if overlay else None
    with open_target(ctx, source.package, name, kubectl) as target:
        yield workspace.session(target, folder, patience=patience, image=image, tell=say)


def _show_copied(copied: Copied, output: OutputFormat | None, verb: str, route: str) -> None:
    if output is not None:
        emit_output(copied.as_json(), copied.files, output, is_bounded=False)
    unchanged = f"; {_count(len(copied.unchanged))} unchanged" if copied.unchanged else ""
    say(f"{verb} {_count(len(copied.files))}, {copied.size:,} bytes, from {route}{unchanged}")


def _show_listed(listed: Listed, output: OutputFormat | None) -> None:
    listing = listed.listing
    if output is not None:
        emit_output(listed.as_json(), [entry.path for entry in listing.entries], output, is_bounded=False)
    elif listing.entries:
        emit_table(_rows(listing))
    print_names("a name that is not allowed here", listing.skipped, listing.unnamed)
    print_names("not read", listing.unread)
    size = sum(entry.size for entry in listing.entries)
    say(f"{_count(len(listing.files))}, {size:,} bytes, in {listed.place.path} on {listed.place.storage.words}")
    _require_complete(listing.unread)


def _rows(listing: Listing) -> list[tuple[str, str, str]]:
    marks = {"folder": "/", "link": " (a link)", "other": " (not a plain file)"}
    rows = []
    for entry in listing.entries:
        time = datetime.fromtimestamp(min(max(entry.modified, 0), 1 << 34), UTC).strftime("%Y-%m-%d %H:%M")
        size = f"{entry.size:,}" if entry.kind == "file" else "-"
        rows.append((size, time, f"{entry.path}{marks.get(entry.kind, '')}"))
    width = max(len(size) for size, _, _ in rows)
    return [(size.rjust(width), time, path) for size, time, path in rows]


def _require_complete(unread: Sequence[str], changed: Sequence[str] = ()) -> None:
    counts = [(len(unread), "could not be read"), (len(changed), "changed while being read")]
    if what := [f"{count:,} of the files and folders {how}" for count, how in counts if count]:
        again = "run it again when no program is writing there"
        hint = "the user in the patch must be able to read them" if unread else again
        raise ClusterError("; ".join(what), hint=hint)


def _count(number: int) -> str:
    return f"{number:,} file{'s' if number != 1 else ''}"

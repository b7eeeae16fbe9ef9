"""`mlpack workspace`: copies files to and from the storage that a package's pods use."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from packager.base.errors import ClusterError, UsageError
from packager.base.values import Value
from packager.cli.arguments import OverlayOption, VariantOptions
from packager.cli.cluster_arguments import ClusterOptions, open_target, seconds
from packager.cli.commands import group
from packager.cli.console import Output, emit_output, progress, say, table
from packager.cli.printing import counted, print_names
from packager.cluster import workspace
from packager.cluster.file_lists import Listing
from packager.cluster.runnable import RunRequest, package_of
from packager.cluster.sequence import Runnable
from packager.cluster.workspace import Copied, Session

TargetPath = Annotated[
    Path, typer.Argument(metavar="TARGET", help="A package, an MLCube or a model: a folder or a file.")
]


class StorageOptions(Value, frozen=True):
    """The options that name a storage of a package."""

    folder: Annotated[
        str | None,
        typer.Option(
            "--folder",
            metavar="PATH",
            help="The folder of the storage: as the pods see it, below the only storage, or a key of mlops.env.",
        ),
    ] = None
    overlay: OverlayOption = None
    image: Annotated[
        str | None,
        typer.Option("--image", metavar="REF", help="The image of the temporary pod; by default the package's own."),
    ] = None
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="DURATION", help="How long to wait without any data; 0 for no limit.")
    ] = "1m"
    output: Output = None

    @contextmanager
    def opened(self, at: ClusterOptions, source: Runnable) -> Iterator[Session]:
        """Give access to the storage of a package."""
        patience = seconds(self.timeout)
        name = source.overlay(self.overlay, ()) if self.overlay else None
        with open_target(source.package, name, at.client(source.namespace)) as target:
            yield workspace.session(target, self.folder, patience=patience, image=self.image, tell=say)


class CopyOptions(StorageOptions, frozen=True):
    """The options of a copy."""

    force: Annotated[bool, typer.Option("--force", help="Replace files that have another content.")] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Copy nothing; compare, and show what would be copied.")
    ] = False


def push(
    how: CopyOptions,
    at: ClusterOptions,
    target: TargetPath,
    directory: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="The local folder; without it, the folder workspace of an MLCube."),
    ] = None,
) -> None:
    """Copy the files in a local folder to the storage that the package's pods use.

    A temporary pod mounts the storage. Files with the same content are skipped; files with another content are replaced
    with --force only. The files appear when all have arrived. After a broken connection, what has arrived is not sent
    again. Links and devices are refused.
    """
    source = _package_of(target)
    directory = directory or source.workspace
    if directory is None:
        raise UsageError(f"{target} is not an MLCube: name the local folder")
    with how.opened(at, source) as session:
        pushed = workspace.push(session, directory, force=how.force, dry_run=how.dry_run, progress=progress)
    _show_copied(pushed, how, "push", f"{directory} to {pushed.storage.path}")


def ls(how: StorageOptions, at: ClusterOptions, target: TargetPath) -> None:
    """List the files on the storage that the package's pods use: size, time (UTC) and path."""
    with how.opened(at, _package_of(target)) as session:
        listed = workspace.ls(session)
    listing = listed.listing
    names = [entry.path for entry in listing.entries]
    emit_output(listed.as_json(), names, how.output, _rows(listing))
    print_names("a name that is not allowed here", listing.skipped, listing.unnamed)
    print_names("not read", listing.unread)
    size = sum(entry.size for entry in listing.entries)
    say(f"{counted(len(listing.files))}, {size:,} bytes, in {listed.storage.path} on {listed.storage.words}")
    _require_complete(listing.unread)


def pull(
    how: CopyOptions,
    at: ClusterOptions,
    target: TargetPath,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The local folder.")],
) -> None:
    """Copy the files on the storage that the package's pods use to a local folder.

    A temporary pod mounts the storage. Files with the same content are skipped; local files with another content are
    replaced with --force only. A file appears when it has arrived completely. After a broken connection, what has
    arrived is not read again. Links and devices are skipped. Everything that can be read is copied; exit code 7
    when something could not be read, or changed while it was read.
    """
    with how.opened(at, _package_of(target)) as session:
        pulled = workspace.pull(session, directory, force=how.force, dry_run=how.dry_run, progress=progress)
    assert pulled.pull is not None
    listing, unread = pulled.pull.listing, pulled.pull.unread
    print_names("skipped: not a plain file, or a name that is not allowed here", listing.odd, listing.unnamed)
    print_names("not read", unread)
    print_names("changed or deleted while it was read", pulled.changed)
    _show_copied(pulled, how, "pull", f"{pulled.storage.path} to {directory}")
    _require_complete(unread, pulled.changed)


def _package_of(target: Path) -> Runnable:
    """Return a package; for a cube or a model, the package of its last run if that is up to date, else a new one."""
    return package_of(RunRequest(target, VariantOptions().request()), progress=progress)


def _show_copied(copied: Copied, how: CopyOptions, verb: str, route: str) -> None:
    emit_output(copied.as_json(), copied.files, how.output, ())
    unchanged = f"; {counted(len(copied.unchanged))} unchanged" if copied.unchanged else ""
    done = f"would {verb}" if how.dry_run else f"{verb}ed"
    say(f"{done} {counted(len(copied.files))}, {copied.size:,} bytes, from {route}{unchanged}")


def _rows(listing: Listing) -> Iterator[str]:
    """Return the lines of a table with the size, time and path of each entry."""
    marks = {"folder": "/", "link": " (a link)", "other": " (not a plain file)"}
    rows = []
    for entry in listing.entries:
        time = datetime.fromtimestamp(min(max(entry.modified, 0), 1 << 34), UTC).strftime("%Y-%m-%d %H:%M")
        size = f"{entry.size:,}" if entry.kind == "file" else "-"
        rows.append((size, time, f"{entry.path}{marks.get(entry.kind, '')}"))
    width = max((len(size) for size, _, _ in rows), default=0)
    return table([(size.rjust(width), time, path) for size, time, path in rows], gap="   ")


def _require_complete(unread: Sequence[str], changed: Sequence[str] = ()) -> None:
    counts = [(len(unread), "could not be read"), (len(changed), "changed while being read")]
    if what := [f"{count:,} of the files and folders {how}" for count, how in counts if count]:
        again = "run it again when no program is writing there"
        hint = "the user in the patch must be able to read them" if unread else again
        raise ClusterError("; ".join(what), hint=hint)


GROUP = group("Copy files to and from a package's storage.", push=push, ls=ls, pull=pull)

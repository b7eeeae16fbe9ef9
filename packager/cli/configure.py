"""`mlpack configure`: the edits that a package leaves to its user, made in the package's own files."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from packager.cli.cluster_arguments import PackagePath  # noqa: TC001 - typer reads the annotations
from packager.cli.console import emit, say
from packager.errors import MlpackError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from packager.configure import Answers
    from packager.package import Package


_LARGEST_ID = 2**31 - 1
_DELIVERED_ID = 1000


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    app.command()(configure)


def configure(
    package: PackagePath,
    overlay: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only this overlay; else all that the package has.", show_default=False),
    ] = None,
    root: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="The folder that the package lies in, for the pods.", show_default=False),
    ] = None,
    registry: Annotated[
        str | None, typer.Option(metavar="HOST", help="Where the image is pulled from.", show_default=False)
    ] = None,
    uid: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, max=_LARGEST_ID, help="The user that it runs as.", show_default=False),
    ] = None,
    gid: Annotated[
        int | None, typer.Option(metavar="N", min=0, max=_LARGEST_ID, help="The user's group.", show_default=False)
    ] = None,
    fs_group: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, max=_LARGEST_ID, help="The group that volumes belong to.", show_default=False),
    ] = None,
    settings: Annotated[
        list[str],
        typer.Option("--set", metavar="KEY=VALUE", help="Another value of mlops.env. Repeatable.", show_default=False),
    ] = [],  # noqa: B006 - typer copies it
    storage: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Where results go: scratch, host-path, nfs or pvc.", show_default=False),
    ] = None,
    switch_on: Annotated[
        list[str],
        typer.Option("--with", metavar="OPTION", help="Switch a site option on. Repeatable.", show_default=False),
    ] = [],  # noqa: B006
    switch_off: Annotated[
        list[str],
        typer.Option("--without", metavar="OPTION", help="Switch it off. Repeatable.", show_default=False),
    ] = [],  # noqa: B006
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; say what is unset. Ends with 1 then.")
    ] = False,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Take what would be proposed on a terminal.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; show the changes.")] = False,
    destination: Annotated[
        Path | None,
        typer.Option("--destination", "-d", metavar="FILE", help="The new tarball.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a new tarball that is there.")] = False,
) -> None:
    """Say where a package lies, where its image is, and as whom it runs; on a terminal, it asks.

    A folder is edited in place; of a tarball, a new one is written. Prints the paths of the files that it wrote.
    """
    from packager import configure as stage
    from packager.cli.target import chosen
    from packager.package import opened
    from packager.plan import Options, check_options
    from packager.settings import Files, unset

    check_options(Options(root=root, registry=registry))
    answers = stage.Answers(
        root=root,
        registry=registry,
        uid=uid,
        gid=gid,
        fs_group=fs_group,
        settings=tuple(_setting(setting) for setting in settings),
        switch_on=tuple(switch_on),
        switch_off=tuple(switch_off),
        storage=storage,
    )
    with opened(package) as found:
        overlays = chosen(found, overlay)
        if check:
            problems = list(unset(Files(found), overlays))
            for problem in problems:
                emit(str(problem))
            if problems:
                raise typer.Exit(MlpackError.exit_code)
            return
        if answers == stage.Answers():
            answers = _ask(found, overlays, yes=yes)
        changed = stage.configure(found, overlays, answers)
        for change in stage.changes(found, changed):
            was = "" if change.before is None else f"{change.before.strip()}  ->  "
            say(f"{found.shown(change.path)}:{change.line}: {was}{change.after.strip()}")
        if not dry_run:
            _write(found, changed, destination, force=force)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--set {text}: expected KEY=VALUE")
    return key, value


def _ask(package: Package, overlays: tuple[str, ...], *, yes: bool) -> Answers:
    """Return what the user answers; with `yes`, what is proposed."""
    from packager import settings
    from packager.configure import Answers
    from packager.plan import Options, check_options

    if not yes and not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "there is no terminal to ask on", hint="say it with --root, --registry, --uid and --gid, or take -y"
        )
    first = overlays[0]
    files = settings.Files(package)
    now = settings.ids(files, first)
    place = str(package.source.resolve().parent)

    def ask(question: str, proposed: object) -> str:
        return str(proposed if yes else typer.prompt(question, default=str(proposed), err=True))

    if not yes:
        say(f"{package.name}. Enter takes what stands in brackets.")
    while True:
        root = ask("Folder that the package lies in, as the nodes see it", settings.root(files, first) or place)
        registry = ask(
            "Registry that the image is pulled from", settings.value(files, first, "REGISTRY") or "docker.io"
        )
        try:
            check_options(Options(root=root, registry=registry))
            break
        except UsageError as error:
            if yes:
                raise
            say(str(error))
    # A package as delivered refuses root, so whoever is root here is not proposed.
    uid = _number("User id", ask, _proposed(now.get("runAsUser"), os.getuid()))
    gid = _number("Group id", ask, _proposed(now.get("runAsGroup"), os.getgid()))
    fs_group = _number("Group id of its volumes", ask, _proposed(now.get("fsGroup"), gid))
    return Answers(root=root, registry=registry, uid=uid, gid=gid, fs_group=fs_group)


def _proposed(now: object, own: int) -> object:
    """Return the id to propose: what somebody has put in the place of the delivered one, else one's own."""
    return own if own and now in (None, _DELIVERED_ID) else now or _DELIVERED_ID


def _number(question: str, ask: Callable[[str, object], str], proposed: object) -> int:
    while not (answer := ask(question, proposed).strip()).isdecimal() or int(answer) > _LARGEST_ID:
        say("expected a number, as `id -u` prints it")
    return int(answer)


def _write(package: Package, changed: Mapping[str, bytes], destination: Path | None, *, force: bool) -> None:
    if package.source.is_dir():
        if destination is not None:
            raise UsageError(f"{package.source} is a folder, and is edited in place", hint="-d goes with a tarball")
        _edit(package, changed)
        next_to = package.source
    else:
        next_to = _pack(package, changed, destination, force=force)
        emit(str(next_to))
    if not changed:
        say("nothing to change")
    say(f"next: {shlex.join(['mlpack', 'doctor', str(next_to)])}")


def _edit(package: Package, changed: Mapping[str, bytes]) -> None:
    from packager import atomic

    for path, content in changed.items():
        file = package.folder / path
        mode = file.stat().st_mode & 0o777
        with atomic.file(file) as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(content)
        emit(package.shown(path))


def _pack(package: Package, changed: Mapping[str, bytes], destination: Path | None, *, force: bool) -> Path:
    """Write the package with its changes as a new tarball, and return its path: the old one's when nothing changes."""
    from packager import archive, atomic, paths
    from packager.configure import edited

    if destination is None and not changed:
        return package.source
    name = package.source.name
    stem = name.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz").removesuffix(".configured")
    path = destination or package.source.with_name(f"{stem}.configured.tar.gz")
    if paths.is_folder(path):
        raise UsageError(f"{path} is a folder")
    contents, manifest = edited(package, changed)
    with atomic.file(path) as stream:
        archive.write(contents, stream, sealed=manifest)
        stream.flush()
        if path.exists() and not force and not _same(path, Path(stream.name)):
            raise UsageError(f"{path} is there already and was left alone", hint="--force replaces it")
    return path


def _same(one: Path, other: Path) -> bool:
    import filecmp

    return filecmp.cmp(one, other, shallow=False)

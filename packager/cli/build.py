"""`mlpack build`: from a spec to packages on disk."""

from __future__ import annotations

import os
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from packager.cli.arguments import Mode, Precision, RegistryHost, Root, Settings, Site, Specs, With, folders
from packager.cli.console import Machine, complain, emit, emit_json, error_as_json, progress, say
from packager.errors import MlpackError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from packager.plan import Options
    from packager.selection import Selection
    from packager.spec.load import LoadedSpec, Setting
    from packager.spec.model import Variant
    from packager.tree import Entry, Tree


class Format(StrEnum):
    """What a package is written as."""

    tar_gz = "tar.gz"
    dir = "dir"


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    app.command()(build)


def build(
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="A model's name or alias, or the path of a spec.", show_default=False),
    ] = None,
    precision: Precision = None,
    mode: Mode = None,
    every: Annotated[
        bool,
        typer.Option("--all", help="Every variant of the model; without MODEL, of every model."),
    ] = False,
    destination: Annotated[
        Path, typer.Option("-d", "--destination", metavar="DIR", help="Where packages are written.")
    ] = Path(),
    settings: Settings = [],  # noqa: B006 - typer copies it
    root: Root = None,
    registry: RegistryHost = None,
    components: With = [],  # noqa: B006
    site: Site = [],  # noqa: B006
    form: Annotated[Format, typer.Option("--format", help="An archive, or a folder.")] = Format.tar_gz,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
    specs: Specs = [],  # noqa: B006
    output: Annotated[
        Machine | None, typer.Option("-o", "--output", help="Say more than paths.", show_default=False)
    ] = None,
) -> None:
    """Build the package of a model: a tarball that runs with kubectl alone."""
    from packager.plan import Options, check_options
    from packager.spec.catalog import find
    from packager.spec.catalog import specs as every_spec
    from packager.spec.load import parse_setting

    if every and (precision or mode):
        raise UsageError("--all builds every variant: --precision and --mode go without it")
    if model is None and not every:
        raise UsageError("which model?", hint="`mlpack list` shows the models; --all builds every one")
    options = Options(root=root, registry=registry, site=_selected(components, site))
    check_options(options)
    changes = [parse_setting(setting) for setting in settings]
    paths = [find(model, folders(specs))] if model is not None else list(every_spec(folders(specs)))
    several = len(paths) > 1
    writer = _Writer(destination, form, options, force=force, mtime=_source_date_epoch(), bars=not several)
    count, written = 0, list[dict[str, Any]]()
    failures: list[MlpackError] = []
    with progress("building", len(paths), unit="models") if several else _quiet() as advance:
        for path in paths:
            for outcome in _packages(path, changes, precision, mode, every=every, write=writer.write):
                if isinstance(outcome, MlpackError):
                    complain(outcome)
                    failures.append(outcome)
                    continue
                count += 1
                if output is None:
                    emit(outcome["path"])
                else:
                    written.append(outcome)
            advance(1)
    if output is not None:
        emit_json({"packages": written, "errors": [error_as_json(failure) for failure in failures]})
    if failures:
        if every:
            say(f"{count} built, {len(failures)} failed")
        raise typer.Exit(max(failure.exit_code for failure in failures))


def _selected(components: list[str], values: list[str]) -> Selection:
    from packager.selection import select

    selection = select(components, values)
    for option, key in selection.lacking:
        say(f"note: {option} does not render before site.env says {key}; --site {key}=VALUE says it now")
    return selection


def _packages(
    path: Path,
    settings: list[Setting],
    precision: str | None,
    mode: str | None,
    *,
    every: bool,
    write: Callable[[LoadedSpec, Variant], dict[str, Any]],
) -> Iterator[dict[str, Any] | MlpackError]:
    """Yield what was written of each package of one spec, or why it was not."""
    from packager.plan import choose
    from packager.spec.load import load

    try:
        loaded = load(path, settings)
        variants = loaded.spec.variants if every else [choose(loaded.spec, precision, mode)]
    except MlpackError as error:
        yield error
        return
    for variant in variants:
        try:
            result = write(loaded, variant)
        except MlpackError as error:
            yield error
        else:
            yield result


class _Writer:
    """Writes packages into one folder, each under a name of its own."""

    def __init__(
        self, destination: Path, form: Format, options: Options, *, force: bool, mtime: int, bars: bool
    ) -> None:
        self._destination = destination
        self._form = form
        self._options = options
        self._force = force
        self._mtime = mtime
        self._bars = bars
        self._taken: dict[str, Path] = {}

    def write(self, loaded: LoadedSpec, variant: Variant) -> dict[str, Any]:
        """Write the package of one variant, and return what there is to say of it."""
        from packager import tree
        from packager.plan import plan
        from packager.render import render

        package = render(plan(loaded, variant, self._options))
        suffix = "" if self._form is Format.dir else ".tar.gz"
        path = self._destination / f"{package.name}{suffix}"
        other = self._taken.setdefault(package.name, loaded.path)
        if other != loaded.path:
            raise UsageError(f"{loaded.path} and {other} both make the package {package.name}")
        if os.path.lexists(path) and not self._force:
            raise UsageError(f"{path} is there already and was left alone", hint="--force replaces it")
        manifest = self._folder(package, path) if self._form is Format.dir else self._archive(package, path)
        return {
            "package": package.name,
            "path": str(path),
            "digest": tree.digest(manifest),
            "model": loaded.spec.name,
            "precision": variant.precision,
            "mode": variant.mode,
            "files": len(package.entries) + 1,
        }

    def _folder(self, package: Tree, path: Path) -> Entry:
        from packager import atomic, paths, tree

        if paths.exists(path) and not paths.is_folder(path):
            raise UsageError(f"{path} is not a folder")
        with atomic.folder(path) as folder:
            return tree.write(package, folder)

    def _archive(self, package: Tree, path: Path) -> Entry:
        from packager import archive, atomic, paths

        if paths.is_folder(path):
            raise UsageError(f"{path} is a folder")
        large = archive.is_large(package)
        if large and not archive.fast():
            say("note: isal is not installed, so zlib compresses this payload; `pip install isal` makes it faster")
        with (
            atomic.file(path) as stream,
            progress(package.name, package.size, unit="bytes") if large and self._bars else _quiet() as advance,
        ):
            return archive.write(package, stream, mtime=self._mtime, advance=advance)


def _quiet() -> AbstractContextManager[Callable[[int], None]]:
    return nullcontext(lambda _steps: None)


def _source_date_epoch() -> int:
    """Return SOURCE_DATE_EPOCH (reproducible-builds.org), or 0 when it is not set."""
    value = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not value:
        return 0
    if not value.isdecimal() or len(value) > 11:
        raise UsageError(f"SOURCE_DATE_EPOCH={value}: expected seconds since 1970, such as 1700000000")
    return int(value)

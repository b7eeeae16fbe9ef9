"""Builds packages from a model's spec, whose downloads it fetches into a cache, by their digests."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from packager.base import atomic, paths, yamlio
from packager.base.errors import MlpackError, SpecError, ToolError, UsageError, reason
from packager.base.paths import DEFAULT_LIMITS
from packager.base.values import Value, as_dict, replace
from packager.builder.plan import Options, check_options, choose, plan
from packager.builder.render import render
from packager.builder.selection import select
from packager.modelspec import catalog
from packager.modelspec.files import SourceFile
from packager.modelspec.load import load
from packager.modelspec.settings import parse_setting
from packager.package import archive, layout, placement, tree
from packager.package.opened import check_replaceable
from packager.package.options import BY_NAME, OPTIONS, PACKAGE_VOLUME, PLACEMENT, offered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from packager.base.fields import Download
    from packager.base.process import Progress, Tell
    from packager.base.web import Progress as FileProgress
    from packager.builder.plan import Plan
    from packager.builder.selection import Selection
    from packager.modelspec.load import LoadedSpec
    from packager.modelspec.model import Variant
    from packager.modelspec.settings import Setting
    from packager.package.tree import Entry, Tree
    from packager.site.read import SiteSettings


_FLAGS = {
    "precision": "--precision",
    "mode": "--mode",
    "settings": "--set",
    "additions": "--add",
    "root": "--root",
    "registry": "--registry",
    "components": "--with",
    "site": "--site",
}


_DOWNLOADS = "downloads"
"""The folder of downloads in the cache."""

_LARGE = 32 << 20
"""The bytes of a package that take so long that their progress is shown."""


class BuildRequest(Value, frozen=True):
    """The packages to build, as the user names them."""

    model: str | None  # a model's name or alias, or the path of its spec; None for all
    folders: tuple[Path, ...]  # the folders in which models are looked up by name
    precision: str | None = None  # the precision of the variant; None for the only one, or the first
    mode: str | None = None  # the mode of the variant; None for the only one, or the first
    every: bool = False  # whether to build every variant
    settings: tuple[str, ...] = ()  # other values for fields of the spec, each as `path=value`
    # environment variables that the spec does not have, each as `environment.KEY=value`
    additions: tuple[str, ...] = ()
    root: str | None = None  # the folder that will contain the package, as the pods see it
    registry: str | None = None  # the registry to pull the image from
    components: tuple[str, ...] = ()  # the site options to switch on, and folders of the user's own components
    site: tuple[str, ...] = ()  # the values of site options, each as `key=value`
    cache: Path = Path(".mlpack-cache")  # the folder of mlpack's caches
    defaults: SiteSettings | None = None  # the defaults of the site

    @property
    def flags(self) -> list[str]:
        """The options of the command line that are set, which a package that is built already does not take."""
        return [flag for name, flag in _FLAGS.items() if getattr(self, name)]


class Destination(Value, frozen=True):
    """The place and form in which packages are written."""

    folder: Path  # the folder that packages are written to
    as_folder: bool = False  # whether to write a folder instead of an archive
    force: bool = False  # whether to replace an existing output
    mtime: int = 0  # the time of the files in an archive, in seconds since 1970
    versioned: bool = False  # whether the version of a package is part of the name of its file or folder

    @property
    def exists_hint(self) -> str | None:
        """The hint for an existing output; None if it is replaced."""
        return None if self.force else "--force replaces it"

    def path(self, package: str, version: str | None) -> Path:
        """Return the path of a package."""
        if self.versioned and version is None:
            raise UsageError(f"--versioned: the spec of {package} has no version", hint="add `version: 1.0.0` to it")
        end = f"-{version}" if self.versioned else ""
        return self.folder / f"{package}{end}{'' if self.as_folder else '.tar.gz'}"


class Built(Value, frozen=True):
    """A package that was written: its name, version, path and digest, its variant, and its number of files."""

    package: str
    version: str | None
    path: Path
    digest: str
    model: str
    precision: str | None
    mode: str | None
    files: int
    next_steps: tuple[str, ...] = ()  # lines for a shell

    def as_json(self) -> dict[str, Any]:
        """Return the package for `-o json`."""
        values = {**as_dict(self), "path": str(self.path)}
        del values["next_steps"]
        return values


def as_json(outcomes: Sequence[Built | MlpackError]) -> dict[str, Any]:
    """Return the result of a request for `-o json`."""
    return {
        "packages": [outcome.as_json() for outcome in outcomes if isinstance(outcome, Built)],
        "errors": [outcome.as_json() for outcome in outcomes if isinstance(outcome, MlpackError)],
    }


def build(
    request: BuildRequest, destination: Destination, *, tell: Tell, progress: Progress
) -> Iterator[Built | MlpackError]:
    """Write the requested packages, and yield each as it is written, or the error that prevented it."""
    if request.every and (request.precision or request.mode):
        raise UsageError("--all builds every variant: it takes no --precision or --mode")
    if request.model is None and not request.every:
        raise UsageError("no model given", hint="`mlpack list` shows the models; --all builds all of them")
    writer = _Writer(request, destination, tell, progress)
    if request.model is not None:
        specs = [catalog.find(request.model, request.folders)]
    elif not (specs := list(catalog.specs(request.folders))):
        places = ", ".join(map(str, request.folders))
        raise UsageError(f"no models found in {places}", hint="a model is a folder there with a spec.yaml")
    for spec in specs:
        yield from writer.packages(spec)


def _settings(request: BuildRequest) -> list[Setting]:
    """Return the changes to the spec; additions come first, so that another setting may describe them."""
    additions = [parse_setting(addition, adds=True) for addition in request.additions]
    return [*additions, *(parse_setting(setting) for setting in request.settings if not _is_placement(setting))]


def _is_placement(setting: str) -> bool:
    """Whether a KEY=VALUE of `--set` is one of the option `placement`, and not a field of the spec."""
    return setting.partition("=")[0] in placement.FIELDS


def _options(request: BuildRequest) -> Options:
    """Return the options that are added to the spec; `--set` has those of placement too, as `configure` does."""
    values = (*request.site, *filter(_is_placement, request.settings))
    options = Options(root=request.root, registry=request.registry, site=select(request.components, values))
    check_options(options)
    return options


class _Writer:
    """Writes the packages of a request to their destination."""

    def __init__(self, request: BuildRequest, destination: Destination, tell: Tell, progress: Progress) -> None:
        self._progress = progress
        self._request = request
        self._destination = destination
        self._tell = tell
        self._options = _options(request)
        self._settings = _settings(request)
        self._reported: set[str] = set()  # a note is reported once, even if it applies to several packages
        self._specs: dict[str, Path] = {}

    def packages(self, path: Path) -> Iterator[Built | MlpackError]:
        """Yield the packages of a spec as they are written, or the errors that prevented it."""
        request = self._request
        try:
            loaded = self._load(path)
            every = loaded.spec.variants if request.every else [choose(loaded.spec, request.precision, request.mode)]
        except MlpackError as error:
            yield error
            return
        for variant in every:
            try:
                yield self._write(loaded, variant)
            except MlpackError as error:
                yield error

    def _load(self, path: Path) -> LoadedSpec:
        """Return a spec with the digests of its downloads."""
        request = self._request
        may_mount = PACKAGE_VOLUME in self._options.site.options or request.defaults is not None
        loaded = load(path, self._settings, may_mount=may_mount)
        for omitted, text in loaded.sources.notes:
            self._tell(f"note: {path.parent / omitted} {text}")
        if not loaded.spec.downloads:
            return loaded
        return with_downloads(loaded, request.cache, self._progress)

    def _write(self, loaded: LoadedSpec, variant: Variant) -> Built:
        """Write the package of one variant, unless an earlier spec makes a package of this name."""
        first = self._specs.setdefault(loaded.spec.package_name(variant), loaded.path)
        planned = plan(loaded, variant, self._options)
        if self._request.defaults is not None:
            planned = plan(loaded, variant, with_site(self._options, planned, self._request.defaults))
        package = render(planned)
        for text in _notes(planned, loaded):
            if text not in self._reported:
                self._reported.add(text)
                self._tell(f"note: {text}")
        destination = self._destination
        path = destination.path(package.name, loaded.spec.version)
        if first != loaded.path:
            raise UsageError(f"{loaded.path} and {first} both make the package {package.name}")
        inventory = self._folder(package, path) if destination.as_folder else self._archive(package, path)
        return Built(
            package.name,
            loaded.spec.version,
            path,
            tree.digest(inventory),
            loaded.spec.name,
            variant.precision,
            variant.mode,
            len(package.entries) + 1,
            _next_steps(planned, path, [entry.path for entry in package.entries], as_folder=destination.as_folder),
        )

    def _folder(self, package: Tree, path: Path) -> Entry:
        if self._destination.force and paths.exists(path):
            check_replaceable(path)
        with atomic.folder(path, exists_hint=self._destination.exists_hint) as folder:
            return tree.write(package, folder)

    def _archive(self, package: Tree, path: Path) -> Entry:
        if self._destination.force and paths.is_folder(path):
            raise UsageError(f"{path} is a folder")
        shown = self._progress if package.size > _LARGE else _no_progress
        with (
            atomic.file(path, exists_hint=self._destination.exists_hint) as stream,
            shown(package.name, package.size, unit="bytes") as advance,
        ):
            return archive.write(package, stream, mtime=self._destination.mtime, advance=advance)


def fetched(download: Download, cache: Path, progress: FileProgress) -> tuple[SourceFile, str]:
    """Return a download as a file of the cache, and its digest; without one in the spec, it is fetched again."""
    from packager.base import web

    folder = cache / _DOWNLOADS
    try:
        paths.make_private(folder)
        digest = download.sha256
        kept = folder / f"{digest}"
        if digest is None or kept.is_symlink() or not kept.is_file() or web.digest_of(kept) != digest:
            part = folder / f"{digest or 'unknown'}.part"  # after an error, it stays for the next attempt
            digest = web.download(download.url, part, digest, limit=DEFAULT_LIMITS.size, progress=progress)
            part.replace(folder / digest)
        file = folder / digest
        return SourceFile(download.path, file, file.stat().st_size, executable=False), digest
    except OSError as error:
        raise ToolError(f"the cache {folder} cannot be used: {reason(error)}", hint="set XDG_CACHE_HOME") from None


def with_downloads(loaded: LoadedSpec, cache: Path, progress: Progress) -> LoadedSpec:
    """Return the spec with its downloads among its assets. Raises SpecError for those without a digest, with theirs."""
    document, _ = yamlio.load(loaded.text, str(loaded.path))

    def show(url: str, total: int) -> object:
        return progress(url, total, unit="bytes")

    files, problems = [], []
    for index, download in enumerate(loaded.spec.downloads):
        file, digest = fetched(download, cache, show)  # type: ignore[arg-type]
        files.append(file)
        if download.sha256 is None:
            hint = f"the file that was fetched has `sha256: {digest}`"
            problems.append(document.problem(("downloads", index), "the key 'sha256' is missing", hint=hint))
    if problems:
        raise SpecError(f"{loaded.path}: a download has no digest", problems=problems)
    assets = tuple(sorted((*loaded.sources.assets, *files), key=lambda file: file.name))
    return replace(loaded, sources=replace(loaded.sources, assets=assets))


def _notes(planned: Plan, loaded: LoadedSpec) -> Iterator[str]:
    """Yield the notes about a package: values that it lacks, and assets."""
    for option, key in planned.site.missing_values(planned.traits):
        yield f"{option} does not render until {key} is set in site.env: set it now with --site {key}=VALUE"
    sees_assets = any("model" in BY_NAME[name].places for name in planned.site.options)
    sees_assets = sees_assets or loaded.spec.image.dockerfile is not None
    if planned.has("assets") and not sees_assets:
        message = f"the containers of {planned.name} do not see its assets, which are not in the image"
        yield f"{message}: switch on --with model-nfs, model-pvc, model-host-path, nfs or host-path"


def _next_steps(planned: Plan, path: Path, files: list[str], *, as_folder: bool) -> tuple[str, ...]:
    """Return the lines that edit and run the overlay of a package that needs least: in its folder, the log last."""
    names = [overlay.name for overlay in planned.overlays]
    name = "single-node" if "single-node" in names else names[0]
    folder = layout.overlay(name)
    patch = next(file for file in files if file.startswith(f"{folder}/") and file.endswith(layout.PATCH))
    return (
        f"cd {path}" if as_folder else f"tar xzf {path} && cd {planned.name}",
        f"vi {folder}/{{{layout.ENV},{patch.removeprefix(folder + '/')}}}  # ROOT, and your user and group",
        *(["mlpack image build . && mlpack image push .  # unless the nodes have it"] if planned.dockerfile else []),
        f"kubectl apply -k {folder}",
        f"mlpack logs . --overlay {name} --follow  # as soon as it runs",
    )


def _no_progress(label: str, total: int, *, unit: str) -> AbstractContextManager[Callable[[int], None]]:
    """Show no progress."""
    del label, total, unit
    return nullcontext(lambda _steps: None)


def with_site(options: Options, planned: Plan, site: SiteSettings) -> Options:
    """Return the options of a build with the defaults of a site."""
    ids = site.ids
    return replace(
        options,
        root=site.config.root if options.root is None else options.root,
        registry=site.config.registry if options.registry is None else options.registry,
        site=_selection(options.site, site, {option.name for option in offered(planned.traits)}),
        user=ids.get("uid"),
        group=ids.get("gid"),
        fs_group=ids.get("fs_group"),
    )


def _selection(given: Selection, site: SiteSettings, available: set[str]) -> Selection:
    """Return the components of the command line with those of a site that the package has."""
    has_storage = any(BY_NAME[name].places for name in given.options)
    storage = {name for name in site.storage if name in available and not has_storage}
    chosen = {*given.options, *storage}
    for name in site.options:
        needed = BY_NAME[name].needs
        if name in available and (not needed or set(needed) & storage):
            chosen.add(name)
    keys = {key.name for name in chosen for key in BY_NAME[name].keys}
    site_values = {key: value for key, value in site.values.items() if key in keys}
    return replace(
        given,
        options=tuple(option.name for option in OPTIONS if option.name in chosen),
        values=MappingProxyType({**site_values, **given.values}),
        placement=MappingProxyType({**site.placement, **given.placement}) if PLACEMENT in chosen else given.placement,
        annotations=site.config.annotations or {} if PLACEMENT in chosen else given.annotations,
    )

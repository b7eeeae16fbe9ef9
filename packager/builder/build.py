"""Builds packages from a model's spec, or renders one overlay of a package."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from packager.base import atomic, paths, workfolder, yamlio
from packager.base.errors import MlpackError, UsageError
from packager.base.problems import similar
from packager.base.values import Value, as_dict, replace
from packager.builder.plan import Options, check_options, choose, plan
from packager.builder.render import render as render_plan
from packager.builder.selection import select
from packager.kubernetes.manifest import Manifest, mapping
from packager.modelspec import catalog
from packager.modelspec.load import load
from packager.modelspec.settings import parse_setting
from packager.package import archive, layout, outside, placement, tree
from packager.package.opened import check_replaceable, opened
from packager.package.options import BY_NAME, OPTIONS, PACKAGE_VOLUME, PLACEMENT, offered, set_gpus
from packager.workloads.structures import replaced_gpus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from packager.base.process import Progress, Runner, Tell
    from packager.builder.plan import Plan
    from packager.builder.selection import Selection
    from packager.kubernetes.kubectl.kustomize import Rendered
    from packager.modelspec.load import LoadedSpec
    from packager.modelspec.model import Variant
    from packager.modelspec.settings import Setting
    from packager.package.opened import Package
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
    record: bool = False  # whether digests of downloads that a spec lacks are added to it

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
    several = len(specs) > 1
    writer.progress = _no_progress if several else progress
    with (progress if several else _no_progress)("building", len(specs), unit="models") as advance:
        for spec in specs:
            yield from writer.packages(spec)
            advance(1)


def render(request: BuildRequest, overlay: str, kubectl: str, runner: Runner) -> Rendered:
    """Return the manifests of an overlay of the requested package, rendered by `kubectl`, which `runner` starts."""
    options = _options(request)
    loaded = load(catalog.find(request.model or "", request.folders), _settings(request), may_mount=True)
    planned = plan(loaded, choose(loaded.spec, request.precision, request.mode), options)
    with workfolder.temporary() as folder:
        tree.write(render_plan(planned), folder)
        with opened(folder, shown_as=Path(planned.name)) as package:
            return _rendered(package, planned.name, overlay, kubectl, runner)


def is_package(path: str) -> bool:
    """Return whether a path is that of a package or of an overlay outside of it, rather than of a model."""
    return path.endswith(".tar.gz") or any(paths.exists(Path(path) / name) for name in (layout.INVENTORY, outside.FILE))


def render_package(path: Path, overlay: str, kubectl: str, runner: Runner) -> Rendered:
    """Return the manifests of an overlay of a package on disk, rendered by `kubectl`, which `runner` starts."""
    with opened(path) as package:
        return _rendered(package, str(path), overlay, kubectl, runner)


def _rendered(package: Package, shown: str, overlay: str, kubectl: str, runner: Runner) -> Rendered:
    from packager.rendering import render as rendering

    if overlay not in package.applied:
        hint = similar(overlay, package.applied)
        raise UsageError(f"{shown} has no overlay {overlay!r}; it has: {', '.join(package.applied)}", hint=hint)
    return rendering.kubectl(package, overlay, rendering.read(package, overlay), kubectl, runner)


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
        self.progress = progress  # shows the progress of long work
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
        from packager.builder.downloads import with_downloads

        return with_downloads(
            loaded, self._settings, request.cache, record=request.record, tell=self._tell, progress=self.progress
        )

    def _write(self, loaded: LoadedSpec, variant: Variant) -> Built:
        """Write the package of one variant, unless an earlier spec makes a package of this name."""
        first = self._specs.setdefault(loaded.spec.package_name(variant), loaded.path)
        planned = plan(loaded, variant, self._options)
        if self._request.defaults is not None:
            planned = plan(loaded, variant, with_site(self._options, planned, self._request.defaults))
        package = render_plan(planned)
        for text in _notes(planned, loaded, package):
            if text not in self._reported:
                self._reported.add(text)
                self._tell(f"note: {text}")
        destination = self._destination
        path = destination.path(package.name, loaded.spec.version)
        if first != loaded.path:
            raise UsageError(f"{loaded.path} and {first} both make the package {package.name}")
        inventory = self._folder(package, path) if destination.as_folder else self._archive(package, path)
        unpacked = destination.folder / package.name
        if not destination.as_folder and paths.exists(unpacked) and unpacked.samefile(loaded.path.parent):
            self._tell(f"note: {path} would unpack into the model's own folder: unpack it elsewhere")
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
        large = archive.is_large(package)
        if large and not archive.has_isal():
            text = "isal is not installed, so zlib compresses this payload; `pip install isal` makes it faster"
            self._tell(f"note: {text}")
        with (
            atomic.file(path, exists_hint=self._destination.exists_hint) as stream,
            (self.progress if large else _no_progress)(package.name, package.size, unit="bytes") as advance,
        ):
            return archive.write(package, stream, mtime=self._destination.mtime, advance=advance)


def _notes(planned: Plan, loaded: LoadedSpec, package: Tree) -> Iterator[str]:
    """Yield the notes about a package: values that it lacks, claims, GPUs and assets."""
    options = planned.site.options
    for option, key in planned.site.missing_values(planned.traits):
        yield f"{option} does not render until {key} is set in site.env: set it now with --site {key}=VALUE"
    for claim in planned.shared_claims:
        yield f"the claim {claim} is several volumes of a pod, which nodes before Kubernetes 1.35 do not start"
    if resource := set_gpus(options, planned.site.values):
        overlays = {layout.overlay(overlay.name): overlay.name for overlay in planned.overlays}
        for entry in package.entries:
            overlay = overlays.get(entry.path.rpartition("/")[0])
            if overlay and entry.path.endswith(".yaml") and isinstance(entry.content, bytes):
                for document in yamlio.load_all(entry.content, entry.path)[0]:
                    yield from replaced_gpus(Manifest(mapping(document.data)), overlay, *resource)
    sees_assets = any("model" in BY_NAME[name].places for name in options) or loaded.sources.image_has_assets
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

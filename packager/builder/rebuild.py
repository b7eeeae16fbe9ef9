"""Plans a package again, with the options that its inventory, its `site.env` and its `placement.yaml` record.

From its spec: builds are reproducible, so the digest must be the same. From its own files, to add options to it that it
was built without: it may be a stranger's, so what is made of it is compared with the digests that it was sealed with.

Tests: builder/test_rebuild.py.
"""

from __future__ import annotations

import fnmatch
import json
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import packager
from packager.base import envfile, workfolder, yamlio
from packager.base.errors import MlpackError, RenderError, SpecError, UsageError
from packager.base.problems import Problem
from packager.base.values import replace
from packager.builder.build import with_downloads
from packager.builder.plan import CodeFile, CodePart, Options, check_options, choose, plan
from packager.builder.render import Components, render
from packager.builder.selection import Selection, select
from packager.kubernetes.manifest import listing, mapping
from packager.modelspec import catalog
from packager.modelspec.files import SpecFiles
from packager.modelspec.load import LoadedSpec, load, parse
from packager.modelspec.settings import parse_setting
from packager.package import layout, placement, tree
from packager.package.opened import opened
from packager.package.options import BY_NAME, KEYS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from packager.base.paths import Limits
    from packager.base.process import Progress
    from packager.builder.plan import Plan
    from packager.modelspec.settings import Setting
    from packager.package.opened import Package

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class RebuildRequest:
    """The spec that a package is built from again."""

    spec: str  # a model's name or alias, or the path of its spec
    folders: tuple[Path, ...]  # the folders in which models are looked up by name
    cache: Path  # the folder of mlpack's caches, for the downloads of the spec
    progress: Progress  # shows their progress


def rebuild(path: Path, request: RebuildRequest, limits: Limits) -> tuple[tuple[Problem, ...], tuple[str, ...]]:
    """Build a package again, and compare it with the package at `path` as it was delivered.

    Returns the problems, and a sentence if it is the same package.
    """
    spec = catalog.find(request.spec, request.folders)
    with opened(path, limits=limits) as package:
        place = package.shown(layout.INVENTORY)
        try:
            planned = _plan_again(package, lambda settings: _load_again(spec, settings, request))
            with workfolder.temporary() as work:
                (work / "again").mkdir()
                again = tree.write(render(planned), work / "again")
        except (UsageError, SpecError, RenderError) as error:
            message = f"it cannot be built again from {spec}: {error}"
            return (Problem(place, 0, 0, message, error.hint), *error.problems[:_SHOWN]), ()
        digest = tree.digest(again)
        if digest == package.digest:
            return (), (f"built again from {spec}: the same digest {digest}",)
        assert isinstance(again.content, bytes)
        problems = list(_differences(package, json.loads(again.content), str(spec)))
        message = f"built again from {spec}, it has another digest: expected {package.digest}, found {digest}"
        version = package.inventory.get("tool", {}).get("version")
        own = packager.__version__
        hint = f"the package was built by mlpack {version}, and this is {own}: use that version"
        return (Problem(place, 0, 0, message, None if version == own else hint), *problems[:_SHOWN]), ()


def components(package: Package) -> Components:
    """Return the components that a package has, or could have.

    Raises:
        UsageError: This version of mlpack cannot plan the package from its spec.
    """
    path = package.folder / layout.SPEC

    def load_own(settings: list[Setting]) -> LoadedSpec:
        spec, text = parse(path, settings)
        return LoadedSpec(spec, path, text, SpecFiles((), (), None), tuple(settings))

    try:
        names = package.inventory.get("spec", {}).get("with", ())
        site = Selection(tuple(name for name in names if name in BY_NAME))
        return Components(_with_code(_plan_again(package, load_own, site), package))
    except (MlpackError, LookupError) as error:
        raise UsageError(f"{package.source}: no option can be added: {error}") from None


def _plan_again(
    package: Package, load_with: Callable[[list[Setting]], LoadedSpec], site: Selection | None = None
) -> Plan:
    """Return the plan of a package with the recorded options; `site` stands for the recorded components."""
    about = package.inventory.get("spec", {})
    settings = [parse_setting(text, adds=True) for text in about.get("add", ())]
    settings += [parse_setting(text) for text in about.get("set", ())]
    loaded = load_with(settings)
    if site is None:
        names = about.get("with", ())
        if foreign := [name for name in names if name not in BY_NAME]:
            raise UsageError(f"the site's own component {foreign[0]} is not in the spec")
        texts = [text for _, text in _delivered(package.inventory, layout.site_env(layout.COMMON))]
        values = [f"{line.key}={line.value}" for text in texts for line in envfile.lines(text) if line.key in KEYS]
        files = _delivered(package.inventory, layout.placement(layout.COMMON))
        fields = next((placement.values(text, path) for path, text in files), {})
        site = replace(select(names, values), placement=MappingProxyType(fields))
    options = Options(root=about.get("root"), registry=about.get("registry"), site=site)
    check_options(options)
    return plan(loaded, choose(loaded.spec, about.get("precision"), about.get("mode")), options)


def _load_again(spec: Path, settings: list[Setting], request: RebuildRequest) -> LoadedSpec:
    """Return the spec of a package with its downloads.

    The spec is the user's, and the recorded options are a stranger's: what is fetched is in the spec alone.
    """
    loaded = load(spec, settings, may_mount=True)
    if not loaded.spec.downloads:
        return loaded
    if own := [setting for setting in settings if setting.location[0] == "downloads"]:
        raise UsageError(f"the package changes a download of the spec: --set {own[0].argument}")
    return with_downloads(loaded, request.cache, request.progress)


def _delivered(inventory: Mapping[str, Any], pattern: str) -> Iterator[tuple[str, bytes]]:
    """Yield the paths and the contents of editable files, as the package was delivered with them."""
    for path, lines in inventory["editable"].items():
        if fnmatch.fnmatchcase(path, pattern):
            yield path, "\n".join(lines).encode()


def _differences(package: Package, again: Mapping[str, Any], spec: str) -> Iterator[Problem]:
    """Yield a problem for each file that differs."""
    sealed, built = package.inventory["files"], again["files"]
    for path in sorted(sealed.keys() | built.keys()):
        if sealed.get(path) != built.get(path):
            made = "no such file" if path not in built else "another file" if path in sealed else "this file"
            yield Problem(package.shown(path), 0, 0, f"{spec} makes {made}")


def _with_code(planned: Plan, package: Package) -> Plan:
    """Return a plan with the code that the package has, whose names are all that options depend on."""
    files = [path for path in package.inventory["files"] if path.startswith(f"{layout.SCRIPTS}/")]
    kustomization = f"{layout.SCRIPTS}/{layout.KUSTOMIZATION}"
    if kustomization not in files:
        code = (CodePart("", tuple(CodeFile(path, path) for path in files)),) if files else ()
        too_large = Problem(layout.SPEC, 0, 0, "the code is too large for ConfigMaps")
        return replace(planned, code=code, too_large=(too_large,) if code else ())
    document, _ = yamlio.load(package.reader.read(kustomization, yamlio.MAX_BYTES), kustomization)
    parts = []
    for generator in map(mapping, listing(mapping(document.data).get("configMapGenerator"))):
        suffix = str(generator.get("name")).removeprefix(f"{planned.name}-scripts")
        pairs = [str(entry).partition("=") for entry in listing(generator.get("files"))]
        parts.append(CodePart(suffix, tuple(CodeFile(file or key, key) for key, _, file in pairs)))
    return replace(planned, code=tuple(parts))

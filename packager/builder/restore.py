"""Plans a package again from its own files, to add options to it that it was built without.

The package may be a stranger's: what is made of its spec is compared with the digests that the package was sealed with.

Tests: configure/test_additions.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base import yamlio
from packager.base.errors import MlpackError, UsageError
from packager.base.problems import Problem
from packager.base.values import replace
from packager.builder.plan import CodeFile, CodePart, Options, check_options, choose, plan
from packager.builder.render import Components
from packager.builder.selection import Selection
from packager.kubernetes.manifest import listing, mapping
from packager.modelspec.files import SpecFiles
from packager.modelspec.load import LoadedSpec, parse
from packager.modelspec.settings import parse_setting
from packager.package.layout import KUSTOMIZATION, SCRIPTS, SPEC
from packager.package.options import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.builder.plan import Plan
    from packager.package.opened import Package


def components(package: Package) -> Components:
    """Return the components that a package has, or could have.

    Raises:
        UsageError: This version of mlpack cannot plan the package from its spec.
    """
    about = package.inventory.get("spec", {})
    try:
        settings = [parse_setting(text, adds=True) for text in about.get("add", ())]
        settings += [parse_setting(text) for text in about.get("set", ())]
        spec, text = parse(package.folder / SPEC, settings)
        site = Selection(tuple(name for name in about.get("with", ()) if name in BY_NAME))
        options = Options(root=about.get("root"), registry=about.get("registry"), site=site)
        check_options(options)
        loaded = LoadedSpec(spec, package.folder / SPEC, text, SpecFiles((), (), None), tuple(settings))
        planned = plan(loaded, choose(spec, about.get("precision"), about.get("mode")), options)
        return Components(_with_code(planned, package))
    except (MlpackError, LookupError) as error:
        raise UsageError(f"{package.source}: no option can be added: {error}") from None


def _with_code(planned: Plan, package: Package) -> Plan:
    """Return a plan with the code that the package has, whose names are all that options depend on."""
    files = [path for path in package.inventory["files"] if path.startswith(f"{SCRIPTS}/")]
    if f"{SCRIPTS}/{KUSTOMIZATION}" in files:
        return replace(planned, code=tuple(_code(package, planned.name)))
    code = (CodePart("", tuple(CodeFile(path, path) for path in files)),) if files else ()
    too_large = Problem(SPEC, 0, 0, "the code is too large for ConfigMaps")
    return replace(planned, code=code, too_large=(too_large,) if code else ())


def _code(package: Package, name: str) -> Iterator[CodePart]:
    """Yield the ConfigMaps with the package's code."""
    path = f"{SCRIPTS}/{KUSTOMIZATION}"
    document, _ = yamlio.load(package.reader.read(path, yamlio.MAX_BYTES), path)
    for generator in map(mapping, listing(mapping(document.data).get("configMapGenerator"))):
        suffix = str(generator.get("name")).removeprefix(f"{name}-scripts")
        pairs = [str(entry).partition("=") for entry in listing(generator.get("files"))]
        yield CodePart(suffix, tuple(CodeFile(file or key, key) for key, _, file in pairs))

"""Locates the package of a definition: a bundled package, or one in the server's folder or in a registry."""

from __future__ import annotations

import re
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from packager.base import paths, workfolder
from packager.base.errors import MlpackError, UsageError
from packager.base.problems import show, similar
from packager.base.values import Value
from packager.builder.build import BuildRequest, Destination, build
from packager.modelspec import catalog
from packager.modelspec.catalog import Model, models
from packager.publish.reference import is_reference
from packager.service.registry.packages import registries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from packager.service.registry.packages.registries import Registry

FILE = "file:"

_BUNDLED = re.compile(r"[a-z0-9][a-z0-9.-]{0,200}")
_STEP = re.compile(r"(?!\.)[A-Za-z0-9._+-]{1,200}")


class PackageSources(Value, frozen=True):
    """The permitted sources of packages.

    Attributes:
        folder: The server's folder of packages; None for none.
        registries: The registries of the server, by host.
        own_registries: The registries of each project, by the name of the project.
    """

    folder: Path | None = None
    registries: Mapping[str, Registry] = {}
    own_registries: Mapping[str, Mapping[str, Registry]] = {}

    def registries_of(self, project: str | None) -> Mapping[str, Registry]:
        """Return the registries for definitions of a project; for None, those for definitions of all projects.

        A project uses only its own passwords; the only project of a server uses all passwords.
        """
        if project is None or len(self.own_registries) <= 1:
            return {**self.registries, **self.own_registries.get(project or "", {})}
        without_password = {host: known for host, known in self.registries.items() if known.login is None}
        return {**without_password, **self.own_registries.get(project, {})}


class LocatedPackage(Value, frozen=True):
    """A package on this machine.

    Attributes:
        path: The path of the package.
        pulled: For a package from a registry, the reference with the digest of its manifest.
    """

    path: Path
    pulled: str | None = None


@contextmanager
def located(source: str, sources: PackageSources, project: str | None) -> Iterator[LocatedPackage]:
    """Yield the location of a package, which exists while the block runs.

    Args:
        source: The source in a definition.
        sources: The permitted sources.
        project: The project of the definition; None for all projects.

    Raises:
        UsageError: The package does not exist, or the server may not read it.
        MlpackError: The package cannot be built or pulled.
    """
    if source.startswith(FILE):
        yield LocatedPackage(_in_folder(source.removeprefix(FILE), sources.folder))
        return
    with workfolder.temporary() as work:
        if is_reference(source):
            archive = work / "package.tar.gz"
            yield LocatedPackage(archive, registries.pull(source, sources.registries_of(project), archive))
        else:
            yield LocatedPackage(_bundled(source, work))


def _in_folder(path: str, folder: Path | None) -> Path:
    """Return a path in the folder of packages. Raises UsageError if it does not exist or contains a symlink."""
    if folder is None:
        raise UsageError(
            "the server has no folder of packages", hint="set packages.folder in server.yaml, or name a bundled package"
        )
    steps = path.split("/")
    if not all(_STEP.fullmatch(step) for step in steps):
        raise UsageError(f"expected a path in the server's folder of packages, found {show(path)}")
    here = folder
    for step in steps:
        here /= step
        if not paths.exists(here) or here.is_symlink():
            raise UsageError(f"{FILE}{path} not found in the server's folder of packages")
    return here


def _bundled(name: str, work: Path) -> Path:
    """Build a bundled package, and return its path."""
    if not _BUNDLED.fullmatch(name):
        raise UsageError(
            f"expected a bundled package's name, file:PATH or oci://HOST/REPOSITORY:TAG, found {show(name)}"
        )
    folders = (catalog.bundled(),)
    variants = {
        spec.package_name(variant): (spec.name, variant)
        for spec in (model.spec for model in models(folders) if isinstance(model, Model))
        for variant in spec.variants
    }
    if name not in variants:
        hint = similar(name, variants) or f"there are {', '.join(variants)}"
        raise UsageError(f"bundled package {name!r} not found", hint=hint)
    model, variant = variants[name]
    request = BuildRequest(
        model=model, folders=folders, precision=variant.precision, mode=variant.mode, cache=work / "cache"
    )
    for outcome in build(request, Destination(work, as_folder=True), tell=_ignore, progress=_no_progress):
        if isinstance(outcome, MlpackError):
            raise outcome
        return outcome.path
    raise AssertionError(name)


def _ignore(_note: str) -> None:
    return


def _no_progress(label: str, total: int, *, unit: str) -> AbstractContextManager[Callable[[int], None]]:
    del label, total, unit
    return nullcontext(lambda _steps: None)

"""Candidates for a shell to complete: models, variants, overlays, options, keys, contexts, namespaces and levels.

Tests: cli/test_completing.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.kubernetes.podsecurity import Level

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from packager.base.runner import Runner

_SECONDS = 3.0
"""The longest wait for a cluster: a person waits at a prompt."""


def models(folders: Sequence[Path]) -> list[str]:
    """Return the names and aliases of the valid models in `folders`."""
    from packager.modelspec.catalog import Model
    from packager.modelspec.catalog import models as every_model

    valid = [answer.spec for answer in every_model(folders) if isinstance(answer, Model)]
    return [name for spec in valid for name in (spec.name, *spec.aliases)]


def overlays(package: Path) -> list[str]:
    """Return the overlays of the package at `package`. Raises MlpackError for one that cannot be opened."""
    from packager.package.opened import opened

    with opened(package) as content:
        return [*content.overlays]


def overlays_of_model(model: str, folders: Sequence[Path]) -> list[str]:
    """Return the overlays of a model. Raises MlpackError for one that is not valid."""
    from packager.modelspec.catalog import model as find

    return [*find(model, folders).spec.overlays]


def variables_of_model(model: str, folders: Sequence[Path]) -> list[str]:
    """Return the paths of a model's variables: `environment.STEPS`. Raises MlpackError for one that is not valid."""
    from packager.modelspec.catalog import model as find

    return [f"environment.{name}" for name in find(model, folders).spec.environment]


def variants_of_model(model: str, folders: Sequence[Path], part: str) -> list[str]:
    """Return the precisions or the modes of a model's variants. Raises MlpackError for one that is not valid.

    Args:
        model: A name, an alias or a path.
        folders: The folders of models.
        part: `precision` or `mode`.
    """
    from packager.modelspec.catalog import model as find

    variants = find(model, folders).spec.variants
    return [name for variant in variants if (name := getattr(variant, part)) is not None]


def levels() -> list[str]:
    """Return the Pod Security levels."""
    return [str(level) for level in Level]


def settings(package: Path) -> list[str]:
    """Return the keys of the package's mlops.env and site.env, and those of placement.

    Raises MlpackError for a package that cannot be opened.
    """
    from packager.base import envfile
    from packager.configure.settings import Files, site_files
    from packager.package.layout import env
    from packager.package.opened import opened
    from packager.package.placement import FIELDS

    with opened(package) as content:
        files = Files(content)
        paths = [*(env(overlay) for overlay in content.overlays), *site_files(content)]
        return [*(key for path in paths for key in envfile.keys(files.read(path))), *FIELDS]


def options() -> dict[str, str]:
    """Return the summary of each site option, by its name."""
    from packager.package.options import OPTIONS

    return {option.name: option.summary for option in OPTIONS}


def site_keys() -> list[str]:
    """Return the keys that site options read."""
    from packager.package.options import KEYS
    from packager.package.placement import FIELDS

    return [*KEYS, *FIELDS]


def storages() -> list[str]:
    """Return the options that say where folders are."""
    from packager.package.options import OPTIONS

    return [option.name for option in OPTIONS if option.places]


def contexts(kubectl: Sequence[str], runner: Runner) -> list[str]:
    """Return the contexts of the kubeconfig; `kubectl` is the command with its options."""
    return _lines([*kubectl, "config", "get-contexts", "-o", "name"], runner)


def namespaces(kubectl: Sequence[str], runner: Runner) -> list[str]:
    """Return the namespaces of the cluster; none if it does not answer, or does not let the user list them."""
    return [line.partition("/")[2] for line in _lines([*kubectl, "get", "namespaces", "-o", "name"], runner)]


def _lines(command: Sequence[str], runner: Runner) -> list[str]:
    done = runner.run([*command], timeout=_SECONDS)
    return done.stdout.splitlines() if done.returncode == 0 else []

"""Completes values of arguments and options in a shell; what cannot be looked up is not proposed.

Tests: cli/test_completing.py.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer  # noqa: TC002 - it finds the context by its type

from packager.base.errors import MlpackError

if TYPE_CHECKING:
    from collections.abc import Iterable


def models(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the models whose names begin with `incomplete`."""
    from packager.configure import candidates

    return _matching(candidates.models(_folders(ctx)), incomplete)


def overlays(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the overlays of the model or package on the command line."""
    from packager.configure import candidates

    names: list[str] = []
    with suppress(MlpackError, OSError):
        if (package := _package(ctx)) and package.exists():
            names = candidates.overlays(package)
        elif model := ctx.params.get("model"):
            names = candidates.overlays_of_model(model, _folders(ctx))
    return _matching(names, incomplete)


def settings(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the keys that the package on the command line has, each with `=`."""
    from packager.configure import candidates

    names: list[str] = []
    with suppress(MlpackError, OSError):
        if (package := _package(ctx)) and package.exists():
            names = candidates.settings(package)
    return _matching((f"{name}=" for name in names), incomplete)


def variables(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the paths of the variables of the model on the command line, each with `=`."""
    from packager.configure import candidates

    names: list[str] = []
    with suppress(MlpackError, OSError):
        names = candidates.variables_of_model(_model(ctx), _folders(ctx))
    return _matching((f"{name}=" for name in names), incomplete)


def precisions(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the precisions of the model on the command line."""
    return _variants(ctx, incomplete, "precision")


def modes(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the modes of the model on the command line."""
    return _variants(ctx, incomplete, "mode")


def _variants(ctx: typer.Context, incomplete: str, part: str) -> list[str]:
    from packager.configure import candidates

    names: list[str] = []
    with suppress(MlpackError, OSError):
        names = candidates.variants_of_model(_model(ctx), _folders(ctx), part)
    return _matching(names, incomplete)


def levels(incomplete: str) -> list[str]:
    """Return the Pod Security levels."""
    from packager.configure import candidates

    return _matching(candidates.levels(), incomplete)


def site_keys(incomplete: str) -> list[str]:
    """Return the keys of site options, each with `=`."""
    from packager.configure import candidates

    return _matching((f"{name}=" for name in candidates.site_keys()), incomplete)


def options(incomplete: str) -> list[tuple[str, str]]:
    """Return the site options with their summaries, which zsh and fish show."""
    from packager.configure import candidates

    return [(name, summary) for name, summary in candidates.options().items() if name.startswith(incomplete)]


def storages(incomplete: str) -> list[str]:
    """Return the options that say where folders are."""
    from packager.configure import candidates

    return _matching(candidates.storages(), incomplete)


def contexts(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the contexts of the kubeconfig."""
    from packager.configure import candidates

    return _ask_kubectl(ctx, incomplete, candidates.contexts)


def namespaces(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the namespaces of the cluster."""
    from packager.configure import candidates

    return _ask_kubectl(ctx, incomplete, candidates.namespaces)


def _ask_kubectl(ctx: typer.Context, incomplete: str, ask: Any) -> list[str]:
    from packager.cli.host import host

    command = [str(ctx.params.get("kubectl") or "kubectl")]
    command += [f"--{name}={ctx.params[name]}" for name in ("kubeconfig", "context") if ctx.params.get(name)]
    with suppress(MlpackError, OSError):
        return _matching(ask(command, host(ctx).runner), incomplete)
    return []


def _package(ctx: typer.Context) -> Path | None:
    """Return the package; while an option lacks its value, the arguments before it have not been read yet."""
    value = ctx.params.get("package") or next(iter(ctx.args), None)
    return Path(value) if value else None


def _model(ctx: typer.Context) -> str:
    """Return the model, a name or a path; while an option lacks its value, the arguments have not been read yet."""
    return str(ctx.params.get("model") or ctx.params.get("target") or next(iter(ctx.args), ""))


def _folders(ctx: typer.Context) -> list[Path]:
    from packager.modelspec.catalog import model_folders

    return [*model_folders([Path(path) for path in ctx.params.get("specs") or ()])]


def _matching(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]

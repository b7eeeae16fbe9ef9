"""`mlpack render`: prints the manifests of an overlay, rendered by the user's kubectl."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from packager.base.errors import UsageError
from packager.cli import completing
from packager.cli.arguments import (
    Additions,
    Mode,
    Precision,
    RegistryHost,
    Root,
    Settings,
    Site,
    Specs,
    With,
    folders,
)
from packager.cli.console import emit_data, say
from packager.cli.signature_arguments import SignatureOptions, with_signatures

if TYPE_CHECKING:
    from packager.builder.build import BuildRequest


@with_signatures
def render(
    ctx: typer.Context,
    signatures: SignatureOptions,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A model's name or alias, the path of a spec, or a package: its tarball, its folder, or "
            "oci://HOST/REPOSITORY:TAG.",
            autocompletion=completing.models,
        ),
    ],
    overlay: Annotated[
        str,
        typer.Argument(
            metavar="OVERLAY",
            help="One of the model's overlays, such as multi-node.",
            autocompletion=completing.overlays,
        ),
    ],
    precision: Precision = None,
    mode: Mode = None,
    settings: Settings = [],  # noqa: B006 - typer copies it
    additions: Additions = [],  # noqa: B006
    root: Root = None,
    registry: RegistryHost = None,
    components: With = [],  # noqa: B006
    site: Site = [],  # noqa: B006
    specs: Specs = [],  # noqa: B006
    kubectl: Annotated[
        str, typer.Option(metavar="PATH", envvar="KUBECTL", help="The kubectl that renders.")
    ] = "kubectl",
) -> None:
    """Print the manifests of one overlay, as kubectl renders them.

    For a package that is built already, only --kubectl and the options for signatures apply.
    """
    from packager.builder.build import BuildRequest, is_package, render_package
    from packager.builder.build import render as render_overlay
    from packager.cli.host import host
    from packager.cli.registry_arguments import is_remote, local_package

    request = BuildRequest(
        model,
        tuple(folders(specs)),
        precision,
        mode,
        settings=tuple(settings),
        additions=tuple(additions),
        root=root,
        registry=registry,
        components=tuple(components),
        site=tuple(site),
    )
    if is_remote(Path(model)) or is_package(model):
        _refuse_options(request, model)
        package = local_package(ctx, Path(model), signatures.trust())
        rendered = render_package(package, overlay, kubectl, host(ctx).runner)
    else:
        signatures.refuse(f"{model} is a model, which is built here, and")
        rendered = render_overlay(request, overlay, kubectl, host(ctx).runner)
    for warning in rendered.warnings:
        say(warning)
    emit_data(rendered.manifests)


def _refuse_options(request: BuildRequest, model: str) -> None:
    """Refuse the options of a build for a package. Raises UsageError."""
    flags = {
        "--precision": request.precision,
        "--mode": request.mode,
        "--set": request.settings,
        "--add": request.additions,
        "--root": request.root,
        "--registry": request.registry,
        "--with": request.components,
        "--site": request.site,
    }
    if used := [flag for flag, value in flags.items() if value]:
        raise UsageError(f"{', '.join(used)}: {model} is a package, which is built already", hint="mlpack configure")

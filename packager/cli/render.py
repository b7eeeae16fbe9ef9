"""`mlpack render`: prints the manifests of an overlay, rendered by the user's kubectl."""

from __future__ import annotations

from typing import Annotated

import typer

from packager.cli.arguments import (
    Additions,
    Mode,
    Model,
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


def render(
    ctx: typer.Context,
    model: Model,
    overlay: Annotated[str, typer.Argument(metavar="OVERLAY", help="One of the model's overlays, such as multi-node.")],
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
    """Print the manifests of one overlay, as kubectl renders them."""
    from packager.app.build import BuildRequest
    from packager.app.build import render as render_overlay
    from packager.cli.host import host

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
    rendered = render_overlay(request, overlay, kubectl, host(ctx).runner)
    for warning in rendered.warnings:
        say(warning)
    emit_data(rendered.manifests)

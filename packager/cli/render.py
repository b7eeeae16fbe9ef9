"""`mlpack render`: what an overlay would apply, by the user's own kubectl."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from packager.cli.arguments import Mode, Model, Precision, RegistryHost, Root, Settings, Site, Specs, With, folders
from packager.cli.console import emit, say
from packager.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    app.command()(render)


def render(
    model: Model,
    overlay: Annotated[
        str,
        typer.Argument(metavar="OVERLAY", help="One of the model's overlays, such as multi-node.", show_default=False),
    ],
    precision: Precision = None,
    mode: Mode = None,
    settings: Settings = [],  # noqa: B006 - typer copies it
    root: Root = None,
    registry: RegistryHost = None,
    components: With = [],  # noqa: B006
    site: Site = [],  # noqa: B006
    specs: Specs = [],  # noqa: B006
    kubectl: Annotated[str, typer.Option(metavar="PATH", envvar="KUBECTL", help="Which kubectl renders.")] = "kubectl",
) -> None:
    """Print the manifests of one overlay, as kubectl renders them."""
    from packager import tree
    from packager.kubectl import kustomize
    from packager.plan import Options, check_options, choose, plan
    from packager.problems import similar
    from packager.render import render as render_plan
    from packager.selection import select
    from packager.spec.catalog import find
    from packager.spec.load import load, parse_setting

    options = Options(root=root, registry=registry, site=select(components, site))
    check_options(options)
    loaded = load(find(model, folders(specs)), [parse_setting(setting) for setting in settings])
    planned = plan(loaded, choose(loaded.spec, precision, mode), options)
    names = [there.name for there in planned.overlays]
    if overlay not in names:
        hint = similar(overlay, names)
        raise UsageError(f"{planned.name} has no overlay {overlay!r}; it has: {', '.join(names)}", hint=hint)
    with tempfile.TemporaryDirectory(prefix="mlpack-") as folder:
        tree.write(render_plan(planned), Path(folder))
        rendered = kustomize(Path(folder) / "quickstart/k8s/mlops" / overlay, program=kubectl)
    for warning in rendered.warnings:
        say(warning)
    emit(rendered.manifests)

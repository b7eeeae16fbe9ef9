"""`mlpack render`: prints the manifests of an overlay, rendered by the user's kubectl. Tests: cli/test_build.py."""

from pathlib import Path
from typing import Annotated

import typer

from packager.base.errors import UsageError
from packager.builder.build import is_package, render_package
from packager.builder.build import render as render_overlay
from packager.cli.arguments import ModelOptions, Program, folders
from packager.cli.console import emit_data, say
from packager.cli.host import host
from packager.cli.registry_arguments import SignatureOptions, is_remote, local_package


def render(
    options: ModelOptions,
    signatures: SignatureOptions,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A model's name or alias, the path of a spec, or a package: its tarball, its folder, or "
            "oci://HOST/REPOSITORY:TAG.",
        ),
    ],
    overlay: Annotated[str, typer.Argument(metavar="OVERLAY", help="One of the model's overlays, such as multi-node.")],
    kubectl: Program = "kubectl",
) -> None:
    """Print the manifests of one overlay, as kubectl renders them.

    For a package that is built already, only --kubectl and the options for signatures apply.
    """
    runner = host().runner
    request = options.request(model, folders(options.specs))
    if is_remote(model) or is_package(model):
        if flags := request.flags:
            message = f"{', '.join(flags)}: {model} is a package, which is built already"
            raise UsageError(message, hint="mlpack configure")
        package = local_package(Path(model), signatures.trust())
        rendered = render_package(package, overlay, kubectl, runner)
    else:
        if signatures.key or signatures.require_signature:
            message = f"{model} is a model, which is built here, and has no signature"
            raise UsageError(f"--key, --require-signature: {message}")
        rendered = render_overlay(request, overlay, kubectl, runner)
    say(*rendered.warnings)
    emit_data(rendered.manifests)

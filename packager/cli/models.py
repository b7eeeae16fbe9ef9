"""`mlpack list` and `mlpack show`: which models there are, and what each is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from packager.cli.arguments import Model, Specs, folders
from packager.cli.console import Machine, Output, complain, emit, emit_json
from packager.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.spec.load import LoadedSpec


def register(app: typer.Typer) -> None:
    """Add the verbs to `app`."""
    app.command("list")(list_models)
    app.command()(show)


def list_models(
    specs: Specs = [],  # noqa: B006 - typer copies it
    output: Annotated[
        Output | None, typer.Option("-o", "--output", help="As JSON, or names alone.", show_default=False)
    ] = None,
) -> None:
    """List the models, their variants and aliases."""
    from packager.spec.catalog import specs as every_spec
    from packager.spec.load import load

    found: list[LoadedSpec] = []
    failures: list[SpecError] = []
    for path in every_spec(folders(specs)):
        try:
            found.append(load(path))
        except SpecError as error:  # the others are still to be seen
            complain(error)
            failures.append(error)
    if output is Output.json:
        emit_json([_summary(loaded) for loaded in found])
    elif output is Output.name:
        for loaded in found:
            emit(loaded.spec.name)
    else:
        rows = [("NAME", "VARIANTS", "ALIASES", "TITLE")]
        for loaded in found:
            spec = loaded.spec
            variants = ", ".join(variant.label for variant in spec.variants)
            rows.append((spec.name, variants, ", ".join(spec.aliases) or "-", spec.title))
        _table(rows)
    if failures:
        raise typer.Exit(SpecError.exit_code)


def show(
    model: Model,
    specs: Specs = [],  # noqa: B006 - typer copies it
    output: Annotated[Machine | None, typer.Option("-o", "--output", help="As JSON.", show_default=False)] = None,
) -> None:
    """Show a model: what it is, its variants, overlays and parameters."""
    from packager.spec.catalog import find
    from packager.spec.fields import Parameter, text
    from packager.spec.load import load

    loaded = load(find(model, folders(specs)))
    spec = loaded.spec
    if output is Machine.json:
        import msgspec

        emit_json({"path": str(loaded.path), "spec": msgspec.to_builtins(spec)})
        return
    emit(f"{spec.name}: {spec.title}")
    if spec.description:
        emit(f"\n{spec.description.strip()}")
    rows = [("VARIANT", "PACKAGE", "OVERLAYS", "SCRIPT")]
    for variant in spec.variants:
        overlays = ", ".join(variant.overlays or spec.overlays)
        rows.append((variant.label, spec.package_name(variant), overlays, variant.script))
    emit("")
    _table(rows)
    if spec.environment:
        emit("")
        parameters = [("PARAMETER", "VALUE", "WHAT IT DOES")]
        for key, entry in spec.environment.items():
            parameter = entry if isinstance(entry, Parameter) else Parameter(value=entry)
            parameters.append((key, text(parameter.value), parameter.description))
        _table(parameters)
    emit(f"\nimage {spec.image.registry}/{spec.image.name}:{spec.image.tag}\nspec  {loaded.path}")


def _summary(loaded: LoadedSpec) -> dict[str, Any]:
    spec = loaded.spec
    return {
        "name": spec.name,
        "aliases": spec.aliases,
        "title": spec.title,
        "path": str(loaded.path),
        "variants": [
            {
                "precision": variant.precision,
                "mode": variant.mode,
                "package": spec.package_name(variant),
                "overlays": variant.overlays or list(spec.overlays),
            }
            for variant in spec.variants
        ],
    }


def _table(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        emit("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())

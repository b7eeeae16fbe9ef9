"""`mlpack list` and `mlpack show`: list the models and describe one."""

from __future__ import annotations

import typer

from packager.base.errors import SpecError
from packager.cli.arguments import Model, Output, Specs, folders
from packager.cli.console import (
    emit,
    emit_lines,
    emit_output,
    emit_table,
    print_error,
)


def register(app: typer.Typer) -> None:
    """Add the verbs to `app`."""
    app.command("list")(list_models)
    app.command()(show)


def list_models(
    specs: Specs = [],  # noqa: B006 - typer copies it
    output: Output = None,
) -> None:
    """List the models, their variants and aliases."""
    from packager.modelspec.catalog import InvalidModel, Model, models

    answers = list(models(folders(specs)))
    valid = [answer for answer in answers if isinstance(answer, Model)]
    invalid = [answer for answer in answers if isinstance(answer, InvalidModel)]
    for failure in invalid:
        print_error(failure.error)
    if output is not None:
        summaries = [*(answer.summary_as_json() for answer in valid), *(answer.summary_as_json() for answer in invalid)]
        emit_output(summaries, [answer.spec.name for answer in valid], output, is_bounded=False)
    else:
        rows: list[tuple[str, ...]] = [("NAME", "VERSION", "VARIANTS", "ALIASES", "TITLE")]
        group = ""
        for answer in valid:
            spec = answer.spec
            if answer.group != group:
                group = answer.group
                rows.append((f"{group}:",))
            name = f"  {spec.name}" if group else spec.name
            variants = ", ".join(variant.label for variant in spec.variants)
            rows.append((name, spec.version or "-", variants, ", ".join(spec.aliases) or "-", spec.title))
        emit_table(rows)
    if invalid:
        raise typer.Exit(SpecError.exit_code)


def show(
    model: Model,
    specs: Specs = [],  # noqa: B006 - typer copies it
    output: Output = None,
) -> None:
    """Show a model: what it is, its variants, overlays and parameters."""
    from packager.base.fields import Parameter, text
    from packager.modelspec.catalog import model as find

    answer = find(model, folders(specs))
    spec = answer.spec
    if output is not None:
        emit_output(answer.as_json(), [spec.name], output, is_bounded=False)
        return
    emit(f"{spec.name}{f' {spec.version}' if spec.version else ''}: {spec.title}")
    if spec.description:
        emit_lines(f"\n{spec.description.strip()}")
    rows = [("VARIANT", "PACKAGE", "OVERLAYS", "SCRIPT")]
    for variant in spec.variants:
        overlays = ", ".join(variant.overlays or spec.overlays)
        rows.append((variant.label, spec.package_name(variant), overlays, ", ".join(variant.run.scripts) or "-"))
    emit("")
    emit_table(rows)
    if spec.environment:
        emit("")
        parameters = [("PARAMETER", "VALUE", "WHAT IT DOES")]
        for key, entry in spec.environment.items():
            parameter = entry if isinstance(entry, Parameter) else Parameter(value=entry)
            parameters.append((key, text(parameter.value), parameter.description))
        emit_table(parameters)
    emit("")
    images: dict[str, list[str]] = {}
    for variant in spec.variants:
        image = spec.image_of(variant)
        images.setdefault(f"{image.registry}/{image.reference}", []).append(variant.label)
    for name, labels in images.items():
        emit(f"image {name} ({', '.join(labels)})" if len(images) > 1 else f"image {name}")
    emit(f"spec  {answer.path}")

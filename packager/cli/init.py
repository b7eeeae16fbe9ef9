"""`mlpack init`: a spec to begin with, which builds as it is."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

import typer

from packager.cli.console import emit, say
from packager.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    app.command()(init)


def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The model's name.", show_default=False)],
    destination: Annotated[
        Path, typer.Option("-d", "--destination", metavar="DIR", help="Where the model's folder is made.")
    ] = Path(),
) -> None:
    """Make a folder with a commented spec, a script and a Dockerfile, which builds as it is."""
    import json

    from packager import atomic
    from packager.render import scaffold
    from packager.spec.fields import LABEL, LABEL_FORM
    from packager.spec.schema import json_schema

    if not re.fullmatch(LABEL, name) or len(name) > 40:
        raise UsageError(f"expected {LABEL_FORM}, found {name!r}")
    folder = destination / name
    if os.path.lexists(folder):
        raise UsageError(f"{folder} is there already and was left alone", hint="choose another name")
    with atomic.folder(folder) as work:
        for path, content, executable in scaffold(name):
            (work / path).write_text(content, encoding="utf-8")
            (work / path).chmod(0o755 if executable else 0o644)
        (work / "spec.schema.json").write_text(json.dumps(json_schema(), indent=2) + "\n", encoding="utf-8")
        work.chmod(0o755)
        made = sorted(path.name for path in work.iterdir())
    for entry in made:
        emit(str(folder / entry))
    say(
        f"build it with: mlpack build ./{folder}"
        if not folder.is_absolute()
        else f"build it with: mlpack build {folder}"
    )

"""`mlpack site init|show`: the defaults of a site."""

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from packager.base.errors import UsageError
from packager.base.paths import argument
from packager.cli.arguments import SiteFile, find_site, site_path
from packager.cli.commands import group
from packager.cli.console import Output, emit_output, say, table
from packager.site.read import SiteSettings, create


def init(
    site_file: SiteFile = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    output: Output = None,
) -> None:
    """Write a commented site.yaml: remove the # before the lines that you need, and fill in their values."""
    path = site_file or site_path()
    create(path, force=force)
    emit_output({"file": str(path)}, [path], output)
    named = ["--site-file", argument(path)] if site_file else []
    say(f"edit it, then: {shlex.join(['mlpack', 'site', 'show', *named])}")


def show(site_file: SiteFile = None, output: Output = None) -> None:
    """Print the defaults that are in effect, and which line of which file sets each."""
    site = _site(site_file)
    values = [{"key": entry.key, "value": entry.value, "from": entry.place} for entry in site.entries]
    texts = (entry.value if isinstance(entry.value, str) else json.dumps(entry.value) for entry in site.entries)
    rows = [(entry.key, text, entry.place) for entry, text in zip(site.entries, texts, strict=True)]
    lines = table([("KEY", "VALUE", "FROM"), *rows], gap="   ")
    emit_output({"file": str(site.path), "values": values}, [key for key, _, _ in rows], output, lines)
    if output is None and not site.entries:
        say(f"{site.path} sets no default: remove the # before those that you need")


def _site(file: Path | None) -> SiteSettings:
    site = find_site(file)
    if site is None:
        raise UsageError(f"there is no {site_path()}", hint="`mlpack site init` writes one")
    return site


GROUP = group("Create and show the defaults of a site.", init=init, show=show)

"""Arguments and options that several verbs have in common. Tests: cli/test_usage_messages.py."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from packager.base.errors import UsageError, unreadable
from packager.cli import completing
from packager.cli.console import OutputFormat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.site.read import SiteSettings

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="A model's name or alias, or the path of a spec.", autocompletion=completing.models
    ),
]
Specs = Annotated[
    list[Path],
    typer.Option(
        "--specs",
        metavar="DIR",
        envvar="MLPACK_SPECS",
        help="A folder of models, searched before the bundled ones. Repeatable.",
    ),
]
Settings = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Override a field of the spec: environment.STEPS=100. Repeatable.",
        autocompletion=completing.variables,
    ),
]
Additions = Annotated[
    list[str],
    typer.Option(
        "--add",
        metavar="PATH=VALUE",
        help="Add a variable that the spec does not have: environment.DEBUG=1. Repeatable.",
    ),
]
Precision = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The variant's precision.", autocompletion=completing.precisions),
]
Mode = Annotated[str | None, typer.Option(metavar="NAME", help="The variant's mode.", autocompletion=completing.modes)]
Root = Annotated[
    str | None, typer.Option(metavar="PATH", help="The folder that will contain the package, instead of ROOT.")
]
RegistryHost = Annotated[str | None, typer.Option("--registry", metavar="HOST", help="Where the image is pulled from.")]
With = Annotated[
    list[str],
    typer.Option(
        "--with",
        metavar="OPTION|DIR",
        help="A site option to switch on (nfs, gpu, ...), a folder with a component of your own, or all: the package "
        "then contains every option, switched off. Repeatable.",
        autocompletion=completing.options,
    ),
]
Site = Annotated[
    list[str],
    typer.Option(
        "--site",
        metavar="KEY=VALUE",
        help="Set a value of a site option: NFS_SERVER=nfs.example.com. Repeatable.",
        autocompletion=completing.site_keys,
    ),
]
SiteFile = Annotated[
    Path | None,
    typer.Option(
        "--site-file",
        metavar="FILE",
        envvar="MLPACK_SITE",
        help="The site's defaults, instead of the nearest mlpack-site.yaml or ~/.config/mlpack/site.yaml.",
    ),
]
Output = Annotated[
    OutputFormat | None, typer.Option("-o", "--output", help="Print the result as JSON or YAML, or its names alone.")
]
_LARGEST_ID = 2**31 - 1  # equals ids.LARGEST_ID; importing it would make `--help` slower

UserId = Annotated[
    int | None, typer.Option("--uid", metavar="N", min=0, max=_LARGEST_ID, help="The user id to run as.")
]
GroupId = Annotated[
    int | None, typer.Option("--gid", metavar="N", min=0, max=_LARGEST_ID, help="The group id to run as.")
]
FsGroup = Annotated[
    int | None, typer.Option("--fs-group", metavar="N", min=0, max=_LARGEST_ID, help="The group id that owns volumes.")
]


def cache_folder() -> Path:
    """Return the folder of mlpack's caches; a relative path in XDG_CACHE_HOME is ignored (XDG Base Directory)."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (cache if cache.is_absolute() else Path.home() / ".cache") / "mlpack"


def runs_folder() -> Path | None:
    """Return the folder of the records of runs: MLPACK_RUNS, or one in XDG_STATE_HOME; None if MLPACK_RUNS is empty."""
    if (named := os.environ.get("MLPACK_RUNS")) is not None:
        return Path(named) if named else None
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (state if state.is_absolute() else Path.home() / ".local/state") / "mlpack" / "runs"


def site_path() -> Path:
    """Return the path of the user's defaults; a relative path in XDG_CONFIG_HOME is ignored."""
    config = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    return (config if config.is_absolute() else Path.home() / ".config") / "mlpack" / "site.yaml"


def find_site(file: Path | None) -> SiteSettings | None:
    """Return the site's defaults: those in `file`, or in the nearest file; None without one."""
    from packager.site.read import nearest, read

    return read(file) if file else nearest(Path.cwd(), site_path())


def with_site(allow: Sequence[str]) -> tuple[str, ...]:
    """Return the words of `--allow`, and those of annotations in the user's own site file."""
    own = Path(os.environ.get("MLPACK_SITE") or site_path())
    if not own.is_file():
        return tuple(allow)
    from packager.site.read import permitted

    return (*allow, *permitted(own))


def announced_site(file: Path | None) -> SiteSettings | None:
    """Return the site's defaults, and say so."""
    from packager.cli.console import say

    if site := find_site(file):
        say(f"using site defaults of {site.path.absolute()}")
    return site


def folders(specs: list[Path]) -> list[Path]:
    """Return the folders that are searched for models: those of the user, then the bundled one."""
    from packager.modelspec.catalog import model_folders

    return [*model_folders(specs)]


def source_date_epoch() -> int | None:
    """Return SOURCE_DATE_EPOCH (reproducible-builds.org); None when it is not set. Raises UsageError."""
    value = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not value:
        return None
    if not (value.isascii() and value.isdecimal()) or len(value) > 11:
        raise UsageError(f"SOURCE_DATE_EPOCH={value}: expected seconds since 1970, such as 1700000000")
    return int(value)


def content_of(file: str, max_bytes: int) -> tuple[bytes, str]:
    """Return the content of a file, or of stdin for `-`, and its name in messages.

    At most one byte more than `max_bytes` is read, so that the caller can refuse a file that is too large.
    """
    if file == "-":
        return sys.stdin.buffer.read(max_bytes + 1), "stdin"
    try:
        with Path(file).open("rb") as stream:
            return stream.read(max_bytes + 1), file
    except OSError as error:
        raise unreadable(file, error) from None

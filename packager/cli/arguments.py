"""Arguments and options that several verbs have in common. Tests: cli/test_cli.py."""

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from packager.base.errors import UsageError, unreadable
from packager.base.values import Value
from packager.cli.console import say
from packager.site import find

if TYPE_CHECKING:
    from packager.builder.build import BuildRequest
    from packager.kubernetes.podsecurity import Level
    from packager.site.read import SiteSettings

PackagePath = Annotated[Path, typer.Argument(metavar="PACKAGE", help="A package: its tarball, or its folder.")]
PackageToRead = Annotated[
    Path, typer.Argument(metavar="PACKAGE", help="A package: its tarball, its folder, or oci://HOST/REPOSITORY:TAG.")
]
PackageOrBundle = Annotated[
    str,
    typer.Argument(
        metavar="PACKAGE",
        help="A package: its tarball, its folder, or oci://HOST/REPOSITORY:TAG; or a file of `mlpack bundle`.",
    ),
]
OverlayOption = Annotated[
    str | None,
    typer.Option("--overlay", metavar="NAME", help="The overlay to use; by default multi-node if the package has it."),
]
OnlyOverlay = Annotated[
    str | None, typer.Option("--overlay", metavar="NAME", help="Only this overlay; by default all overlays.")
]
RegistryHost = Annotated[str | None, typer.Option("--registry", metavar="HOST", help="Where the image is pulled from.")]
Site = Annotated[
    list[str],
    typer.Option("--site", metavar="KEY=VALUE", help="A site option's value: NFS_SERVER=nfs.example.com. Repeatable."),
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
Specs = Annotated[
    list[Path],
    typer.Option(
        "--specs",
        metavar="DIR",
        envvar="MLPACK_SPECS",
        help="A folder of models, searched before the bundled ones. Repeatable.",
    ),
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
Program = Annotated[str, typer.Option("--kubectl", metavar="PATH", envvar="KUBECTL", help="The kubectl to run.")]
PodSecurity = Annotated[
    str | None,
    typer.Option(metavar="LEVEL", help="The Pod Security level that every overlay must meet, such as restricted."),
]
Expect = Annotated[
    str | None,
    typer.Option(metavar="DIGEST", help="Accept only the package with this digest, sha256:…, which its sender names."),
]
Yours = Annotated[
    list[str], typer.Option("--yours", metavar="FILE", help="Keep your version where this file conflicts. Repeatable.")
]
Theirs = Annotated[
    list[str],
    typer.Option("--theirs", metavar="FILE", help="Take the new version where this file conflicts. Repeatable."),
]
Yes = Annotated[bool, typer.Option("-y", "--yes", help="Answer every question with yes.")]


class AcceptOptions(Value, frozen=True):
    """The options that accept more than a build makes."""

    pod_security: PodSecurity = None
    allow: Annotated[
        list[str],
        typer.Option(
            metavar="WORD",
            help="Allow what no build makes: KIND, KIND.GROUP, a field (pod.spec.hostname), label:KEY, annotation:KEY, "
            "variable:NAME, which an edit adds, or name:NAME, which objects have or begin with. Repeatable.",
        ),
    ] = []

    def accepted(self, *, with_site: bool = True) -> tuple[frozenset[str], "Level | None"]:
        """Return the allowed words, with those of annotations in the user's own site file, and the level."""
        from packager.verify.command import allowed_words, level

        words = [*self.allow]
        own = Path(os.environ.get("MLPACK_SITE") or site_path())
        if with_site and own.is_file():
            from packager.site.read import permitted

            words += permitted(own)
        return allowed_words(words), level(self.pod_security)

    @property
    def arguments(self) -> list[str]:
        """The arguments that let another command accept the same."""
        levels = ["--pod-security", self.pod_security] if self.pod_security is not None else []
        return [*levels, *(word for name in self.allow for word in ("--allow", name))]


class VariantOptions(Value, frozen=True):
    """The options of a build that every verb has that builds."""

    precision: Annotated[str | None, typer.Option(metavar="NAME", help="The variant's precision.")] = None
    mode: Annotated[str | None, typer.Option(metavar="NAME", help="The variant's mode.")] = None
    settings: Annotated[
        list[str],
        typer.Option("--set", metavar="PATH=VALUE", help="Set a field of the spec: environment.STEPS=100. Repeatable."),
    ] = []
    additions: Annotated[
        list[str],
        typer.Option(
            "--add",
            metavar="PATH=VALUE",
            help="Add a variable that the spec does not have: environment.DEBUG=1. Repeatable.",
        ),
    ] = []
    components: Annotated[
        list[str],
        typer.Option(
            "--with",
            metavar="OPTION|DIR",
            help="A site option to switch on (nfs, gpu, ...), a folder with a component of your own, or all: the "
            "package then contains every option, switched off. Repeatable.",
        ),
    ] = []
    site: Site = []
    root: str | None = None
    registry: str | None = None

    def request(self, model: str | None = None, found: "list[Path] | tuple[()]" = ()) -> "BuildRequest":
        """Return the request to build a model, or every model, of the folders in `found`."""
        from packager.builder.build import BuildRequest

        return BuildRequest(
            model,
            tuple(found),
            self.precision,
            self.mode,
            settings=tuple(self.settings),
            additions=tuple(self.additions),
            root=self.root,
            registry=self.registry,
            components=tuple(self.components),
            site=tuple(self.site),
            cache=cache_folder(),
        )


class ModelOptions(VariantOptions, frozen=True):
    """The options of a build of a model that is named, or of every model."""

    root: Annotated[
        str | None, typer.Option(metavar="PATH", help="The folder that will contain the package, instead of ROOT.")
    ] = None
    registry: RegistryHost = None
    specs: Specs = []


def cache_folder() -> Path:
    """Return the folder of mlpack's caches; a relative path in XDG_CACHE_HOME is ignored (XDG Base Directory)."""
    return _base_folder("XDG_CACHE_HOME", ".cache") / "mlpack"


def site_path() -> Path:
    """Return the path of the user's defaults."""
    return _base_folder("XDG_CONFIG_HOME", ".config") / "mlpack" / "site.yaml"


def _base_folder(variable: str, usual: str) -> Path:
    named = Path(os.environ.get(variable, ""))
    return named if named.is_absolute() else Path.home() / usual


def find_site(file: Path | None) -> "SiteSettings | None":
    """Return the site's defaults: those in `file`, or in the nearest file; None without one."""
    if not (path := file or find(Path.cwd(), site_path())):
        return None
    from packager.site.read import read

    return read(path)


def announced_site(file: Path | None) -> "SiteSettings | None":
    """Return the site's defaults, and say so."""
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
    if value and not re.fullmatch("[0-9]{1,11}", value):
        raise UsageError(f"SOURCE_DATE_EPOCH={value}: expected seconds since 1970, such as 1700000000")
    return int(value) if value else None


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

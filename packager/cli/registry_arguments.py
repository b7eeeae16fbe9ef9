"""Arguments and options of the verbs that use registries of packages."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from packager.base import workfolder
from packager.base.errors import UsageError
from packager.cli.arguments import cache_folder
from packager.cli.console import progress, say, show_as
from packager.cli.option_groups import with_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.limits import Limits
    from packager.publish.client import Access
    from packager.publish.load import BundleContents
    from packager.publish.signatures import Trust

_PASSWORD_BYTES = 64 << 10

PackageSource = Annotated[
    str,
    typer.Argument(metavar="PACKAGE", help="A package: its tarball, its folder, or oci://HOST/REPOSITORY:TAG."),
]
PackageOrBundle = Annotated[
    str,
    typer.Argument(
        metavar="PACKAGE",
        help="A package: its tarball, its folder, or oci://HOST/REPOSITORY:TAG; or a file of `mlpack bundle`.",
    ),
]
RemotePackage = Annotated[
    str,
    typer.Argument(
        metavar="REFERENCE",
        help="The package in a registry: oci://HOST/REPOSITORY:TAG, or @sha256:… for :TAG.",
    ),
]


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """The options for the access to a registry."""

    username: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The user, with --password-stdin; by default the login of docker or podman.",
        ),
    ] = None
    password_stdin: Annotated[bool, typer.Option("--password-stdin", help="Read the password from stdin.")] = False
    plain_http: Annotated[
        bool, typer.Option("--plain-http", help="Use http, without encryption, for a registry that has no https.")
    ] = False
    ca_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Certificates to trust in addition to those of the system."),
    ] = None
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show each request to the registry.")] = False

    def access(self, ctx: typer.Context) -> Access:
        """Return the access to registries. Raises UsageError if the options do not go together."""
        from packager.cli.host import host
        from packager.publish.client import access

        if (self.username is not None) != self.password_stdin:
            raise UsageError("--username and --password-stdin go together")
        user = None
        if self.username is not None:
            password = sys.stdin.buffer.read(_PASSWORD_BYTES).decode(errors="replace")
            user = self.username, password.rstrip("\r\n")
        return access(
            os.environ,
            user,
            plain_http=self.plain_http,
            ca_file=self.ca_file,
            show=self._show,
            tell=say,
            runner=host(ctx).runner,
        )

    def _show(self, line: str) -> None:
        if self.verbose:
            say(f"+ {line}")


with_registry = with_options("at", RegistryOptions)
"""Gives a verb the options for the access to a registry: they are passed together, as `at`."""


_REFERENCE = "oci:/"
"""The beginning of a reference as a path, which has joined the slashes of `oci://`."""


def is_remote(package: Path) -> bool:
    """Return whether a path is a reference `oci://…`."""
    return str(package).startswith(_REFERENCE)


def local_package(ctx: typer.Context, package: Path, trust: Trust | None = None) -> Path:
    """Return the path of a package, which is pulled into the cache first if the user has named `oci://…`.

    Messages then name the reference, and not the path in the cache. The login of docker or podman is used. Signatures
    are checked if `trust` has keys. See `local` in `packager.publish.pull` and `check_file` in
    `packager.publish.signatures` for the errors.
    """
    if not is_remote(package):
        if trust is not None and trust.is_asked:
            from packager.publish.signatures import check_file

            check_file(package, trust, tell=say)
        return package
    from packager.publish.pull import local
    from packager.publish.reference import parse

    reference = parse(f"oci://{str(package).removeprefix(_REFERENCE)}")
    access = RegistryOptions().access(ctx)
    path = local(reference, access, cache_folder(), tell=say, progress=progress, trust=trust)
    show_as(path, str(reference))
    return path


def tag_of(package: Path) -> str | None:
    """Return the tag by which a package of a registry is named; None with a digest, and for a path."""
    if not is_remote(package):
        return None
    from packager.publish.reference import parse

    reference = parse(f"oci://{str(package).removeprefix(_REFERENCE)}")
    return None if reference.digest else reference.tag


@contextmanager
def package_or_bundled(
    ctx: typer.Context, package: Path, trust: Trust, limits: Limits
) -> Iterator[tuple[Path, BundleContents | None]]:
    """Yield a package as `local_package` returns it; that of a bundle is unpacked until the block ends.

    The second value is the bundle; None without one.

    Messages then name the bundle.
    """
    from packager.publish.reference import is_bundle

    if is_remote(package) or not is_bundle(package):
        yield local_package(ctx, package, trust), None
        return
    from packager.publish import load as bundle_contents

    with workfolder.temporary() as folder:
        contents = bundle_contents.read(package, trust, progress=progress, tell=say)
        local = bundle_contents.unpacked(contents, folder, limits)
        show_as(local, str(package))
        yield local, contents

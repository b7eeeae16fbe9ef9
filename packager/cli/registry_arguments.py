"""Options of the verbs that use registries of packages and check signatures. Tests: cli/test_registry_arguments.py."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from packager.base import workfolder
from packager.base.values import Value
from packager.cli.arguments import cache_folder, site_path
from packager.cli.console import progress, say, show_as
from packager.cli.host import host

if TYPE_CHECKING:
    from packager.publish.client import Access
    from packager.publish.load import BundleContents
    from packager.publish.reference import PackageReference
    from packager.publish.signatures import Trust

_KEYS = "MLPACK_KEYS"


class RegistryOptions(Value, frozen=True):
    """The options for the access to a registry."""

    plain_http: Annotated[
        bool, typer.Option("--plain-http", help="Use http, without encryption, for a registry that has no https.")
    ] = False
    ca_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Certificates to trust in addition to those of the system.")
    ] = None
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show each request to the registry.")] = False

    def access(self) -> "Access":
        """Return the access to registries, with the login of docker or podman."""
        from packager.publish.client import access

        show = (lambda line: say(f"+ {line}")) if self.verbose else (lambda _: None)
        return access(
            os.environ,
            plain_http=self.plain_http,
            ca_file=self.ca_file,
            show=show,
            tell=say,
            runner=host().runner,
        )


class SignatureOptions(Value, frozen=True):
    """The options that name trusted keys."""

    key: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Require a signature by this public key. Repeatable: one of them suffices."),
    ] = None
    require_signature: Annotated[
        bool,
        typer.Option(
            "--require-signature", help="Require a signature by a key of MLPACK_KEYS or ~/.config/mlpack/keys/*.pub."
        ),
    ] = False

    def trust(self) -> "Trust":
        """Return the trusted keys."""
        from packager.publish.signatures import trust

        usual = [Path(path) for path in os.environ.get(_KEYS, "").split(os.pathsep) if path]
        folder = site_path().with_name("keys")
        usual += [folder] if folder.is_dir() else []
        return trust(self.key or [], usual, is_required=self.require_signature)


def is_remote(package: Path | str) -> bool:
    """Return whether a package is named by a reference `oci://…`; as a path, it has one slash less."""
    return str(package).startswith("oci:/")


def _reference(package: Path | str) -> "PackageReference":
    from packager.publish.reference import parse

    return parse(f"oci://{str(package).removeprefix('oci:').lstrip('/')}")


def local_package(package: Path, trust: "Trust | None" = None) -> Path:
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

    reference = _reference(package)
    path = local(reference, RegistryOptions().access(), cache_folder(), tell=say, progress=progress, trust=trust)
    show_as(path, str(reference))
    return path


def tag_of(package: Path) -> str | None:
    """Return the tag by which a package of a registry is named; None with a digest, and for a path."""
    if not is_remote(package):
        return None
    reference = _reference(package)
    return None if reference.digest else reference.tag


@contextmanager
def package_or_bundled(package: Path, trust: "Trust") -> Iterator[tuple[Path, "BundleContents | None"]]:
    """Yield a package as `local_package` returns it; that of a bundle is unpacked until the block ends.

    The second value is the bundle; None without one. Messages then name the bundle.
    """
    from packager.publish.reference import is_bundle

    if is_remote(package) or not is_bundle(package):
        yield local_package(package, trust), None
        return
    from packager.base.paths import DEFAULT_LIMITS
    from packager.publish import load as bundle_contents

    with workfolder.temporary() as folder:
        contents = bundle_contents.read(package, trust, progress=progress, tell=say)
        local = bundle_contents.unpacked(contents, folder, DEFAULT_LIMITS)
        show_as(local, str(package))
        yield local, contents

"""Pulls a package from a registry: the same bytes that were pushed, checked before they get their name.

Tests: publish/test_registry.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from packager.base import atomic, paths, workfolder
from packager.base.errors import ToolError, VerificationError, reason
from packager.base.names import is_other_version
from packager.base.paths import DEFAULT_LIMITS
from packager.base.values import Value, replace
from packager.base.web import digest_of
from packager.package import archive, integrity
from packager.package.opened import check_replaceable, opened, root
from packager.publish.artefact import file_name
from packager.publish.reference import dashed
from packager.publish.registry import Repository
from packager.publish.signatures import beside, find, lines

if TYPE_CHECKING:
    from typing import IO

    from packager.base.process import Progress, Tell
    from packager.publish.artefact import Source, Stored
    from packager.publish.client import Access
    from packager.publish.reference import PackageReference
    from packager.publish.signatures import Signature, Trust


class PulledPackage(Value, frozen=True):
    """A package that was pulled."""

    path: Path  # the archive, or the folder
    reference: PackageReference  # the repository
    digest: str  # the digest of the artefact
    package: str  # the name of the package
    package_digest: str
    version: str | None  # of the package
    edited: tuple[str, ...]  # the files that were edited since the package was built
    signatures: tuple[Signature, ...] = ()  # the signatures of the artefact

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {
            "path": str(self.path),
            "reference": self.reference.pinned(self.digest),
            "digest": self.digest,
            "package": {"name": self.package, "version": self.version, "digest": self.package_digest},
            "edited": list(self.edited),
            "signatures": [signature.as_json() for signature in self.signatures],
        }


def pull(  # noqa: PLR0913 - an option each
    source: Source,
    reference: PackageReference,
    folder: Path,
    *,
    extract: bool = False,
    force: bool = False,
    trust: Trust | None = None,
    progress: Progress,
    tell: Tell = lambda _: None,
) -> PulledPackage:
    """Write a package from a registry or a layout to a folder, and its signatures to a file beside it.

    With `extract`, it is unpacked. `force` replaces an existing output. `trust` has the keys that are trusted; None
    leaves signatures unread.
    """
    exists_hint = None if force else "--force replaces it"
    remote = source.stored(reference.version, str(reference))
    name = file_name(remote, reference.repository.rpartition("/")[2])
    signatures: tuple[Signature, ...] = ()
    if trust is not None:
        signatures = find(source, remote.digest, trust.keys)
        trust.require(signatures, remote.shown, tell)
    if extract:
        path = folder / name.removesuffix(".tar.gz")
        pulled = _extracted(source, reference, remote, path, exists_hint, progress)
    else:
        path = folder / name
        atomic.check_absent(path, exists_hint)
        if lines(signatures):
            atomic.check_absent(beside(path), exists_hint)
        with atomic.file(path, exists_hint=exists_hint) as stream:
            _download(source, remote, stream, name, progress)
            pulled = _checked(reference, remote, Path(stream.name), path, path)
            if lines(signatures):
                with atomic.file(beside(path), exists_hint=exists_hint) as bundles:
                    bundles.write(lines(signatures))
            elif exists_hint is None:  # those of the file that is replaced
                beside(path).unlink(missing_ok=True)
    warn_of_version(reference, remote, pulled.version, tell)
    return replace(pulled, signatures=signatures)


def _extracted(  # noqa: PLR0913, PLR0917 - what, from where, to where
    registry: Source,
    reference: PackageReference,
    remote: Stored,
    destination: Path,
    exists_hint: str | None,
    progress: Progress,
) -> PulledPackage:
    """Unpack a package into a folder of its own."""
    atomic.check_absent(destination, exists_hint)
    if exists_hint is None and paths.exists(destination):
        check_replaceable(destination)
    with atomic.folder(destination, exists_hint=exists_hint) as folder, workfolder.beside(destination) as work:
        file, unpacked = work / f"{destination.name}.tar.gz", work / "unpacked"
        unpacked.mkdir()
        with file.open("wb") as stream:
            _download(registry, remote, stream, file.name, progress)
        archive.extract(file, unpacked)
        shown = Path(file.name)
        for entry in root(shown, unpacked).iterdir():
            entry.rename(folder / entry.name)
        return _checked(reference, remote, folder, shown, destination)


def warn_of_version(reference: PackageReference, remote: Stored, version: str | None, tell: Tell) -> None:
    """Report a tag that is another version than that of the package: a signature says nothing about its tag."""
    if reference.digest is None and is_other_version(reference.tag, version):
        tell(f"warning: {reference} is the version {version}, which is also {reference.pinned(remote.digest)}")


def _download(registry: Source, remote: Stored, stream: IO[bytes], label: str, progress: Progress) -> None:
    with progress(label, remote.layer.size, unit="bytes") as advance:
        registry.download(remote.layer, stream, advance)
    stream.flush()


def _checked(reference: PackageReference, remote: Stored, file: Path, shown: Path, result: Path) -> PulledPackage:
    """Return the result of a pull, after the files were compared with the inventory. Raises VerificationError."""
    with opened(file, shown_as=shown) as package:
        checked = integrity.check(package, DEFAULT_LIMITS)
        if checked.problems:
            raise VerificationError(f"{remote.shown} is not a valid package", problems=checked.problems)
        if remote.facts is not None and remote.facts.digest != package.digest:
            raise VerificationError(
                f"{remote.shown}: the layer has another package than its description: "
                f"expected {remote.facts.digest}, found {package.digest}"
            )
        edited = tuple(checked.edits)
        digests = remote.digest, package.name, package.digest
        return PulledPackage(result, reference, *digests, package.version, edited)


def local(  # noqa: PLR0913 - an option each
    reference: PackageReference,
    access: Access,
    cache: Path,
    *,
    tell: Tell,
    progress: Progress,
    trust: Trust | None = None,
) -> Path:
    """Return the file in the cache with a package of a registry, which is pulled unless it is there, as it was."""
    with Repository(reference, access) as registry:
        remote = registry.stored(reference.version, str(reference))
        if trust is not None and trust.is_asked:
            trust.require(find(registry, remote.digest, trust.keys), str(reference), tell)
        folder = cache / "packages" / dashed(remote.layer.digest)
        path = folder / file_name(remote, reference.repository.rpartition("/")[2])
        try:
            paths.make_private(folder)
            if not path.is_file() or f"sha256:{digest_of(path)}" != remote.layer.digest:
                with atomic.file(path) as stream:
                    _download(registry, remote, stream, path.name, progress)
        except OSError as error:
            raise ToolError(f"the cache {folder} cannot be used: {reason(error)}", hint="set XDG_CACHE_HOME") from None
    warn_of_version(reference, remote, remote.facts.version if remote.facts else None, tell)
    if reference.digest is None:
        tell(f"{reference} is {reference.pinned(remote.digest)}")
    return path

"""Pulls a package from a registry: the same bytes that were pushed, checked before they get their name.

Tests: publish/test_registry.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from packager.base import atomic, paths, workfolder
from packager.base.errors import MlpackError, ToolError, UsageError, VerificationError, reason
from packager.base.names import is_other_version
from packager.base.paths import DEFAULT_LIMITS
from packager.base.values import Value, replace
from packager.base.web import digest_of
from packager.package import archive, integrity
from packager.package.opened import check_replaceable, opened, root
from packager.publish import artefact
from packager.publish.reference import dashed
from packager.publish.registry import Repository
from packager.publish.signatures import beside, find, lines

if TYPE_CHECKING:
    from typing import IO

    from packager.base.process import Progress, Tell
    from packager.publish.artefact import ArtefactFacts, Described
    from packager.publish.client import Access
    from packager.publish.layout import BundledRepository
    from packager.publish.reference import PackageReference
    from packager.publish.signatures import Signature, Trust

    Source = Repository | BundledRepository
    """A repository that packages are pulled from."""

_MOST_TAGS = 10


class PullRequest(Value, frozen=True):
    """A package in a registry, and where it is written to."""

    reference: PackageReference  # the package
    folder: Path  # the folder that it is written to
    extract: bool = False  # whether it is unpacked
    force: bool = False  # whether an existing output is replaced
    trust: Trust | None = None  # the keys that are trusted; None leaves signatures unread


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


class RemoteArtefact(Value, frozen=True):
    """An artefact in a registry, without its layer."""

    reference: PackageReference  # the reference that the user named
    digest: str  # the digest of the manifest
    described: Described  # the manifest
    facts: ArtefactFacts | None  # the facts about the package; None if the artefact was pushed by another program


def pull(request: PullRequest, access: Access, *, progress: Progress, tell: Tell = lambda _: None) -> PulledPackage:
    """Write a package from a registry to a folder, and its signatures to a file beside it."""
    with Repository(request.reference, access) as registry:
        return pull_from(registry, request, progress=progress, tell=tell)


def pull_from(registry: Source, request: PullRequest, *, progress: Progress, tell: Tell) -> PulledPackage:
    """Write a package from an open repository, as `pull` does; with the same errors."""
    exists_hint = None if request.force else "--force replaces it"
    remote = read(registry, request.reference)
    name = artefact.file_name(remote.described, request.reference.repository.rpartition("/")[2])
    signatures: tuple[Signature, ...] = ()
    if request.trust is not None:
        signatures = find(registry, remote.digest, request.trust.keys)
        request.trust.require(signatures, str(remote.reference), tell)
    if request.extract:
        path = request.folder / name.removesuffix(".tar.gz")
        pulled = _extracted(registry, remote, path, exists_hint, progress)
    else:
        path = request.folder / name
        atomic.check_absent(path, exists_hint)
        if lines(signatures):
            atomic.check_absent(beside(path), exists_hint)
        with atomic.file(path, exists_hint=exists_hint) as stream:
            _download(registry, remote, stream, name, progress)
            pulled = _checked(remote, Path(stream.name), path, path)
            if lines(signatures):
                with atomic.file(beside(path), exists_hint=exists_hint) as bundles:
                    bundles.write(lines(signatures))
            elif exists_hint is None:  # those of the file that is replaced
                _remove(beside(path))
    warn_of_version(remote, pulled.version, tell)
    return replace(pulled, signatures=signatures)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise ToolError(f"{path} cannot be removed: {reason(error)}") from None


def _extracted(
    registry: Source, remote: RemoteArtefact, destination: Path, exists_hint: str | None, progress: Progress
) -> PulledPackage:
    """Unpack a package into a folder of its own."""
    atomic.check_absent(destination, exists_hint)
    if exists_hint is None and paths.exists(destination):
        check_replaceable(destination)
    with atomic.folder(destination, exists_hint=exists_hint) as folder:
        with workfolder.temporary() as work:
            file = work / f"{destination.name}.tar.gz"
            try:
                with file.open("wb") as stream:
                    _download(registry, remote, stream, file.name, progress)
                archive.extract(file, folder)
            except OSError as error:
                raise ToolError(f"{remote.reference} cannot be unpacked: {reason(error)}") from None
        shown = Path(file.name)
        top = root(shown, folder)
        if top != folder:  # move the content of the package one level up
            moved = top.rename(folder / ".mlpack-top")
            for entry in moved.iterdir():
                entry.rename(folder / entry.name)
            moved.rmdir()
        return _checked(remote, folder, shown, destination)


def read(registry: Source, reference: PackageReference) -> RemoteArtefact:
    """Return the description of an artefact in a registry, without its layer."""
    if reference.version is None:
        tags = registry.tags()[::-1]  # registries list them in order
        listed = f"{', '.join(tags[:_MOST_TAGS])}{', ...' if len(tags) > _MOST_TAGS else ''}"
        hint = f"the repository has the tags {listed}" if tags else "the repository has no tags"
        raise UsageError(f"{reference} names neither a tag nor a digest", hint=hint)
    content, digest = registry.manifest(reference.version)
    described = artefact.described(content, str(reference))
    config = registry.content(described.config) if described.config is not None else None
    facts = artefact.facts(config, str(reference)) if config is not None else None
    return RemoteArtefact(reference, digest, described, facts)


def warn_of_version(remote: RemoteArtefact, version: str | None, tell: Tell) -> None:
    """Report a tag that is another version than that of the package: a signature says nothing about its tag."""
    reference = remote.reference
    if reference.digest is None and is_other_version(reference.tag, version):
        tell(f"warning: {reference} is the version {version}, which is also {reference.pinned(remote.digest)}")


def _download(registry: Source, remote: RemoteArtefact, stream: IO[bytes], label: str, progress: Progress) -> None:
    with progress(label, remote.described.layer.size, unit="bytes") as advance:
        registry.download(remote.described.layer, stream, advance)
    stream.flush()


def _checked(remote: RemoteArtefact, file: Path, shown: Path, result: Path) -> PulledPackage:
    """Return the result of a pull, after the files were compared with the inventory. Raises VerificationError."""
    with opened(file, shown_as=shown) as package:
        checked = integrity.check(package, DEFAULT_LIMITS)
        if checked.problems:
            raise VerificationError(f"{remote.reference} is not a valid package", problems=checked.problems)
        if remote.facts is not None and remote.facts.digest != package.digest:
            raise VerificationError(
                f"{remote.reference}: the layer has another package than its description: "
                f"expected {remote.facts.digest}, found {package.digest}"
            )
        edited = tuple(checked.edits)
        digests = remote.digest, package.name, package.digest
        return PulledPackage(result, remote.reference, *digests, package.version, edited)


def local(  # noqa: PLR0913 - an option each
    reference: PackageReference,
    access: Access,
    cache: Path,
    *,
    tell: Tell,
    progress: Progress,
    trust: Trust | None = None,
) -> Path:
    """Return the file in the cache with a package of a registry, which is pulled unless it is there."""
    with Repository(reference, access) as registry:
        remote = read(registry, reference)
        if trust is not None and trust.is_asked:
            trust.require(find(registry, remote.digest, trust.keys), str(reference), tell)
        path = _cached(registry, remote, cache, progress)
    warn_of_version(remote, remote.facts.version if remote.facts else None, tell)
    if reference.digest is None:
        tell(f"{reference} is {reference.pinned(remote.digest)}")
    return path


def _cached(registry: Source, remote: RemoteArtefact, cache: Path, progress: Progress) -> Path:
    """Return the file in the cache with the layer of an artefact; what is there is checked again."""
    layer = remote.described.layer
    folder = cache / "packages" / dashed(layer.digest)
    path = folder / artefact.file_name(remote.described, remote.reference.repository.rpartition("/")[2])
    try:
        paths.make_private(folder)
        if path.is_file() and f"sha256:{digest_of(path)}" == layer.digest:
            return path
        with atomic.file(path) as stream:
            _download(registry, remote, stream, path.name, progress)
    except MlpackError:
        raise
    except OSError as error:
        raise ToolError(f"the cache {folder} cannot be used: {reason(error)}", hint="set XDG_CACHE_HOME") from None
    return path

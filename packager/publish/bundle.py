"""Bundles a package, its images, their signatures and the files that its pods fetch into one file.

It needs no network to be loaded. Tests: cli/test_bundle.py.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tarfile
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from packager.base import atomic, workfolder, yamlio
from packager.base.errors import ToolError, UsageError, VerificationError
from packager.base.names import split_registry
from packager.base.values import Value
from packager.base.web import PIECE
from packager.builder.render import sources_script
from packager.package.inventory import parsed
from packager.package.layout import OVERLAYS
from packager.package.opened import opened
from packager.publish import artefact, layout, manifest
from packager.publish.artefact import ArtefactChoices
from packager.publish.images import check_pushable, image_reference
from packager.publish.layout import BundledRepository, Root
from packager.publish.manifest import MANIFEST, Descriptor, descriptor
from packager.publish.push import facts_of, images_of, packed
from packager.publish.reference import is_digest, is_reference, parse
from packager.publish.registry import Repository
from packager.publish.signatures import bundles_beside, check_file, find, judge, referring
from packager.verify import Checks
from packager.workloads import program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from packager.base.process import Progress, Runner, Tell
    from packager.publish.client import Access
    from packager.publish.layout import Copy, Layout
    from packager.publish.signatures import Trust
    from packager.workloads.program import FetchedSource

SOURCES = "sources/"
"""How the repositories of the files that pods fetch begin."""

_MOST = 10_000
_PLACE = re.compile(r"\$\((OUTPUT_DIR|DATASET_DIR|CHECKPOINT_DIR)\)((?:/(?!\.\.?(?:/|$))[^/\x00-\x1f]+)*/?)")


class BundleRequest(Value, frozen=True):
    """A package that is bundled, and the options."""

    package: str  # a path, or a reference `oci://…`
    destination: Path | None = None  # None for a file called like the package
    with_images: bool = True
    force: bool = False  # whether an existing bundle is replaced
    archives: tuple[Path, ...] = ()  # of images that are in no registry, as podman, docker and buildah save them
    created: int | None = None  # the time in seconds since 1970 for a package that is packed from a folder
    kubectl: str = "kubectl"
    trust: Trust | None = None  # None leaves signatures unread
    with_sources: bool = True
    secrets: tuple[str, ...] = ()  # the variables that may be sent to the servers of sources


class Bundled(Value, frozen=True):
    """A bundle."""

    path: Path
    roots: tuple[Root, ...]
    size: int  # the number of bytes of all blobs

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {
            "path": str(self.path),
            "size": self.size,
            "manifests": [
                {"repository": root.repository, "tag": root.tag, "digest": root.blob.digest, "from": root.image}
                for root in self.roots
            ],
        }


class _Subject(Value, frozen=True):
    """The package in a bundle."""

    name: str
    images: tuple[str, ...]
    inventory: Mapping[str, Any] | None  # None if the registry does not tell it
    tag: str | None


def bundle(request: BundleRequest, access: Access, *, tell: Tell, progress: Progress, runner: Runner) -> Bundled:
    """Write a package with its images, signatures and sources to one file."""
    with ExitStack() as stack:
        content = _Content(access, stack)
        add_package = _add_remote if is_reference(request.package) else _add_local
        subject = add_package(content, request, runner, tell)
        path = request.destination or Path(f"{subject.name}.bundle.tar")
        atomic.check_absent(path, None if request.force else "--force replaces it")
        saved = [layout.read(archive, is_ours=False) for archive in request.archives]
        local = [image for image in subject.images if image.startswith("localhost/")]
        for image in sorted(subject.images) if request.with_images else ():
            if not _add_saved(content, image, saved, is_only=local == [image]):
                _add_image(content, image, tell)
        _add_sources(content, request, subject, stack.enter_context(workfolder.beside(path)), runner, tell)
        size = sum(blob.size for blob in content.blobs)
        if path.parent.is_dir() and shutil.disk_usage(path.parent).free < size:
            raise ToolError(f"{path.parent} has no room for the bundle of {size:,} bytes")
        with (
            atomic.file(path, exists_hint=None if request.force else "--force replaces it") as stream,
            progress(path.name, size, unit="bytes") as advance,
        ):
            counted = {blob: _counted(copy, blob, advance) for blob, copy in content.blobs.items()}
            layout.write(stream, content.roots, counted)
        return Bundled(path, tuple(content.roots), size)


def _counted(copy: Copy, blob: Descriptor, advance: Callable[[int], object]) -> Copy:
    return lambda stream: (copy(stream), advance(blob.size))


def sources_of(inventory: Mapping[str, Any]) -> tuple[FetchedSource, ...]:
    """Return the sources that the pods of a package fetch, as it was built; each once."""
    commands = [command for document in _documents(inventory) for command in _lists(document)]
    return tuple(dict.fromkeys(source for command in commands for _, source in program.fetched(command)))


def _documents(inventory: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the objects in the manifests of overlays, as they are sealed."""
    for path, lines in inventory.get("editable", {}).items():
        if path.startswith(f"{OVERLAYS}/") and path.endswith(".yaml"):
            documents, _ = yamlio.load_all("\n".join(lines).encode(), path)
            yield from (document.data for document in documents if isinstance(document.data, dict))


def _lists(value: Any) -> Iterator[list[str]]:
    """Yield the lists of words in a value."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _lists(item)


class _Content:
    """The manifests and blobs that the bundle will contain."""

    def __init__(self, access: Access, stack: ExitStack) -> None:
        self.access = access
        self.stack = stack  # closes the connections at the end
        self.roots: list[Root] = []
        self.blobs: dict[Descriptor, Copy] = {}
        self._manifest_bytes = 0

    def add_bytes(self, content: bytes) -> Descriptor:
        """Add a blob, and return its descriptor."""
        blob = descriptor(content)
        self.blobs[blob] = lambda stream: stream.write(content)
        return blob

    def add_made(self, content: bytes, repository: str, tag: str | None, *, is_attached: bool = False) -> Descriptor:
        """Add a manifest that is made here, and list it in the index; return its descriptor."""
        blob = self.add_bytes(content)
        self.roots.append(Root(MANIFEST, blob, repository, tag, is_attached=is_attached))
        return blob

    def add_files(self, files: Mapping[str, Path], repository: str, tag: str | None) -> None:
        """Add an image whose only layer has some files."""

        def copy(stream: Any) -> None:
            with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive:
                for name, path in sorted(files.items()):
                    member = tarfile.TarInfo(name)
                    member.size = path.stat().st_size
                    with path.open("rb") as source:
                        archive.addfile(member, source)

        sink = _Sink()
        copy(sink)
        blob = Descriptor(f"sha256:{sink.hashed.hexdigest()}", sink.size)
        self.blobs[blob] = copy
        config, content = artefact.of_tar(blob)
        self.add_bytes(config)
        self.add_made(content, repository, tag)

    def add_root(
        self,
        source: Repository | BundledRepository,
        present: tuple[bytes, str],
        repository: str,
        tag: str | None,
        name: str,
    ) -> None:
        """Add a manifest that the index lists, with what is attached to it; `name` is its name in the registry."""
        content, digest = present
        kind = self._add_manifest(source, content)
        self.roots.append(Root(kind, descriptor(content), repository, tag, name))
        for attached in [str(entry.get("digest")) for entry in source.referrers(digest)]:
            if is_digest(attached):
                content, _ = source.manifest(attached)
                kind = self._add_manifest(source, content)
                self.roots.append(Root(kind, descriptor(content), repository, is_attached=True))

    def _add_manifest(self, source: Repository | BundledRepository, content: bytes) -> str:
        """Add a manifest of a repository and all that it consists of, and return its media type."""
        kind = ""
        waiting = [content]
        while waiting:
            content = waiting.pop()
            digest = descriptor(content).digest
            found = manifest.read(content, digest)
            kind = kind or found.kind
            if descriptor(content) in self.blobs:
                continue
            self._manifest_bytes += len(content)
            if len(self.blobs) > _MOST or self._manifest_bytes > layout.ALL_MANIFEST_BYTES:
                raise ToolError(f"{digest}: expected at most {_MOST:,} blobs and 64 MiB of manifests")
            self.add_bytes(content)
            for part in found.blobs:
                self.blobs.setdefault(part, lambda stream, part=part: source.download(part, stream))  # type: ignore[misc]
            children = [child for child in dict.fromkeys(found.children) if child not in self.blobs]
            waiting += [source.manifest(child.digest)[0] for child in children]
        return kind


class _Sink:
    """Counts and hashes what is written to it."""

    def __init__(self) -> None:
        self.hashed, self.size = hashlib.sha256(), 0

    def write(self, data: bytes) -> int:
        self.hashed.update(data)
        self.size += len(data)
        return len(data)


def _repository(image: str) -> str:
    return split_registry(image)[1].partition("@")[0].partition(":")[0]


def _package_repository(name: str, images: tuple[str, ...]) -> str:
    """Return the repository of a package in the bundle: another one than those of its images."""
    return f"packages/{name}" if name in map(_repository, images) else name


def _add_remote(content: _Content, request: BundleRequest, _runner: Runner, tell: Tell) -> _Subject:
    """Add a package of a registry."""
    reference = parse(request.package)
    if reference.version is None:
        raise UsageError(f"{reference} names neither a tag nor a digest")
    registry = content.stack.enter_context(Repository(reference, content.access))
    present = registry.manifest(reference.version)
    if request.trust is not None and request.trust.is_asked:
        request.trust.require(find(registry, present[1], request.trust.keys), str(reference), tell)
    config = artefact.described(present[0], str(reference)).config
    facts = artefact.facts(registry.content(config), str(reference)) if config else None
    if facts is None:
        raise VerificationError(f"{reference} is not a package that `mlpack push` has stored")
    name = _package_repository(reference.repository.rpartition("/")[2], facts.images)
    content.add_root(registry, present, name, reference.tag, str(reference).removeprefix("oci://"))
    sealed = facts.sealed and parsed(facts.sealed.encode(), Path(facts.package))
    return _Subject(facts.package, facts.images, sealed or None, reference.tag)


def _add_local(content: _Content, request: BundleRequest, runner: Runner, tell: Tell) -> _Subject:
    """Add a package on disk, as `mlpack push` would store it."""
    source = Path(request.package)
    if request.trust is not None:
        check_file(source, request.trust, tell=tell)
    package = content.stack.enter_context(opened(source))
    images = tuple(images_of(package, Checks((request.kubectl,), runner=runner)))
    path, layer, _ = content.stack.enter_context(packed(package, request.created or 0))
    made = artefact.compose(facts_of(package, {*images}), layer, ArtefactChoices(package.version, request.created))

    def copy(stream: IO[bytes]) -> None:
        with path.open("rb") as file:
            shutil.copyfileobj(file, stream, PIECE)

    content.blobs[layer.blob] = copy
    content.add_bytes(made.config)
    name = _package_repository(package.name, images)
    blob = content.add_made(made.manifest, name, package.version)
    for signature in bundles_beside(source):
        if judge(signature, made.digest, ()).problem is None:
            content.add_bytes(artefact.EMPTY)
            content.add_bytes(signature)
            content.add_made(referring(signature, blob), name, None, is_attached=True)
    return _Subject(package.name, images, package.inventory, package.version)


def _add_saved(content: _Content, image: str, saved: list[Layout], *, is_only: bool) -> bool:
    """Add an image of an archive, and return whether one contains it.

    buildah names no image in its archive, or a tag: it is then the one of this machine, if there `is_only` this one.
    """
    host, rest = split_registry(image)
    tag = rest.partition("@")[0].partition(":")[2]
    names = {image, image if host else f"docker.io/{image}", f"docker.io/library/{rest}"}
    for archive in saved:
        for root in archive.roots:
            is_bare = len(archive.roots) == 1 and not root.image and not re.search("[/:]", root.tag or "")
            if names & {root.image, root.tag} or (is_bare and (root.tag == tag or is_only)):
                present = archive.manifests[root.blob.digest][0], root.blob.digest
                content.add_root(BundledRepository(archive, ""), present, _repository(image), tag or None, image)
                return True
    return False


def _add_image(content: _Content, image: str, tell: Tell) -> None:
    """Add an image of a registry with all its platforms."""
    if "@" not in image:
        check_pushable(image)
    reference = image_reference(image)
    registry = content.stack.enter_context(Repository(reference, content.access))
    present = registry.manifest(reference.version or "")
    if reference.digest is None:
        tell(f"{image} is {present[1]}")
    content.add_root(registry, present, _repository(image), None if reference.digest else reference.tag, image)


def _add_sources(  # noqa: PLR0913, PLR0917 - what is fetched, and with what
    content: _Content, request: BundleRequest, subject: _Subject, folder: Path, runner: Runner, tell: Tell
) -> None:
    """Fetch what the pods fetch, by the script of the pods, and add it as one image with these files.

    Beside the files of a repository or an artefact is a list of them, by which the script finds them.
    """
    sources = sources_of(subject.inventory or {})
    if subject.inventory is None:
        tell("note: the registry does not tell what the pods fetch: the bundle has no sources")
    for source in sources:
        tell(f"fetching {source.address}" if request.with_sources else f"note: without {source.address}, a source")
    if not sources or not request.with_sources:
        return
    script = folder / "sources.sh"
    script.write_text(sources_script())
    arguments = []
    for source in sources:  # a package names no variable that the user has not named
        place = _PLACE.fullmatch(source.path)
        if place is None:
            raise VerificationError(f"{source.address}: unexpected path {source.path}")
        if source.secret and source.secret not in request.secrets:
            message = f"{source.address} is fetched with the secret {source.secret}"
            raise UsageError(message, hint=f"--secret {source.secret} sends this variable; or --no-sources")
        path = f"{folder}/files/{place[1]}{place[2]}"
        arguments.append((source.address, path, source.sha256 or "-", source.size, source.secret or "-"))
    words = [word for words in arguments for word in words]
    if runner.run_in_terminal(["/bin/sh", str(script), *words, "--"], stdout_to_stderr=True):
        raise ToolError("the sources could not be fetched", hint="--no-sources leaves them out")
    for _, path, digest, *_ in arguments:
        if digest == "-":
            _write_list(path)
    files = {str(path.relative_to(folder / "files")): path for path in (folder / "files").rglob("*") if path.is_file()}
    kept = {name: path for name, path in files.items() if not path.name.startswith(".mlpack-")}
    content.add_files(kept, f"{SOURCES}{subject.name}", subject.tag)


def _write_list(path: str) -> None:
    """Write the list of the files of a source, with their digests and sizes, from what the script has noted."""
    folder, name = os.path.split(path)
    source, *listed = json.loads(Path(folder, f".mlpack-{name}.list").read_text(encoding="utf-8"))
    files = [(os.path.relpath(file, folder), digest, Path(file).stat().st_size) for file, digest in listed]
    Path(f"{path}.sources.json").write_text(json.dumps([source, *files]), encoding="utf-8")

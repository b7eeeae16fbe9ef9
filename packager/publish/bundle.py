"""Bundles a package, its images, their signatures and the files that its pods fetch into one file.

It needs no network to be loaded. Tests: cli/test_bundle.py.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tarfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from packager.base import atomic, workfolder, yamlio
from packager.base.errors import ToolError, UsageError, VerificationError
from packager.base.names import split_registry
from packager.base.values import Value
from packager.base.web import PIECE, digest_of
from packager.builder.render import sources_script
from packager.package.layout import OVERLAYS
from packager.package.opened import opened
from packager.publish import artefact, layout
from packager.publish.artefact import MANIFEST, Descriptor, descriptor
from packager.publish.layout import Root
from packager.publish.push import facts_of, images_of, packed
from packager.publish.reference import OCI, check_pushable, image_reference, is_digest, is_reference, parse
from packager.publish.registry import Repository
from packager.publish.signatures import bundles_beside, check_file, find, judge, referring
from packager.verify import Checks
from packager.workloads import program

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.base.process import Progress, Runner, Tell
    from packager.publish.artefact import ArtefactFacts, Source
    from packager.publish.client import Access
    from packager.publish.layout import Copy, Layout
    from packager.publish.reference import PackageReference
    from packager.publish.signatures import Trust
    from packager.workloads.program import FetchedSource

SOURCES = "sources/"
"""How the repositories of the files that pods fetch begin."""

_PLACE = re.compile(r"\$\((OUTPUT_DIR|DATASET_DIR|CHECKPOINT_DIR)\)((?:/(?!\.\.?(?:/|$))[^/\x00-\x1f]+)*/?)")


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


def bundle(  # noqa: PLR0913 - an option each
    source: str,
    access: Access,
    *,
    destination: Path | None = None,  # None for a file called like the package
    with_images: bool = True,
    force: bool = False,
    archives: tuple[Path, ...] = (),  # of images that are in no registry, as podman, docker and buildah save them
    created: int | None = None,  # seconds since 1970, for a package that is packed from a folder
    kubectl: str = "kubectl",
    trust: Trust | None = None,
    with_sources: bool = True,
    secrets: tuple[str, ...] = (),  # the variables that may be sent to the servers of sources
    tell: Tell,
    progress: Progress,
    runner: Runner,
) -> Bundled:
    """Write a package with its images, signatures and sources to one file.

    `source` is a path, or a reference `oci://…`.
    """
    exists_hint = None if force else "--force replaces it"
    with ExitStack() as stack:
        content = _Content(access, stack)
        if is_reference(source):
            facts, tag = _add_remote(content, parse(source), trust, tell)
        else:
            if trust is not None:
                check_file(Path(source), trust, tell=tell)
            facts, tag = _add_local(content, Path(source), created, Checks((kubectl,), runner=runner))
        path = destination or Path(f"{facts.package}.bundle.tar")
        atomic.check_absent(path, exists_hint)
        saved = [layout.read(archive, is_ours=False) for archive in archives]
        local = [image for image in facts.images if image.startswith("localhost/")]
        for image in sorted(facts.images) if with_images else ():
            if not _add_saved(content, image, saved, is_only=local == [image]):
                _add_image(content, image, tell)
        if facts.sealed is None:
            tell("note: the registry does not tell what the pods fetch: the bundle has no sources")
        sources = sources_of(facts.inventory)
        for fetched in sources:
            tell(f"fetching {fetched.address}" if with_sources else f"note: without {fetched.address}, a source")
        if sources and with_sources:
            folder = stack.enter_context(workfolder.beside(path))
            files = _fetch(sources, folder, secrets, runner)
            content.add_files(files, folder / "sources.tar", f"{SOURCES}{facts.package}", tag)
        size = sum(blob.size for blob in content.blobs)
        with (
            atomic.file(path, exists_hint=exists_hint) as stream,
            progress(path.name, size, unit="bytes") as advance,
        ):
            layout.write(stream, content.roots, content.blobs, advance)
        return Bundled(path, tuple(content.roots), size)


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

    def add(self, *contents: bytes) -> None:
        """Add blobs."""
        for content in contents:
            self.blobs[descriptor(content)] = lambda stream, content=content: stream.write(content)  # type: ignore[misc]

    def add_file(self, blob: Descriptor, path: Path) -> None:
        """Add a file as a blob."""

        def copy(stream: IO[bytes]) -> None:
            with path.open("rb") as file:
                shutil.copyfileobj(file, stream, PIECE)

        self.blobs[blob] = copy

    def add_made(self, content: bytes, repository: str, tag: str | None, *, is_attached: bool = False) -> None:
        """Add a manifest that is made here, and list it in the index."""
        self.add(content)
        self.roots.append(Root(MANIFEST, descriptor(content), repository, tag, is_attached=is_attached))

    def add_files(self, files: Mapping[str, Path], path: Path, repository: str, tag: str | None) -> None:
        """Add an image whose only layer has some files; they are moved into the tar at `path`."""
        with tarfile.open(path, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, file in sorted(files.items()):
                member = tarfile.TarInfo(name)
                member.size = file.stat().st_size
                with file.open("rb") as source:
                    archive.addfile(member, source)
                file.unlink()
        blob = Descriptor(f"sha256:{digest_of(path)}", path.stat().st_size)
        self.add_file(blob, path)
        config, content = artefact.of_tar(blob)
        self.add(config)
        self.add_made(content, repository, tag)

    def copy(self, source: Source, digest: str, repository: str, tag: str | None, name: str) -> None:
        """Add a manifest that the index lists, with what is attached to it; `name` is its name in the registry."""
        attached = [str(entry.get("digest")) for entry in source.referrers(digest)]
        for root in (digest, *filter(is_digest, attached)):
            for content, found in source.walk(root):  # the last one is the root itself
                self.add(content)
                for blob in found.blobs:
                    self.blobs.setdefault(blob, partial(source.download, blob))
            is_own = root == digest
            names = (tag, name) if is_own else (None, "")
            self.roots.append(Root(found.kind, descriptor(content), repository, *names, is_attached=not is_own))


def _repository(image: str) -> str:
    return split_registry(image)[1].partition("@")[0].partition(":")[0]


def _package_repository(name: str, images: tuple[str, ...]) -> str:
    """Return the repository of a package in the bundle: another one than those of its images."""
    return f"packages/{name}" if name in map(_repository, images) else name


def _add_remote(
    content: _Content, reference: PackageReference, trust: Trust | None, tell: Tell
) -> tuple[ArtefactFacts, str | None]:
    """Add a package of a registry; return the facts about it, and its tag."""
    registry = content.stack.enter_context(Repository(reference, content.access))
    stored = registry.stored(reference.version, str(reference))
    if trust is not None and trust.is_asked:
        trust.require(find(registry, stored.digest, trust.keys), stored.shown, tell)
    if stored.facts is None:
        raise VerificationError(f"{reference} is not a package that `mlpack push` has stored")
    name = _package_repository(reference.repository.rpartition("/")[2], stored.facts.images)
    content.copy(registry, stored.digest, name, reference.tag, str(reference).removeprefix(OCI))
    return stored.facts, reference.tag


def _add_local(
    content: _Content, source: Path, created: int | None, checks: Checks
) -> tuple[ArtefactFacts, str | None]:
    """Add a package on disk, as `mlpack push` would store it; return the facts about it, and its version."""
    package = content.stack.enter_context(opened(source))
    facts = facts_of(package, images_of(package, checks))
    path, layer = content.stack.enter_context(packed(package, created or 0))
    made = artefact.compose(facts, layer, version=package.version, created=created)
    content.add_file(layer.blob, path)
    content.add(made.config)
    name = _package_repository(package.name, facts.images)
    content.add_made(made.manifest, name, package.version)
    for signature in bundles_beside(source):
        if judge(signature, made.digest, ()).problem is None:
            content.add(artefact.EMPTY, signature)
            content.add_made(referring(signature, descriptor(made.manifest)), name, None, is_attached=True)
    return facts, package.version


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
                content.copy(archive, root.blob.digest, _repository(image), tag or None, image)
                return True
    return False


def _add_image(content: _Content, image: str, tell: Tell) -> None:
    """Add an image of a registry with all its platforms."""
    if "@" not in image:
        check_pushable(image)
    reference = image_reference(image)
    registry = content.stack.enter_context(Repository(reference, content.access))
    _, digest = registry.manifest(reference.version or "")
    if reference.digest is None:
        tell(f"{image} is {digest}")
    content.copy(registry, digest, _repository(image), None if reference.digest else reference.tag, image)


def _fetch(
    sources: tuple[FetchedSource, ...], folder: Path, secrets: tuple[str, ...], runner: Runner
) -> dict[str, Path]:
    """Fetch what the pods fetch into a folder, by the script of the pods; return the files by their names in the tar.

    Beside the files of a repository or an artefact is a list of them, by which the script finds them.
    """
    script = folder / "sources.sh"
    script.write_text(sources_script())
    words: list[str] = []
    lists = []
    for source in sources:  # a package names no variable that the user has not named
        place = _PLACE.fullmatch(source.path)
        if place is None:
            raise VerificationError(f"{source.address}: unexpected path {source.path}")
        if source.secret and source.secret not in secrets:
            message = f"{source.address} is fetched with the secret {source.secret}"
            raise UsageError(message, hint=f"--secret {source.secret} sends this variable; or --no-sources")
        path = f"{folder}/files/{place[1]}{place[2]}"
        words += [source.address, path, source.sha256 or "-", source.size, source.secret or "-"]
        lists += [] if source.sha256 else [Path(path)]
    if runner.run_in_terminal(["/bin/sh", str(script), *words, "--"], stdout_to_stderr=True):
        raise ToolError("the sources could not be fetched", hint="--no-sources leaves them out")
    for file in lists:
        address, *listed = json.loads(file.with_name(f".mlpack-{file.name}.list").read_text(encoding="utf-8"))
        files = [(os.path.relpath(name, file.parent), digest, Path(name).stat().st_size) for name, digest in listed]
        file.with_name(f"{file.name}.sources.json").write_text(json.dumps([address, *files]), encoding="utf-8")
    found = (file for file in (folder / "files").rglob("*") if file.is_file())
    return {str(file.relative_to(folder / "files")): file for file in found if not file.name.startswith(".mlpack-")}

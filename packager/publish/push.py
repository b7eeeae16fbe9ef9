"""Pushes a package to a registry: verified first, and with the tag last.

Tests: publish/test_registry.py.
"""

from __future__ import annotations

import json
import re
import shlex
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from packager.base import workfolder
from packager.base.errors import ToolError, UsageError, VerificationError, reason
from packager.base.paths import argument
from packager.base.problems import Problem
from packager.base.values import Value, field, replace
from packager.base.web import digest_of
from packager.package import archive, declared, integrity, inventory, tree
from packager.package.layout import INVENTORY
from packager.package.opened import opened
from packager.package.tree import Entry
from packager.publish import artefact
from packager.publish.artefact import ArtefactChoices, ArtefactFacts, Layer
from packager.publish.manifest import Descriptor
from packager.publish.reference import is_tag
from packager.publish.registry import Repository
from packager.publish.signatures import attach
from packager.rendering import render
from packager.verify import verify

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from packager.base.process import Progress, Tell
    from packager.package.opened import Package
    from packager.publish.artefact import Artefact
    from packager.publish.client import Access
    from packager.publish.keys import Signer
    from packager.publish.reference import PackageReference
    from packager.verify import Checks

_ARGO_BYTES = 1_000_000_000
"""The most bytes that Argo CD unpacks, unless it is configured otherwise."""

# Files that Flux leaves out of what it unpacks (fluxcd/pkg, sourceignore): a package that needs one fails there.
_DROPPED = re.compile(
    r"(.*/)?([^/]+\.(jpg|jpeg|gif|png|wmv|flv|zip)|[^/]+\.tar\.gz|\.goreleaser\.yml|\.sops\.yaml|\.flux\.yaml"
    r"|\.travis\.yml|\.gitlab-ci\.yml|appveyor\.yml|\.drone\.yml|cloudbuild\.yaml|codeship-services\.yml"
    r"|codeship-steps\.yml)|(.*/)?(\.github|\.circleci|\.git)/.*"
)


class PushRequest(Value, frozen=True):
    """A package, and where it is pushed to."""

    package: Path  # the package: an archive, which is pushed unchanged, or a folder, which is packed first
    reference: PackageReference  # the repository, with a tag or without one
    checks: Checks  # the options of the verification
    tags: tuple[str, ...] = ()  # more tags
    platform: str = "linux/amd64"  # the operating system and the architecture that the artefact names
    annotations: Mapping[str, str] = field(default_factory=dict)  # more annotations
    created: int | None = None  # the time of the package in seconds since 1970; None for none
    verify: bool = True  # whether the package is verified
    force: bool = False  # whether tags are moved that name another artefact
    dry_run: bool = False  # whether nothing is sent
    signers: tuple[Signer, ...] = ()  # the keys that sign the artefact

    @property
    def all_tags(self) -> tuple[str, ...]:
        """All tags, that of the reference first."""
        first = (self.reference.tag,) if self.reference.tag is not None else ()
        return tuple(dict.fromkeys((*first, *self.tags)))


class PushedPackage(Value, frozen=True):
    """A package in a registry."""

    reference: PackageReference  # the repository
    tags: tuple[str, ...]
    facts: ArtefactFacts  # the facts about the package
    artefact: Artefact  # the manifest, the config and the layer
    sent: tuple[str, ...] | None  # the digests of the blobs that were sent; None for a dry run
    is_new: bool  # whether anything was sent
    signed_by: tuple[str, ...] = ()  # the fingerprints of the keys that have signed it

    @property
    def pinned(self) -> str:
        """The reference with the digest of the artefact."""
        return self.reference.pinned(self.artefact.digest)

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        layer = self.artefact.layer
        return {
            "reference": self.pinned,
            "digest": self.artefact.digest,
            "tags": list(self.tags),
            "package": {"name": self.facts.package, "digest": self.facts.digest},
            "layer": {"name": layer.name, "digest": layer.blob.digest, "size": layer.blob.size},
            "edited": list(self.facts.edited),
            "images": list(self.facts.images),
            "dry_run": self.sent is None,
            "sent": list(self.sent or ()),
            "signed_by": list(self.signed_by),
            "manifest": json.loads(self.artefact.manifest),
            "config": json.loads(self.artefact.config),
        }


def push(request: PushRequest, access: Access, *, tell: Tell, progress: Progress) -> PushedPackage:
    """Push a package: its blobs, then the manifest and the signatures, and then the tags."""
    reference, tags = request.reference, request.all_tags
    if reference.digest is not None:
        raise UsageError(f"{reference}: a push computes the digest", hint=f"use {reference.base}:TAG")
    for tag in tags:
        if not is_tag(tag):
            raise UsageError(f"--tag {tag}: expected letters, digits, and after the first one also . and -")
    choices = ArtefactChoices(tags[0] if tags else None, request.created, request.platform, request.annotations)
    artefact.check_choices(choices)
    with opened(request.package) as package:
        images = _verified(package, request) if request.verify else images_of(package, request.checks)
        facts = facts_of(package, images)
        with packed(package, request.created or 0) as (path, layer, size):
            for edited in facts.edited:
                tell(f"edited: {edited}")
            if size > _ARGO_BYTES:
                tell(f"note: the package unpacks to {size:,} bytes, and Argo CD takes at most {_ARGO_BYTES:,}")
            made = artefact.compose(facts, layer, choices)
            signed_by = tuple(signer.public.fingerprint for signer in request.signers)
            pushed = PushedPackage(reference, tags, facts, made, None, is_new=False, signed_by=signed_by)
            if request.dry_run:
                return pushed
            with Repository(reference, access, may_push=True) as registry:
                sent, is_new = _send(registry, request, made, path, progress)
    return replace(pushed, sent=sent, is_new=is_new)


def _verified(package: Package, request: PushRequest) -> set[str]:
    """Return the images of a package, after it was verified. Raises VerificationError or ToolError."""
    report = verify(package, request.checks)
    hint = "rename it: Flux keeps images, videos and archives out of what it applies"
    dropped = [
        Problem(package.shown(path), 0, 0, "an overlay uses this file, and Flux leaves it out", hint)
        for files in report.files.values()
        for path in sorted(files)
        if _DROPPED.fullmatch(path)
    ]
    if problems := [*report.problems, *dropped]:
        message = f"{request.package} did not pass verification; nothing was pushed"
        verified = shlex.join(["mlpack", "verify", argument(request.package)])
        raise VerificationError(message, problems=list(dict.fromkeys(problems)), hint=f"{verified} shows the details")
    if report.unchecked:
        raise ToolError(f"{report.unchecked[0]}; nothing was pushed", hint="--no-verify pushes it without these checks")
    return {image for names in report.images.values() for image in names}


def facts_of(package: Package, images: set[str]) -> ArtefactFacts:
    """Return the facts about an open package."""
    sealed = inventory.content(package.folder)
    return ArtefactFacts(
        package=package.name,
        digest=package.digest,
        overlays=package.overlays,
        edited=tuple(sorted(integrity.changed(package))),
        images=tuple(sorted(images)),
        sealed=sealed.decode(),
        title=declared.title(package),
        folder=package.top if package.folder != package.source else package.name,
    )


def images_of(package: Package, checks: Checks) -> set[str]:
    """Return the images of all overlays of a package, as kubectl renders them."""
    images: set[str] = set()
    for name in package.applied:
        outcome = render.render(package, name, checks.kubectls, checks.runner)
        if outcome.overlay is None and outcome.unchecked:
            raise ToolError(f"the images are unknown: {outcome.unchecked[0]}")
        images |= set(outcome.overlay.images) if outcome.overlay is not None else set()
    return images


def _send(
    registry: Repository,
    request: PushRequest,
    made: Artefact,
    path: Path,
    progress: Progress,
) -> tuple[tuple[str, ...], bool]:
    """Send an artefact, the tags last; return the digests of the blobs that were sent, and whether anything was."""
    tags = [tag for tag in request.all_tags if _is_to_set(registry, request, tag, made.digest)]
    is_stored = not tags and (bool(request.all_tags) or registry.digest_of(made.digest) is not None)
    sent = []
    if not is_stored:
        blobs = ((made.layer.blob, path), (made.config_blob, made.config))
        with progress(made.layer.name, sum(blob.size for blob, _ in blobs), unit="bytes") as advance:
            sent = [blob.digest for blob, source in blobs if registry.upload(blob, source, advance)]
        registry.put_manifest(made.digest, made.manifest)
    created = None if request.created is None else artefact.time_text(request.created)
    has_signed = attach(registry, made, request.signers, created)
    for tag in tags:
        if _is_to_set(registry, request, tag, made.digest):  # another push may have come first
            registry.put_manifest(tag, made.manifest)
    return tuple(sent), has_signed or not is_stored


def _is_to_set(registry: Repository, request: PushRequest, tag: str, digest: str) -> bool:
    """Whether a tag does not name the artefact yet. Raises VerificationError if it names another one."""
    present = registry.digest_of(tag)
    if present not in (None, digest) and not request.force:
        message = f"{request.reference.base}:{tag} names another artefact: expected {digest}, found {present}"
        raise VerificationError(message, hint="--force moves the tag")
    return present != digest


@contextmanager
def packed(package: Package, mtime: int) -> Iterator[tuple[Path, Layer, int]]:
    """Yield the archive of a package, unchanged or new for a folder, the layer that it becomes, and its tar's size."""
    if package.outside:
        message = f"{package.source} is an overlay outside of its package"
        raise UsageError(message, hint=f"push {package.outside.package}")
    if package.folder != package.source:
        yield package.source, *_layer(package.source, package)
        return
    with workfolder.temporary() as work:
        path = work / f"{package.name}.tar.gz"
        sealed = inventory.content(package.folder)
        try:
            with path.open("wb") as stream:
                archive.write(
                    tree.read(package.folder), stream, mtime=mtime, sealed=Entry(INVENTORY, sealed, len(sealed))
                )
        except OSError as error:
            raise ToolError(f"{package.source} cannot be packed: {reason(error)}") from None
        yield path, *_layer(path, package)


def _layer(path: Path, package: Package) -> tuple[Layer, int]:
    try:
        blob = Descriptor(f"sha256:{digest_of(path)}", path.stat().st_size)
    except OSError as error:
        raise ToolError(f"{path} cannot be read: {reason(error)}") from None
    digest, size = archive.tar_digest(path)
    return Layer(f"{package.name}.tar.gz", blob, f"sha256:{digest}"), size

"""Pushes a package to a registry: verified first, and with the tag last.

Tests: publish/test_registry.py.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from packager.base.errors import ToolError, UsageError, VerificationError
from packager.base.paths import argument
from packager.base.problems import Problem
from packager.package import integrity, inventory
from packager.package.opened import opened
from packager.publish import artefact
from packager.publish.artefact import ArtefactChoices, ArtefactFacts
from packager.publish.packing import dropped_by_flux, packed
from packager.publish.reference import is_tag
from packager.publish.registry import Repository
from packager.publish.signatures import SignedArtefact, attach

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from packager.app.progress import Progress, Tell
    from packager.base.runner import Runner
    from packager.package.opened import Package
    from packager.publish.artefact import Artefact
    from packager.publish.client import Access
    from packager.publish.reference import PackageReference
    from packager.publish.signer import Signer
    from packager.verify import Checks
    from packager.verify.report import Report

_ARGO_BYTES = 1_000_000_000
"""The most bytes that Argo CD unpacks, unless it is configured otherwise."""


@dataclass(frozen=True, slots=True)
class PushRequest:
    """A package, and where it is pushed to.

    Attributes:
        package: The package: an archive, which is pushed unchanged, or a folder, which is packed first.
        reference: The repository, with a tag or without one.
        runner: Starts kubectl.
        kubectl: The kubectl that renders.
        pod_security: The Pod Security level that every overlay must meet; None for none.
        allow: Words of `--allow`: kinds, fields, labels and annotations that are permitted too.
        tags: More tags.
        platform: The operating system and the architecture that the artefact names.
        annotations: More annotations.
        created: The time of the package in seconds since 1970; None for none.
        verify: Whether the package is verified.
        force: Whether tags are moved that name another artefact.
        dry_run: Whether nothing is sent.
        signers: The keys that sign the artefact.
    """

    package: Path
    reference: PackageReference
    runner: Runner
    kubectl: str = "kubectl"
    pod_security: str | None = None
    allow: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    platform: str = "linux/amd64"
    annotations: Mapping[str, str] = field(default_factory=dict)
    created: int | None = None
    verify: bool = True
    force: bool = False
    dry_run: bool = False
    signers: tuple[Signer, ...] = ()

    @property
    def checks(self) -> Checks:
        """The options of the verification. Raises UsageError."""
        from packager.app.verify import Checks, allowed_words, level

        return Checks(
            kubectls=(self.kubectl,),
            level=level(self.pod_security),
            allowed=allowed_words(self.allow),
            has_notes=False,
            runner=self.runner,
        )

    @property
    def all_tags(self) -> tuple[str, ...]:
        """All tags, that of the reference first."""
        first = (self.reference.tag,) if self.reference.tag is not None else ()
        return tuple(dict.fromkeys((*first, *self.tags)))


@dataclass(frozen=True, slots=True)
class PushedPackage:
    """A package in a registry.

    Attributes:
        reference: The repository.
        tags: The tags.
        facts: The facts about the package.
        artefact: The manifest, the config and the layer.
        sent: The digests of the blobs that were sent; None for a dry run.
        is_new: Whether anything was sent.
        signed_by: The fingerprints of the keys that have signed it.
    """

    reference: PackageReference
    tags: tuple[str, ...]
    facts: ArtefactFacts
    artefact: Artefact
    sent: tuple[str, ...] | None
    is_new: bool
    signed_by: tuple[str, ...] = ()

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
    """Push a package: its blobs, then the manifest and the signatures, and then the tags.

    Args:
        request: The package and the options.
        access: The way to the registry.
        tell: Receives notes about the package.
        progress: Shows the progress of the upload.

    Raises:
        UsageError: The package does not exist, or an option is not valid.
        VerificationError: The package is not valid, or a tag names another artefact.
        ToolError: A file cannot be read, or the registry does not respond as it must.
    """
    choices = _choices(request)
    with opened(request.package) as package:
        facts = _facts(package, request)
        with packed(package, request.created or 0) as (path, layer, size):
            _note(facts, size, tell)
            made = artefact.compose(facts, layer, choices)
            pushed = PushedPackage(
                request.reference,
                request.all_tags,
                facts,
                made,
                None,
                is_new=False,
                signed_by=tuple(signer.public.fingerprint for signer in request.signers),
            )
            if request.dry_run:
                return pushed
            with Repository(request.reference, access, may_push=True) as registry:
                sent, is_new = _send(registry, request, made, path, progress)
    return replace(pushed, sent=sent, is_new=is_new)


def _choices(request: PushRequest) -> ArtefactChoices:
    reference = request.reference
    if reference.digest is not None:
        raise UsageError(f"{reference}: a push computes the digest", hint=f"use {reference.base}:TAG")
    for tag in request.all_tags:
        if not is_tag(tag):
            raise UsageError(f"--tag {tag}: expected letters, digits, and after the first one also . and -")
    tags = request.all_tags
    choices = ArtefactChoices(tags[0] if tags else None, request.created, request.platform, request.annotations)
    artefact.check_choices(choices)
    return choices


def _facts(package: Package, request: PushRequest) -> ArtefactFacts:
    """Return the facts about a package, after it was verified.

    Raises:
        VerificationError: The package has problems.
        ToolError: Something could not be checked, or a file cannot be read.
    """
    if not request.verify:
        return facts_of(package, images_of(package, request.checks))
    report = _verified(package, request)
    return facts_of(package, {image for names in report.images.values() for image in names})


def _verified(package: Package, request: PushRequest) -> Report:
    """Return the report on a package. Raises VerificationError or ToolError."""
    from packager import verify as stage

    report = stage.verify(package, request.checks)
    problems = [*report.problems, *_dropped(package, report)]
    verified = shlex.join(["mlpack", "verify", argument(request.package)])
    if problems:
        message = f"{request.package} did not pass verification; nothing was pushed"
        raise VerificationError(message, problems=list(dict.fromkeys(problems)), hint=f"{verified} shows the details")
    if report.unchecked:
        raise ToolError(f"{report.unchecked[0]}; nothing was pushed", hint="--no-verify pushes it without these checks")
    return report


def facts_of(package: Package, images: set[str]) -> ArtefactFacts:
    """Return the facts about an open package.

    Args:
        package: The package.
        images: The images of its pods.

    Raises:
        ToolError: A file cannot be read.
    """
    sealed = inventory.content(package.folder)
    return ArtefactFacts(
        package=package.name,
        digest=package.digest,
        overlays=package.overlays,
        edited=tuple(sorted(integrity.changed(package))),
        images=tuple(sorted(images)),
        sealed=sealed.decode(),
        title=title_of(package),
        folder=package.top if package.folder != package.source else package.name,
    )


def title_of(package: Package) -> str:
    """Return the title of a package's model. Raises ToolError if the spec cannot be read."""
    from packager.package import declared

    return declared.title(package)


def images_of(package: Package, checks: Checks) -> set[str]:
    """Return the images of all overlays of a package, as kubectl renders them.

    Raises:
        ToolError: No kubectl could render an overlay.
    """
    from packager.rendering import render

    images: set[str] = set()
    for name in package.applied:
        outcome = render.render(package, name, checks.kubectls, checks.runner)
        if outcome.overlay is None and outcome.unchecked:
            raise ToolError(f"the images are unknown: {outcome.unchecked[0]}")
        images |= set(outcome.overlay.images) if outcome.overlay is not None else set()
    return images


def _dropped(package: Package, report: Report) -> Iterator[Problem]:
    """Yield a problem for each file that an overlay uses and Flux leaves out."""
    hint = "rename it: Flux keeps images, videos and archives out of what it applies"
    for files in report.files.values():
        for path in dropped_by_flux(sorted(files)):
            yield Problem(package.shown(path), 0, 0, "an overlay uses this file, and Flux leaves it out", hint)


def _note(facts: ArtefactFacts, size: int, tell: Tell) -> None:
    for path in facts.edited:
        tell(f"edited: {path}")
    if size > _ARGO_BYTES:
        tell(f"note: the package unpacks to {size:,} bytes, and Argo CD takes at most {_ARGO_BYTES:,}")


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
    sent = () if is_stored else _send_blobs(registry, made, path, progress)
    signed = _signed(request, made)
    has_signed = attach(registry, signed, request.signers)
    for tag in tags:
        if _is_to_set(registry, request, tag, made.digest):  # another push may have come first
            registry.put_manifest(tag, made.manifest)
    return sent, has_signed or not is_stored


def _send_blobs(registry: Repository, made: Artefact, path: Path, progress: Progress) -> tuple[str, ...]:
    """Send the blobs and the manifest, and return the digests of the blobs that the registry lacked."""
    blobs = ((made.layer.blob, path), (made.config_blob, made.config))
    sent = []
    with progress(made.layer.name, sum(blob.size for blob, _ in blobs), unit="bytes") as advance:
        for blob, source in blobs:
            if registry.upload(blob, source, advance):
                sent.append(blob.digest)
    registry.put_manifest(made.digest, made.manifest)
    return tuple(sent)


def _signed(request: PushRequest, made: Artefact) -> SignedArtefact:
    created = None if request.created is None else artefact.time_text(request.created)
    manifest = artefact.descriptor(made.manifest)
    return SignedArtefact(manifest, made.layer.name, made.layer.blob.digest, created)


def _is_to_set(registry: Repository, request: PushRequest, tag: str, digest: str) -> bool:
    """Whether a tag does not name the artefact yet. Raises VerificationError if it names another one."""
    present = registry.digest_of(tag)
    if present not in (None, digest) and not request.force:
        message = f"{request.reference.base}:{tag} names another artefact: expected {digest}, found {present}"
        raise VerificationError(message, hint="--force moves the tag")
    return present != digest

"""Pushes a package to a registry: verified first, and with the tag last.

Tests: publish/test_registry.py.
"""

from __future__ import annotations

import json
import shlex
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from packager.base import workfolder
from packager.base.errors import ToolError, UsageError, VerificationError, reason
from packager.base.paths import argument
from packager.base.values import Value, replace
from packager.base.web import digest_of
from packager.package import archive, declared, integrity, inventory, tree
from packager.package.layout import INVENTORY
from packager.package.opened import opened
from packager.package.tree import Entry
from packager.publish.artefact import ArtefactFacts, Descriptor, Layer, compose, descriptor
from packager.publish.reference import check_platform, is_tag
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


def push(  # noqa: PLR0913 - an option each
    path: Path,
    reference: PackageReference,
    access: Access,
    checks: Checks,
    *,
    tell: Tell,
    progress: Progress,
    tags: tuple[str, ...] = (),  # beside that of the reference
    platform: str = "linux/amd64",
    annotations: Mapping[str, str] | None = None,
    created: int | None = None,  # seconds since 1970
    is_verified: bool = False,
    force: bool = False,
    dry_run: bool = False,
    signers: tuple[Signer, ...] = (),
) -> PushedPackage:
    """Push a package: its blobs, then the manifest and the signatures, and then the tags.

    An archive is pushed unchanged, a folder is packed first. `force` moves tags that name another artefact.
    """
    if reference.digest is not None:
        raise UsageError(f"{reference}: a push computes the digest", hint=f"use {reference.base}:TAG")
    tags = tuple(dict.fromkeys(tag for tag in (reference.tag, *tags) if tag is not None))
    for tag in tags:
        if not is_tag(tag):
            raise UsageError(f"--tag {tag}: expected letters, digits, and after the first one also . and -")
    check_platform(platform)
    with opened(path) as package:
        images = images_of(package, checks) if is_verified else _verified(package, checks)
        facts = facts_of(package, images)
        for edited in facts.edited:
            tell(f"edited: {edited}")
        with packed(package, created or 0) as (archive_path, layer):
            version = tags[0] if tags else None
            made = compose(facts, layer, version=version, created=created, platform=platform, annotations=annotations)
            blobs: dict[Descriptor, tuple[bytes | Path, int]]
            blobs = {layer.blob: (archive_path, 0), descriptor(made.config): (made.config, 0)}
            signed_by = tuple(signer.public.fingerprint for signer in signers)
            pushed = PushedPackage(reference, tags, facts, made, None, is_new=False, signed_by=signed_by)
            if dry_run:
                return pushed
            with Repository(reference, access, may_push=True) as registry:
                to_set = [tag for tag in tags if registry.is_to_set(tag, made.digest, force=force)]
                sent: tuple[str, ...] = ()
                if to_set or not tags:
                    with progress(layer.name, sum(blob.size for blob in blobs), unit="bytes") as advance:
                        sent = registry.store(blobs, [made.manifest], advance)
                sent += attach(registry, made, signers, created)
                for tag in to_set:
                    if registry.is_to_set(tag, made.digest, force=force):  # another push may have come first
                        registry.put_manifest(tag, made.manifest)
    digests = tuple(blob.digest for blob in blobs if blob.digest in sent)
    return replace(pushed, sent=digests, is_new=bool(sent or to_set))


def _verified(package: Package, checks: Checks) -> set[str]:
    """Return the images of a package, after it was verified. Raises VerificationError or ToolError."""
    report = verify(package, checks)
    if report.problems:
        message = f"{package.source} did not pass verification; nothing was pushed"
        verified = shlex.join(["mlpack", "verify", argument(package.source)])
        problems = list(dict.fromkeys(report.problems))
        raise VerificationError(message, problems=problems, hint=f"{verified} shows the details")
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


@contextmanager
def packed(package: Package, mtime: int) -> Iterator[tuple[Path, Layer]]:
    """Yield the archive of a package, unchanged or new for a folder, and the layer that it becomes."""
    if package.outside:
        message = f"{package.source} is an overlay outside of its package"
        raise UsageError(message, hint=f"push {package.outside.package}")
    with workfolder.temporary() as work:
        path = package.source
        try:
            if package.folder == package.source:
                path = work / f"{package.name}.tar.gz"
                sealed = inventory.content(package.folder)
                with path.open("wb") as stream:
                    archive.write(
                        tree.read(package.folder), stream, mtime=mtime, sealed=Entry(INVENTORY, sealed, len(sealed))
                    )
            blob = Descriptor(f"sha256:{digest_of(path)}", path.stat().st_size)
        except OSError as error:
            raise ToolError(f"{package.source} cannot be packed: {reason(error)}") from None
        yield path, Layer(f"{package.name}.tar.gz", blob, f"sha256:{archive.tar_digest(path)}")

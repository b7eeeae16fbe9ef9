"""Locks the images of a package: looks up the digests of their tags, and writes them into the package.

Tests: cli/test_lock.py.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from packager.base import envfile
from packager.base.errors import RenderError, ToolError, UsageError, VerificationError
from packager.base.problems import Problem, similar
from packager.base.values import Value, as_plain, field, replace
from packager.configure import configure
from packager.configure.configure import Answers, PreparedEdits
from packager.configure.settings import value
from packager.package import layout
from packager.package.image import IMAGE, REGISTRY, bare, parse
from packager.package.opened import chosen_overlays
from packager.publish.artefact import Platform, read_manifest
from packager.publish.reference import check_platform, check_pushable, image_reference, is_platform
from packager.publish.registry import Repository
from packager.rendering import render

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from packager.base.process import Runner
    from packager.configure.settings import Files
    from packager.publish.client import Access


class ImageManifest(Value, frozen=True):
    """The manifest that a tag of an image has, or the index of those of several platforms."""

    digest: str
    platforms: Mapping[str, str]
    """The digest of the manifest for each platform of an index, such as `linux/amd64`; empty without one."""

    def digest_for(self, platform: str | None) -> str:
        """Return the digest to pull by; for a platform, that of its own manifest."""
        if platform is None or not self.platforms:
            return self.digest
        if platform not in self.platforms:
            message = f"--platform {platform}: the image is for {', '.join(self.platforms)}"
            raise UsageError(message, hint=similar(platform, self.platforms))
        return self.platforms[platform]

    def has(self, digest: str) -> bool:
        """Whether a digest is that of the manifest or the index, or of a manifest in the index."""
        return digest == self.digest or digest in self.platforms.values()


def look_up(image: str, access: Access) -> ImageManifest:
    """Return the manifest that an image has now; those for no platform, such as signatures, are left out."""
    reference = image_reference(image)
    with Repository(reference, access) as registry:
        content, digest = registry.manifest(reference.version or "")
    platforms = {}
    for entry in read_manifest(content, str(reference)).manifests or ():
        platform = entry.platform or Platform()
        name = "/".join(part for part in (platform.os, platform.architecture, platform.variant) if part)
        if is_platform(name) and "unknown" not in name:
            platforms[name] = entry.digest
    return ImageManifest(digest, platforms)


class LockedImage(Value, frozen=True):
    """An image of an overlay, with the digest that its tag has now."""

    overlay: str
    image: str  # the image with its tag
    digest: str  # the digest that it is locked to by `prepared`, or would be locked to
    locked: str | None  # the digest that the overlay pulls it by at present; None if it pulls a tag
    is_current: bool = field(name="current")  # whether the tag still has the present digest, or is for a platform of it


class PreparedLock(Value, frozen=True):
    """The lock of a package that is not written yet."""

    edits: PreparedEdits  # the edits of the package, for `packager.configure.configure.write`
    images: tuple[LockedImage, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {"package": self.edits.package.name, "images": as_plain(self.images)}

    def check(self) -> None:
        """Refuse images that are not locked, or whose tag has another digest now. Raises VerificationError."""
        package = self.edits.package
        problems = [_problem(self.edits.files, image) for image in self.images if not image.is_current]
        if problems:
            message = f"{package.source}: the images are not locked to what their tags have now"
            raise VerificationError(message, problems=problems, hint="mlpack lock writes the present digests")


@contextmanager
def prepared(  # noqa: PLR0913 - an option each
    path: Path,
    access: Access,
    runner: Runner,
    *,
    overlay: str | None = None,
    registry: str | None = None,  # that the images are pulled from, which is set in the package
    platform: str | None = None,
    destination: Path | None = None,
    kubectl: str = "kubectl",
) -> Iterator[PreparedLock]:
    """Open a package and look up the digests of its images; nothing is written.

    `platform` locks the manifest of one, in place of an index of several.
    """
    if platform is not None:
        check_platform(platform)
    answers = Answers(registry=registry)
    configure.check_answers(answers)
    with configure.prepared(path, overlay, answers, destination=destination) as edits:
        work = _Lock(edits.files, access, platform, kubectl, runner)
        images = [image for name in chosen_overlays(edits.package, overlay) for image in work.overlay(name)]
        yield PreparedLock(edits, tuple(images))


class _Lock:
    """Locks overlays in the files of a package; each image is looked up once."""

    def __init__(self, files: Files, access: Access, platform: str | None, kubectl: str, runner: Runner) -> None:
        self.files, self.access, self.platform, self.kubectl, self.runner = files, access, platform, kubectl, runner
        self.manifests: dict[str, ImageManifest] = {}

    def overlay(self, overlay: str) -> list[LockedImage]:
        """Lock an overlay, and return its images."""
        present = {bare(image): image.partition("@")[2] or None for image in self._rendered(overlay)}
        _unlock(self.files, overlay)
        by_tag = [image for image in self._rendered(overlay) if "@" not in image]
        manifests = {image: self._manifest(image) for image in by_tag}
        digests = {image: manifest.digest_for(self.platform) for image, manifest in manifests.items()}
        if by_tag:
            own = _own_images(self.files, overlay)
            for image, key in [(image, own[image]) for image in by_tag if image in own]:
                name = value(self.files, overlay, key)
                self.files.assign(layout.env(overlay), key, f"{name}@{digests[image]}")
            self._check(overlay)
        return [
            LockedImage(overlay, image, digests[image], locked, locked is not None and manifests[image].has(locked))
            for image in by_tag
            for locked in (present.get(bare(image)),)
        ]

    def _rendered(self, overlay: str) -> tuple[str, ...]:
        """Return the images of an overlay with the changes so far."""
        package = self.files.edited_package()
        outcome = render.render(package, overlay, (self.kubectl,), self.runner)
        if outcome.overlay is None:
            problems = outcome.problems
            if outcome.unchecked:
                raise ToolError(outcome.unchecked[0])
            raise RenderError(f"{package.source}: {overlay} cannot be rendered", problems=problems)
        return outcome.overlay.container_images

    def _manifest(self, image: str) -> ImageManifest:
        if image not in self.manifests:
            check_pushable(image)
            self.manifests[image] = look_up(image, self.access)
        return self.manifests[image]

    def _check(self, overlay: str) -> None:
        """Refuse a lock that kustomize does not apply to all images. Raises RenderError."""
        if unlocked := [image for image in self._rendered(overlay) if "@" not in image]:
            message = (
                f"{overlay} still uses {', '.join(unlocked)} by the tag: its image is not set by REGISTRY and a name"
            )
            raise RenderError(message, hint="write the image with its digest there")


def _own_images(files: Files, overlay: str) -> dict[str, str]:
    """Return the images that an overlay has in its mlops.env, with their registries, each with its key."""
    images = {}
    for key in sorted(files.original.sources(overlay).image_keys):
        registry = value(files, overlay, key.removesuffix(IMAGE) + REGISTRY) or value(files, overlay, REGISTRY)
        images[f"{registry}/{value(files, overlay, key)}"] = key
    return images


def _unlock(files: Files, overlay: str) -> None:
    """Take the digests off images that have a tag; a digest that the package was built with stays."""
    env = layout.env(overlay)
    built = {(line.key, line.value) for line in envfile.lines(files.package.sealed(env) or b"")}
    for key in _own_images(files, overlay).values():
        image = parse(value(files, overlay, key) or "")
        if image and image.tag and image.digest and (key, str(image)) not in built:
            files.assign(env, key, str(replace(image, digest="")))


def _problem(files: Files, image: LockedImage) -> Problem:
    env = layout.env(image.overlay)
    key = {bare(own): key for own, key in _own_images(files, image.overlay).items()}.get(bare(image.image))
    line = next((line.number for line in envfile.lines(files.read(env)) if line.key == key), 0)
    now = f"is {image.digest} now"
    message = f"{image.overlay} pulls {image.image} by its tag, which {now}"
    if image.locked is not None:
        message = f"{image.overlay} pulls {image.image} as {image.locked}; the tag {now}"
    return Problem(files.package.shown(env), line, min(line, 1), message)

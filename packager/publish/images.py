"""Looks up images of containers in their registries: the digest that a tag has, and its platforms."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base.errors import UsageError
from packager.base.names import IMAGE, split_registry
from packager.base.problems import show, similar
from packager.base.values import Value
from packager.publish import manifest
from packager.publish.manifest import Platform
from packager.publish.reference import parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.publish.manifest import Manifest
    from packager.publish.reference import PackageReference
    from packager.publish.registry import Repository

_DEFAULT_HOST = "docker.io"
_DEFAULT_TAG = "latest"
_PLATFORM = re.compile(r"[a-z0-9]{1,32}/[a-z0-9]{1,32}(/[a-z0-9.]{1,32})?")


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
            listed = ", ".join(self.platforms)
            message = f"--platform {platform}: the image is for {listed}"
            raise UsageError(message, hint=similar(platform, self.platforms))
        return self.platforms[platform]

    def has(self, digest: str) -> bool:
        """Whether a digest is that of the manifest or the index, or of a manifest in the index."""
        return digest == self.digest or digest in self.platforms.values()


def check_platform(platform: str) -> None:
    """Refuse a platform that no image has. Raises UsageError."""
    if not _PLATFORM.fullmatch(platform):
        raise UsageError(f"--platform {platform}: expected OS/ARCHITECTURE, such as linux/amd64")


def image_reference(image: str) -> PackageReference:
    """Return the reference to an image, with the registry and the tag that container runtimes take by default."""
    if not re.fullmatch(IMAGE, image):
        raise UsageError(f"expected an image such as registry.example.com/team/model:1.0, found {show(image)}")
    reference = parse(f"oci://{image}" if split_registry(image)[0] else f"oci://{_DEFAULT_HOST}/{image}")
    return reference if reference.version else parse(f"{reference}:{_DEFAULT_TAG}")


def look_up(registry: Repository, reference: PackageReference) -> ImageManifest:
    """Return the manifest that an image has now."""
    content, digest = registry.manifest(reference.version or _DEFAULT_TAG)
    return ImageManifest(digest, dict(_platforms(manifest.read(content, str(reference)))))


def _platforms(index: Manifest) -> Iterator[tuple[str, str]]:
    """Yield the platforms of an index with their digests; those for no platform, such as signatures, are left out."""
    for entry in index.manifests or ():
        platform = entry.platform or Platform()
        name = "/".join(part for part in (platform.os, platform.architecture, platform.variant) if part)
        if _PLATFORM.fullmatch(name) and "unknown" not in name:
            yield name, entry.digest


def check_pushable(image: str) -> None:
    """Refuse to push to a registry that no cluster can pull from."""
    if "@" in image:
        raise UsageError(f"{image} has a digest: it is in its registry already", hint="nothing has to be pushed")
    host = image.partition("/")[0]
    if host == "localhost":
        raise UsageError(
            f"{image} has no registry: localhost is this machine",
            hint="mlpack configure --registry HOST, or --registry HOST",
        )

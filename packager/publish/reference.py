"""Reads references to packages in registries, `oci://HOST[:PORT]/REPOSITORY[:TAG][@sha256:HEX]`, and to images.

What is a path may also be that of a bundle.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, TypeGuard

from packager.base.errors import UsageError
from packager.base.names import IMAGE, IMAGE_PATH, TAG, split_registry
from packager.base.problems import show
from packager.base.values import Value

if TYPE_CHECKING:
    from pathlib import Path

OCI = "oci://"

_LONGEST_REPOSITORY = 255
_HEX = r"[0-9a-f]{64}"
_HOST = r"(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[1-9][0-9]{0,4})?"
_REFERENCE = re.compile(
    rf"(?P<host>{_HOST})/(?P<repository>{IMAGE_PATH})(?::(?P<tag>{TAG}))?(?:@(?P<digest>sha256:{_HEX}))?"
)
_DIGEST = re.compile(f"sha256:{_HEX}")
_TAG = re.compile(TAG)

_DOCKER_HUB = "docker.io"
_DOCKER_HUB_API = "registry-1.docker.io"
_DOCKER_HUB_LIBRARY = "library/"
_DEFAULT_TAG = "latest"
_PLATFORM = re.compile(r"[a-z0-9]{1,32}/[a-z0-9]{1,32}(/[a-z0-9.]{1,32})?")


class PackageReference(Value, frozen=True):
    """A reference to a package in a registry."""

    host: str  # the host as people name it, with the port if it is not the default port
    repository: str
    tag: str | None = None  # the tag; None without one
    digest: str | None = None  # the digest of the manifest; None without one. It takes precedence over the tag

    @property
    def version(self) -> str | None:
        """The digest or the tag of the manifest; None if the reference has neither."""
        return self.digest or self.tag

    @property
    def base(self) -> str:
        """The reference without tag and digest."""
        return f"{OCI}{self.host}/{self.repository}"

    @property
    def api_host(self) -> str:
        """The host that serves the API; Docker Hub's has another name."""
        return _DOCKER_HUB_API if self.host == _DOCKER_HUB else self.host

    def pinned(self, digest: str) -> str:
        """Return the reference with a digest, which always identifies the same package."""
        return f"{self.base}@{digest}"

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.base}{tag}{f'@{self.digest}' if self.digest else ''}"


def is_reference(text: str) -> bool:
    """Whether a text names a package in a registry rather than a path."""
    return text.startswith(OCI)


def is_digest(text: object) -> TypeGuard[str]:
    """Whether a value is a digest that this program computes."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


def dashed(digest: str) -> str:
    """Return a digest as tags and names of files can have it: `sha256-HEX`."""
    return digest.replace(":", "-")


def is_tag(text: str) -> bool:
    """Whether a text can be a tag."""
    return _TAG.fullmatch(text) is not None


def parse(text: str) -> PackageReference:
    """Return the reference in `oci://…`. Raises UsageError."""
    match = _REFERENCE.fullmatch(text.removeprefix(OCI)) if is_reference(text) else None
    if match is None or len(match["repository"]) > _LONGEST_REPOSITORY:
        raise UsageError(
            f"invalid reference {show(text)}: expected oci://HOST/REPOSITORY:TAG or oci://HOST/REPOSITORY@sha256:…",
            hint="for example oci://registry.example.com/team/model:1.0",
        )
    host, repository = match["host"].lower(), match["repository"]
    if host == _DOCKER_HUB and "/" not in repository:
        repository = f"{_DOCKER_HUB_LIBRARY}{repository}"
    return PackageReference(host, repository, match["tag"], match["digest"])


def is_bundle(path: Path) -> bool:
    """Whether a file is a tar that is not compressed, as bundles are and packages are not; False if it is missing.

    A file that cannot be read is reported by what reads the package.
    """
    with suppress(OSError):
        if path.is_file():
            with path.open("rb") as stream:
                return stream.read(512)[257:262] == b"ustar"
    return False


def image_reference(image: str) -> PackageReference:
    """Return the reference to an image, with the registry and the tag that container runtimes take by default."""
    if not re.fullmatch(IMAGE, image):
        raise UsageError(f"expected an image such as registry.example.com/team/model:1.0, found {show(image)}")
    reference = parse(f"{OCI}{image}" if split_registry(image)[0] else f"{OCI}{_DOCKER_HUB}/{image}")
    return reference if reference.version else parse(f"{reference}:{_DEFAULT_TAG}")


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


def is_platform(text: str) -> bool:
    """Whether a text is a platform: `OS/ARCHITECTURE`, perhaps with a variant."""
    return _PLATFORM.fullmatch(text) is not None


def check_platform(platform: str) -> None:
    """Refuse a platform that no image has. Raises UsageError."""
    if not is_platform(platform):
        raise UsageError(f"--platform {platform}: expected OS/ARCHITECTURE, such as linux/amd64")

"""Builds and pushes a package's image with a tool that is installed on this machine."""

from __future__ import annotations

import re
import shlex
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packager.base import process
from packager.base.errors import ToolError, UsageError, VerificationError
from packager.base.names import IMAGE
from packager.base.paths import argument
from packager.base.values import Value
from packager.builder.plan import Options, check_options
from packager.cluster import manifests
from packager.configure.settings import Files, value
from packager.kubernetes.manifest import Manifest, mapping
from packager.package.opened import chosen_overlays, opened
from packager.publish.reference import check_pushable
from packager.rendering import render
from packager.workloads import structures
from packager.workloads.pods import BUILT_ELSEWHERE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.base.process import Runner
    from packager.package.opened import Package

BUILDERS = ("docker", "podman", "buildah")
"""The builders in the order in which they are looked for. All take the same arguments for building and pushing."""


class ImageRequest(Value, frozen=True):
    """The image to build or push, and the tool to use."""

    package: Path  # a folder or an archive
    runner: Runner
    overlay: str | None = None  # None for all overlays
    registry: str | None = None  # replaces the package's; None for the package's
    program: str | None = None  # the builder; None for the first one of this machine
    kubectl: str = "kubectl"
    arguments: tuple[str, ...] = ()  # more arguments for the builder


class ImagePlan(Value, frozen=True):
    """The commands that build or push a package's images."""

    program: str  # the builder
    images: tuple[str, ...]  # the names of the image in the package's pods
    others: Mapping[str, str]  # the images that are built elsewhere, each with a workload that uses it
    commands: tuple[tuple[str, ...], ...]  # one that builds all images, or one that pushes each
    shown: tuple[str, ...]  # the shell commands that do the same, with the path that the user named

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {"builder": self.program, "images": list(self.images), "commands": list(self.shown)}


@contextmanager
def build(request: ImageRequest) -> Iterator[ImagePlan]:
    """Give the command that builds the image from the package's Dockerfile; it can be run inside the block."""
    check_options(Options(registry=request.registry))
    with opened(request.package) as package:
        if not (package.folder / "Dockerfile").is_file():
            message = f"{package.source} contains no Dockerfile: its image is built elsewhere"
            raise UsageError(message, hint="pull it")
        images, others = _names(package, request)
        program = _builder(request.program)
        tags = [f"--tag={image}" for image in images]
        command = (program, "build", *tags, *request.arguments, "--")
        steps: tuple[tuple[str, ...], ...] = ((*command, argument(package.folder)),)
        if not package.source.is_dir():  # who types it unpacks the archive into a new folder first
            folder = Path(f"{package.name}.context")
            unpack = ("tar", "-xzf", argument(package.source), "-C", str(folder))
            steps = (("mkdir", str(folder)), unpack, (*command, argument(folder / package.top)))
        shown = " && ".join(shlex.join(step) for step in steps)
        yield ImagePlan(program, images, others, ((*command, argument(package.folder)),), (shown,))


def push(request: ImageRequest) -> ImagePlan:
    """Return the commands that push the package's images; no Dockerfile is needed. Raises the errors of `build`."""
    check_options(Options(registry=request.registry))
    with opened(request.package) as package:
        images, others = _names(package, request)
    for image in images:
        check_pushable(image)
    program = _builder(request.program)
    commands = tuple((program, "push", *request.arguments, "--", image) for image in images)
    return ImagePlan(program, images, others, commands, tuple(map(shlex.join, commands)))


def _builder(requested: str | None) -> str:
    """Return the first builder of this machine, or the one that the user selects."""
    program = requested or next(filter(process.find, BUILDERS), None)
    if program is None:
        message = f"no program to build images: none of {', '.join(BUILDERS)} is installed"
        raise ToolError(message, hint="install podman or buildah, which need no daemon")
    return program


def _names(package: Package, request: ImageRequest) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the names of the package's image in its overlays, and other images, each with a workload that uses it."""
    package_images: dict[str, None] = {}
    further_images: dict[str, str] = {}
    for overlay in chosen_overlays(package, request.overlay):
        sources = render.read(package, overlay)
        rendered = render.kubectl(package, overlay, sources, request.kubectl, request.runner)
        applied = manifests.load(rendered.manifests, f"{package.source}, {overlay}", f"{package.name}-{overlay}")
        containers = [one.kind.pod_template(one.workload)["containers"] for one in applied.per_workload]
        image, *further = [str(listed[0]["image"]) for listed in containers]  # of the computing pods
        users = [one.shown for one in applied.per_workload[1:]]
        pods = structures.pods(Manifest(applied.workload))
        if any(BUILT_ELSEWHERE in mapping(one.metadata.get("annotations")) for one in pods):
            further_images[image] = applied.per_workload[0].shown
            continue
        further_images |= {other: user for other, user in zip(further, users, strict=True) if other != image}
        if request.registry is not None:
            prefix = f"{value(Files(package), overlay, 'REGISTRY')}/"
            image = f"{request.registry}/{image.removeprefix(prefix)}"
        if not re.fullmatch(IMAGE, image):
            raise VerificationError(f"{package.source}, {overlay}: expected an image name, found {image!r}")
        package_images[image] = None
    others = {image: workload for image, workload in further_images.items() if image not in package_images}
    if not package_images:
        message = f"{package.source}: the image is built elsewhere: {', '.join(others)}"
        raise UsageError(message, hint="choose another overlay")
    return tuple(package_images), others

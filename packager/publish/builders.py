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
from packager.publish.images import check_pushable
from packager.rendering import render
from packager.workloads import structures
from packager.workloads.pods import BUILT_ELSEWHERE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.base.runner import Runner
    from packager.cluster.manifests import Manifests
    from packager.package.opened import Package

BUILDERS = ("docker", "podman", "buildah")
"""The builders in the order in which they are tried. All take the same arguments for building and pushing."""

_SECONDS = 15.0


class ImageRequest(Value, frozen=True):
    """The image to build or push, and the tool to use."""

    package: Path  # a folder or an archive
    runner: Runner
    overlay: str | None = None  # None for all overlays
    registry: str | None = None  # replaces the package's; None for the package's
    program: str | None = None  # the builder; None for the first one that works on this machine
    kubectl: str = "kubectl"
    arguments: tuple[str, ...] = ()  # more arguments for the builder


class ImagePlan(Value, frozen=True):
    """The commands that build or push a package's images."""

    program: str  # the builder
    rejected: tuple[str, ...]  # for each builder before it, the reason why it was skipped
    images: tuple[str, ...]  # the names of the image in the package's pods
    others: Mapping[str, str]  # the images that are built elsewhere, each with a workload that uses it
    commands: tuple[tuple[str, ...], ...]  # one that builds all images, or one that pushes each
    shown: tuple[str, ...]  # the shell commands that do the same, with the path that the user named
    printed: tuple[tuple[str, ...], ...]  # the commands for messages, with this path

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
        program, rejected = _builder(request.program, request.runner)

        def command(context: Path) -> tuple[str, ...]:
            tags = [f"--tag={image}" for image in images]
            return (program, "build", *tags, *request.arguments, "--", argument(context))

        argv, shown = command(package.folder), shlex.join(command(package.folder))
        if not package.source.is_dir():  # they unpack the archive into a new folder first
            folder = Path(f"{package.name}.context")
            unpack = ("tar", "-xzf", argument(package.source), "-C", str(folder))
            steps = (("mkdir", str(folder)), unpack, command(folder / package.top))
            shown = " && ".join(shlex.join(step) for step in steps)
        printed = tuple(word.replace(str(package.folder), str(package.source)) for word in argv)
        yield ImagePlan(program, rejected, images, others, (argv,), (shown,), (printed,))


def push(request: ImageRequest) -> ImagePlan:
    """Return the commands that push the package's images; no Dockerfile is needed. Raises the errors of `build`."""
    check_options(Options(registry=request.registry))
    with opened(request.package) as package:
        images, others = _names(package, request)
    for image in images:
        check_pushable(image)
    program, rejected = _builder(request.program, request.runner)
    commands = tuple((program, "push", *request.arguments, "--", image) for image in images)
    return ImagePlan(program, rejected, images, others, commands, tuple(map(shlex.join, commands)), commands)


def is_present(program: str, image: str, runner: Runner) -> bool:
    """Whether a builder has an image on this machine; True if it does not say."""
    look = ["inspect", "--type", "image"] if Path(program).name == "buildah" else ["image", "inspect"]
    try:
        return runner.run([program, *look, image], timeout=_SECONDS).returncode == 0
    except ToolError:
        return True


def _builder(requested: str | None, runner: Runner) -> tuple[str, tuple[str, ...]]:
    """Return the first builder that works on this machine, or the one that the user selects, and why not others."""
    if requested is not None:
        if process.find(requested) is None:
            raise ToolError(f"{requested}: program not found", hint=f"use one of {', '.join(BUILDERS)}")
        return requested, ()
    rejected = []
    for program in BUILDERS:
        if process.find(program) is None:
            continue
        try:
            # `info` fails without the daemon that docker needs for building.
            done = runner.run([program, "info"], timeout=_SECONDS)
        except ToolError as error:
            rejected.append(str(error))
            continue
        if done.returncode == 0:
            return program, tuple(rejected)
        lines = done.stderr.strip().splitlines()
        rejected.append(f"{program} does not work here: {lines[-1] if lines else f'exit code {done.returncode}'}")
    tried = "; ".join(rejected) or f"none of {', '.join(BUILDERS)} is installed"
    raise ToolError(f"no program to build images: {tried}", hint="install podman or buildah, which need no daemon")


def _names(package: Package, request: ImageRequest) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the names of the package's image in its overlays, and other images, each with a workload that uses it."""
    package_images: dict[str, None] = {}
    further_images: dict[str, str] = {}
    for overlay in chosen_overlays(package, request.overlay):
        sources = render.read(package, overlay)
        rendered = render.kubectl(package, overlay, sources, request.kubectl, request.runner)
        applied = manifests.load(rendered.manifests, f"{package.source}, {overlay}", f"{package.name}-{overlay}")
        image, *further = [_image(one) for one in applied.per_workload]
        users = [one.shown for one in applied.per_workload[1:]]
        if _is_built_elsewhere(applied):
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


def _image(applied: Manifests) -> str:
    """Return the image of the main workload's computing pods."""
    return str(applied.kind.pod_template(applied.workload)["containers"][0]["image"])


def _is_built_elsewhere(applied: Manifests) -> bool:
    """Return whether the overlay says that its main workload uses an image that is not built from the package."""
    annotations = (mapping(pods.metadata.get("annotations")) for pods in structures.pods(Manifest(applied.workload)))
    return any(BUILT_ELSEWHERE in those for those in annotations)

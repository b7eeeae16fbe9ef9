"""Builds and pushes a package's image with a tool that is installed on this machine."""

from __future__ import annotations

import re
import shlex
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packager.base import process
from packager.base.errors import ToolError, UsageError, VerificationError
from packager.base.names import IMAGE
from packager.base.paths import argument
from packager.builder.plan import Options, check_options
from packager.cluster import manifests
from packager.cluster.target import chosen_overlays
from packager.configure.settings import Files, value
from packager.kubernetes.manifest import Manifest, mapping
from packager.package.opened import opened
from packager.publish.images import check_pushable
from packager.rendering import render
from packager.workloads import structures
from packager.workloads.pods import BUILT_ELSEWHERE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from packager.base.runner import Runner
    from packager.cluster.manifests import Manifests
    from packager.package.opened import Package

BUILDERS = ("docker", "podman", "buildah")
"""The builders in the order in which they are tried. All take the same arguments for building and pushing."""

_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Builder:
    """A tool that builds and pushes images."""

    program: str  # a name on PATH, or a path
    rejected: tuple[str, ...] = ()  # for each builder before it, the reason why it was skipped

    def build(self, images: Sequence[str], context: Path, extra: Sequence[str] = ()) -> list[str]:
        """Return the command that builds the Dockerfile of `context` under the names `images`."""
        tags = [f"--tag={image}" for image in images]
        return [self.program, "build", *tags, *extra, "--", argument(context)]

    def push(self, image: str, extra: Sequence[str] = ()) -> list[str]:
        """Return the command that pushes `image`."""
        return [self.program, "push", *extra, "--", image]

    def has(self, image: str, runner: Runner) -> bool:
        """Return whether `image` is on this machine; True if the tool does not say."""
        look = ["inspect", "--type", "image"] if Path(self.program).name == "buildah" else ["image", "inspect"]
        try:
            return runner.run([self.program, *look, image], timeout=_SECONDS).returncode == 0
        except ToolError:
            return True


@dataclass(frozen=True, slots=True)
class ImageRequest:
    """The image to build or push, and the tool to use."""

    package: Path  # a folder or an archive
    runner: Runner  # starts programs
    overlay: str | None = None  # the overlay that uses the image; None for all overlays
    registry: str | None = None  # the registry that replaces the package's; None for the package's
    program: str | None = None  # the builder; None for the first one that works on this machine
    kubectl: str = "kubectl"  # the kubectl that renders the overlays
    arguments: tuple[str, ...] = ()  # more arguments for the builder


@dataclass(frozen=True, slots=True)
class Images:
    """The images that the workloads of a package use."""

    own: tuple[str, ...]  # the names of the package's image in the main workload of each overlay
    others: Mapping[str, str]
    """The images of further workloads, each with a workload that uses it; they are not built from the package."""


@dataclass(frozen=True, slots=True)
class Build:
    """The command that builds a package's image."""

    images: tuple[str, ...]  # the names of the image in the package's pods
    others: Mapping[str, str]
    """The images of further workloads, which are built elsewhere, each with a workload that uses it."""
    command: tuple[str, ...]  # the command that builds the image
    shown: tuple[str, ...]  # the command for messages, in which the package has the path that the user named
    manual_command: str  # the shell commands that do the same
    builder: Builder  # the tool that builds

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {"builder": self.builder.program, "images": list(self.images), "commands": [self.manual_command]}


@dataclass(frozen=True, slots=True)
class Push:
    """The commands that push a package's images."""

    commands: Mapping[str, tuple[str, ...]]  # the command that pushes each image, by the image's name
    others: Mapping[str, str]
    """The images of further workloads, which are pushed elsewhere, each with a workload that uses it."""
    builder: Builder  # the tool that pushes

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        commands = [shlex.join(command) for command in self.commands.values()]
        return {"builder": self.builder.program, "images": list(self.commands), "commands": commands}


@contextmanager
def build(request: ImageRequest) -> Iterator[Build]:
    """Give the command that builds the image from the package's Dockerfile; it can be run inside the block.

    Raises:
        UsageError: There is no such package or overlay, or it contains no Dockerfile.
        VerificationError: An overlay cannot be rendered safely to read the image's name.
        ToolError: No builder works on this machine.
    """
    check_options(Options(registry=request.registry))
    with opened(request.package) as package:
        dockerfile(package)
        images = names(package, chosen_overlays(package, request.overlay), request)
        _check_own(package, images)
        tool = builder(request.program, request.runner)
        command = tool.build(images.own, package.folder, request.arguments)
        shown = tuple(word.replace(str(package.folder), str(package.source)) for word in command)
        manual_command = _manual_command(package, lambda context: tool.build(images.own, context, request.arguments))
        yield Build(images.own, images.others, tuple(command), shown, manual_command, tool)


def push(request: ImageRequest) -> Push:
    """Return the commands that push the package's images; no Dockerfile is needed. Raises the errors of `build`."""
    check_options(Options(registry=request.registry))
    with opened(request.package) as package:
        images = names(package, chosen_overlays(package, request.overlay), request)
        _check_own(package, images)
    for image in images.own:
        check_pushable(image)
    tool = builder(request.program, request.runner)
    commands = {image: tuple(tool.push(image, request.arguments)) for image in images.own}
    return Push(commands, images.others, tool)


def _check_own(package: Package, images: Images) -> None:
    if not images.own:
        message = f"{package.source}: the image is built elsewhere: {', '.join(images.others)}"
        raise UsageError(message, hint="choose another overlay")


def _manual_command(package: Package, command: Callable[[Path], list[str]]) -> str:
    """Return the shell commands that do the same; they unpack an archive into a new folder first."""
    if package.source.is_dir():
        return shlex.join(command(package.folder))
    folder = Path(f"{package.name}.context")
    unpack = (["mkdir", str(folder)], ["tar", "-xzf", argument(package.source), "-C", str(folder)])
    return " && ".join(shlex.join(argv) for argv in (*unpack, command(folder / package.top)))


def builder(requested: str | None, runner: Runner) -> Builder:
    """Return the first builder that works on this machine, or the one that the user selects.

    Raises:
        ToolError: No builder works on this machine.
    """
    if requested is not None:
        if process.find(requested) is None:
            raise ToolError(f"{requested}: program not found", hint=f"use one of {', '.join(BUILDERS)}")
        return Builder(requested)
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
            return Builder(program, tuple(rejected))
        lines = done.stderr.strip().splitlines()
        rejected.append(f"{program} does not work here: {lines[-1] if lines else f'exit code {done.returncode}'}")
    tried = "; ".join(rejected) or f"none of {', '.join(BUILDERS)} is installed"
    raise ToolError(f"no program to build images: {tried}", hint="install podman or buildah, which need no daemon")


def names(package: Package, overlays: Sequence[str], request: ImageRequest) -> Images:
    """Return the images that the workloads of `overlays` use, as kubectl renders them.

    Args:
        package: The package.
        overlays: The names of the overlays.
        request: The kubectl that renders, and the registry that replaces REGISTRY.

    Raises:
        VerificationError: An overlay includes files from outside of the package, or an image name is invalid.
        RenderError: An overlay cannot be rendered.
        ToolError: kubectl is missing.
    """
    package_images: dict[str, None] = {}
    further_images: dict[str, str] = {}
    for overlay in overlays:
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
    return Images(
        tuple(package_images),
        {image: workload for image, workload in further_images.items() if image not in package_images},
    )


def _image(applied: Manifests) -> str:
    """Return the image of the main workload's computing pods."""
    return str(applied.kind.pod_template(applied.workload)["containers"][0]["image"])


def _is_built_elsewhere(applied: Manifests) -> bool:
    """Return whether the overlay says that its main workload uses an image that is not built from the package."""
    annotations = (mapping(pods.metadata.get("annotations")) for pods in structures.pods(Manifest(applied.workload)))
    return any(BUILT_ELSEWHERE in those for those in annotations)


def dockerfile(package: Package) -> Path:
    """Return the package's Dockerfile.

    Raises:
        UsageError: The package contains no Dockerfile.
    """
    path = package.folder / "Dockerfile"
    if not path.is_file():
        raise UsageError(f"{package.source} contains no Dockerfile: its image is built elsewhere", hint="pull it")
    return path

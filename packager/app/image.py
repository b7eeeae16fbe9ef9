"""Builds and pushes a package's image with a tool that is installed on this machine."""

from __future__ import annotations

import re
import shlex
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packager.app.target import chosen_overlays
from packager.base import process
from packager.base.errors import ToolError, UsageError, VerificationError
from packager.base.names import IMAGE
from packager.base.paths import argument
from packager.build.plan import Options, check_options
from packager.cluster import manifests
from packager.configure.settings import Files, value
from packager.kubernetes.manifest import Manifest, mapping
from packager.package.opened import opened
from packager.rendering import render
from packager.workloads import structures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from packager.base.runner import Runner
    from packager.cluster.manifests import Manifests
    from packager.package.opened import Package

BUILDERS = ("docker", "podman", "buildah")
"""In the order in which they are tried. All of them take the same arguments for what is used here."""

_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Builder:
    """A tool that builds and pushes images.

    Attributes:
        program: A name on PATH, or a path.
        rejected: Why each of those before it was not taken.
    """

    program: str
    rejected: tuple[str, ...] = ()

    def build(self, images: Sequence[str], context: Path, extra: Sequence[str] = ()) -> list[str]:
        """Return the command that builds the Dockerfile of `context` under the names `images`."""
        tags = [f"--tag={image}" for image in images]
        return [self.program, "build", *tags, *extra, "--", argument(context)]

    def push(self, image: str, extra: Sequence[str] = ()) -> list[str]:
        """Return the command that pushes `image`."""
        return [self.program, "push", *extra, "--", image]


@dataclass(frozen=True, slots=True)
class ImageRequest:
    """The image to build or push, and the tool to use.

    Attributes:
        package: A folder or an archive.
        overlay: Whose image; of all overlays when None.
        registry: In place of the package's.
        program: What builds and pushes; what works here when None.
        runner: What starts programs.
        kubectl: What renders.
        arguments: More for the program.
    """

    package: Path
    runner: Runner
    overlay: str | None = None
    registry: str | None = None
    program: str | None = None
    kubectl: str = "kubectl"
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Images:
    """The images that the workloads of a package use.

    Attributes:
        own: The names of the package's image: what the main workload of each overlay calls it.
        others: The images of further workloads, each with one that uses it. They are none of the package's.
    """

    own: tuple[str, ...]
    others: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Build:
    """How a package's image is built.

    Attributes:
        images: Its names, as the package's pods call it.
        others: The images of further workloads, which are built elsewhere, each with a workload that uses it.
        command: What builds it.
        shown: The same, with the package called as the user calls it.
        manual_command: What can be typed to the same end.
        builder: What builds.
    """

    images: tuple[str, ...]
    others: Mapping[str, str]
    command: tuple[str, ...]
    shown: tuple[str, ...]
    manual_command: str
    builder: Builder

    def as_json(self) -> dict[str, Any]:
        """Return it for `-o json`."""
        return {"builder": self.builder.program, "images": list(self.images), "commands": [self.manual_command]}


@dataclass(frozen=True, slots=True)
class Push:
    """How a package's images are pushed.

    Attributes:
        commands: What pushes each image, by its name.
        others: The images of further workloads, which are pushed elsewhere, each with a workload that uses it.
        builder: What pushes.
    """

    commands: Mapping[str, tuple[str, ...]]
    others: Mapping[str, str]
    builder: Builder

    def as_json(self) -> dict[str, Any]:
        """Return it for `-o json`."""
        commands = [shlex.join(command) for command in self.commands.values()]
        return {"builder": self.builder.program, "images": list(self.commands), "commands": commands}


@contextmanager
def build(request: ImageRequest) -> Iterator[Build]:
    """Give the command that builds the image from the package's Dockerfile; it can be run inside the block.

    Raises:
        UsageError: There is no such package or overlay, or it contains no Dockerfile.
        VerificationError: An overlay cannot be rendered safely to read the image's name.
        ToolError: Nothing here builds images.
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
    """Return the commands that push the package's images. Raises as `build` does, but needs no Dockerfile."""
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
    """Return what can be typed: an archive is unpacked first, into a new folder, in which nothing of the user's is."""
    if package.source.is_dir():
        return shlex.join(command(package.folder))
    folder = Path(f"{package.name}.context")
    unpack = (["mkdir", str(folder)], ["tar", "-xzf", argument(package.source), "-C", str(folder)])
    return " && ".join(shlex.join(words) for words in (*unpack, command(folder / package.top)))


def builder(requested: str | None, runner: Runner) -> Builder:
    """Return the first builder that works on this machine, or the one that the user selects.

    Raises:
        ToolError: There is none.
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
            # `info` asks the daemon where there is one: docker's client alone builds nothing.
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
        overlays: Their names.
        request: What renders, and the registry in place of REGISTRY.

    Raises:
        VerificationError: An overlay draws in what is not in the package, or calls its image what no image is called.
        RenderError: An overlay cannot be rendered.
        ToolError: kubectl is missing.
    """
    own: dict[str, None] = {}
    others: dict[str, str] = {}
    for overlay in overlays:
        sources = render.read(package, overlay)
        rendered = render.kubectl(package, overlay, sources, request.kubectl, request.runner)
        applied = manifests.load(rendered.manifests, f"{package.source}, {overlay}", f"{package.name}-{overlay}")
        image, *further = [_image(one) for one in applied.per_workload]
        users = [one.shown for one in applied.per_workload[1:]]
        if _is_built_elsewhere(applied):
            others[image] = applied.per_workload[0].shown
            continue
        others |= {other: user for other, user in zip(further, users, strict=True) if other != image}
        if request.registry is not None:
            prefix = f"{value(Files(package), overlay, 'REGISTRY')}/"
            image = f"{request.registry}/{image.removeprefix(prefix)}"
        if not re.fullmatch(IMAGE, image):
            raise VerificationError(f"{package.source}, {overlay}: expected an image name, found {image!r}")
        own[image] = None
    return Images(tuple(own), {image: workload for image, workload in others.items() if image not in own})


def _image(applied: Manifests) -> str:
    """Return the image of the pods in which the main workload computes."""
    return str(applied.kind.pod_template(applied.workload)["containers"][0]["image"])


def _is_built_elsewhere(applied: Manifests) -> bool:
    """Whether the main workload has an image that is not the package's, as its overlay says."""
    annotations = (mapping(pods.metadata.get("annotations")) for pods in structures.pods(Manifest(applied.workload)))
    return any("mlpack/image" in those for those in annotations)


def dockerfile(package: Package) -> Path:
    """Return the package's Dockerfile.

    Raises:
        UsageError: It contains none.
    """
    path = package.folder / "Dockerfile"
    if not path.is_file():
        raise UsageError(f"{package.source} contains no Dockerfile: its image is built elsewhere", hint="pull it")
    return path


def check_pushable(image: str) -> None:
    """Refuse to push to a registry that no cluster can pull from.

    Raises:
        UsageError: The image has no registry but this machine.
    """
    if "@" in image:
        raise UsageError(f"{image} has a digest: it is in its registry already", hint="nothing has to be pushed")
    host = image.partition("/")[0]
    if host == "localhost":
        raise UsageError(
            f"{image} has no registry: localhost is this machine",
            hint="mlpack configure --registry HOST, or --registry HOST",
        )

"""The package's image: what it is called, and what builds and pushes it, with the tools that this machine has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager import process
from packager.cluster import manifests
from packager.errors import ToolError, UsageError
from packager.kubectl import kustomize
from packager.settings import Files, value

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from packager.package import Package

BUILDERS = ("docker", "podman", "buildah")
"""In the order in which they are tried. All of them take the same words for what is asked of them here."""

_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Builder:
    """What builds and pushes.

    Attributes:
        program: A name on PATH, or a path.
        passed_over: Why each of those before it was not taken.
    """

    program: str
    passed_over: tuple[str, ...] = ()

    def build(self, images: Sequence[str], context: Path, extra: Sequence[str] = ()) -> list[str]:
        """Return the command that builds the Dockerfile of `context` under the names `images`."""
        tags = [part for image in images for part in ("--tag", image)]
        return [self.program, "build", *tags, *extra, str(context)]

    def push(self, image: str, extra: Sequence[str] = ()) -> list[str]:
        """Return the command that pushes `image`."""
        return [self.program, "push", *extra, image]


def builder(asked: str | None = None) -> Builder:
    """Return the first builder that works here, or the one that the user asks for.

    Raises:
        ToolError: There is none.
    """
    if asked is not None:
        if process.find(asked) is None:
            raise ToolError(f"{asked}: no such program", hint=f"one of {', '.join(BUILDERS)}")
        return Builder(asked)
    passed_over = []
    for program in BUILDERS:
        if process.find(program) is None:
            continue
        try:
            # `info` asks the daemon where there is one: docker's client alone builds nothing.
            done = process.run([program, "info"], timeout=_SECONDS)
        except ToolError as error:
            passed_over.append(str(error))
            continue
        if done.returncode == 0:
            return Builder(program, tuple(passed_over))
        said = done.stderr.strip().splitlines()
        passed_over.append(f"{program} does not work here: {said[-1] if said else f'exit code {done.returncode}'}")
    found = "; ".join(passed_over) or f"none of {', '.join(BUILDERS)} is installed"
    raise ToolError(f"nothing here builds images: {found}", hint="install podman or buildah, which need no daemon")


def names(package: Package, overlays: Sequence[str], *, registry: str | None, kubectl: str) -> tuple[str, ...]:
    """Return what the workloads of `overlays` call their image, as kubectl renders them.

    Args:
        package: The package.
        overlays: Their names.
        registry: In place of REGISTRY.
        kubectl: What renders.

    Raises:
        RenderError: An overlay cannot be rendered.
        ToolError: kubectl is missing.
    """
    found: dict[str, None] = {}
    for overlay in overlays:
        rendered = kustomize(package.overlay(overlay), program=kubectl)
        applied = manifests.load(rendered.manifests, f"{package.source}, {overlay}")
        image = str(applied.engine.pod_template(applied.workload)["containers"][0]["image"])
        if registry is not None:
            prefix = f"{value(Files(package), overlay, 'REGISTRY')}/"
            image = f"{registry}/{image.removeprefix(prefix)}"
        found[image] = None
    return tuple(found)


def dockerfile(package: Package) -> Path:
    """Return the package's Dockerfile.

    Raises:
        UsageError: It brings none.
    """
    path = package.folder / "Dockerfile"
    if not path.is_file():
        raise UsageError(f"{package.source} brings no Dockerfile: its image is somebody else's", hint="pull it")
    return path


def check_pushable(image: str) -> None:
    """Refuse to push to a registry that no cluster can pull from.

    Raises:
        UsageError: The image has no registry but this machine.
    """
    host = image.partition("/")[0]
    if host == "localhost":
        raise UsageError(
            f"{image} names no registry, only this machine", hint="mlpack configure --registry HOST, or --registry HOST"
        )

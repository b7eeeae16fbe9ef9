"""The types of a model spec: the one definition that validation, JSON Schema and documentation come from."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from packager.kinds import AnyOverlay
from packager.spec.fields import (
    EnvironmentKey,
    EnvironmentText,
    Fields,
    ImageName,
    ImageTag,
    Label,
    OneLine,
    Parameter,
    Registry,
    RelativePath,
    Tag,
    Text,
    UseCase,
)

# Written out, not `Parameter | EnvironmentValue`: msgspec resolves a union only when its members stand side by side.
Environment = Annotated[
    dict[EnvironmentKey, Parameter | EnvironmentText | int | float | bool],
    Meta(description="What goes into mlops.env: KEY: value, or KEY: {value: …, description: …}."),
]


class Image(Fields, frozen=True):
    """The container image that the workload runs in."""

    name: Annotated[ImageName, Meta(description="The image's repository, without its registry.")]
    tag: Annotated[ImageTag, Meta(description="The image's tag; quote one that looks like a number.")]
    registry: Annotated[Registry, Meta(description="Where it is pulled from: the value of REGISTRY in mlops.env.")] = (
        "docker.io"
    )
    dockerfile: Annotated[
        RelativePath | None,
        Meta(
            description="The Dockerfile that builds the image. It travels in the package, whose root is its context: "
            "the model's files are in quickstart/scripts."
        ),
    ] = None


class Variant(Fields, frozen=True):
    """One thing that the model can do; each variant becomes a package of its own."""

    script: Annotated[RelativePath, Meta(description="One of `files`: what a process (a rank) runs.")]
    precision: Annotated[Tag | None, Meta(description="What --precision selects; part of the package's name.")] = None
    mode: Annotated[Tag | None, Meta(description="What --mode selects; part of the package's name.")] = None
    overlays: Annotated[
        Annotated[list[Label], Meta(min_length=1)] | None,
        Meta(description="Which of the overlays this variant has; without it, all."),
    ] = None
    environment: Environment = {}

    @property
    def label(self) -> str:
        """The variant's name among its siblings: `fp32 training`."""
        return " ".join(part for part in (self.precision, self.mode) if part) or "default"


class Spec(Fields, frozen=True):
    """A model: what it is called, which image it runs in, which files it brings, and in which variants."""

    name: Annotated[Label, Meta(description="What `mlpack build` calls the model.")]
    title: Annotated[OneLine, Meta(description="The model's name for people.")]
    framework: Annotated[Label, Meta(description="The folder below quickstart/common.", examples=["tensorflow"])]
    image: Image
    files: Annotated[
        list[RelativePath],
        Meta(
            description="The code: it travels in a ConfigMap, at most 200 KiB, so what is untarred is what runs.",
            min_length=1,
            examples=[["train.sh"]],
        ),
    ]
    overlays: Annotated[
        dict[Label, AnyOverlay],
        Meta(
            description="The ways to run it, by the name of the overlay's folder.",
            min_length=1,
            examples=[{"single-node": {"kind": "Pod"}}],
        ),
    ]
    variants: Annotated[
        list[Variant],
        Meta(
            description="What it can do; the first is what a plain build builds.",
            min_length=1,
            examples=[[{"script": "train.sh"}]],
        ),
    ]
    package: Annotated[Label | None, Meta(description="How package names begin; without it, `name`.")] = None
    aliases: Annotated[list[Label], Meta(description="Other names for `mlpack build`.")] = []
    description: Annotated[Text, Meta(description="What the README says the model is.")] = ""
    use_case: Annotated[
        UseCase | None,
        Meta(description="What it is for, such as image_recognition; a label on the workload."),
    ] = None
    environment: Environment = {}
    assets: Annotated[
        list[RelativePath],
        Meta(
            description="Files and folders of any size that travel in the package under `assets`, "
            "and reach the container when the package lies on storage that the cluster mounts.",
        ),
    ] = []

    def package_name(self, variant: Variant) -> str:
        """Return the name of `variant`'s package: `resnet50v1-5-fp32-training`."""
        return "-".join(part for part in (self.package or self.name, variant.precision, variant.mode) if part)

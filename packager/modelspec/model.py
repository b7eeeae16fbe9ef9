"""The types of a model spec: the one definition that validation, JSON Schema and documentation come from.

Tests: modelspec/test_load.py.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated

from packager.base.fields import (
    AssetPath,
    Digest,
    Download,
    Environment,
    FetchedFile,
    FilePattern,
    ImageName,
    ImageTag,
    Label,
    OneLine,
    Parameter,
    Registry,
    RelativePath,
    Resources,
    Secrets,
    Section,
    Tag,
    Text,
    UseCase,
    Version,
)
from packager.base.values import Fields, Meta, replace
from packager.base.yamlio import Location
from packager.package.layout import MAX_OVERLAYS
from packager.workloads.deployment.values import Deployment
from packager.workloads.job.values import Job
from packager.workloads.jobset.values import JobSet
from packager.workloads.leaderworkerset.values import LeaderWorkerSet
from packager.workloads.mpijob.values import MPIJob
from packager.workloads.overlay import ClaimName, PrebuiltImage
from packager.workloads.pod.values import Pod
from packager.workloads.program import Args, Init, Run, Scripts, Workdir

AnyOverlay = Pod | Job | MPIJob | JobSet | Deployment | LeaderWorkerSet
"""The types that an overlay may have in a spec, one for each kind."""

REQUIREMENTS: Environment = {
    "PYTHONPATH": Parameter(value="/home/mlpack/packages", description="A link to the packages of the requirements."),
    "PIP_INDEX_URL": Parameter(value="", description="The index to install them from; empty for that of the image."),
    "PIP_FIND_LINKS": Parameter(value="", description="A folder or a page with files of packages, beside the index."),
}
"""The variables of variants with `requirements`."""


class Image(Fields, frozen=True):
    """The container image that the workload runs in."""

    name: Annotated[
        ImageName,
        Meta(description="The image's repository, without its registry: with tag and digest, IMAGE in mlops.env."),
    ]
    tag: Annotated[
        ImageTag | None,
        Meta(
            description="The image's tag; quote one that looks like a number. It may be left out where there is a "
            "`digest`."
        ),
    ] = None
    digest: Annotated[
        Digest | None,
        Meta(description="The digest of the image's manifest: no other is pulled. Not for a `dockerfile`'s image."),
    ] = None
    registry: Annotated[Registry, Meta(description="The registry to pull it from; becomes REGISTRY in mlops.env.")] = (
        "docker.io"
    )
    dockerfile: Annotated[
        RelativePath | None,
        Meta(
            description="The Dockerfile that builds the image. The package contains it, and the package's root is the "
            "build context: the model's files are in quickstart/scripts."
        ),
    ] = None

    @property
    def reference(self) -> str:
        """The name without the registry, with the tag and the digest."""
        return f"{self.name}{f':{self.tag}' if self.tag else ''}{f'@{self.digest}' if self.digest else ''}"


class Variant(Fields, frozen=True):
    """One precision and mode of the model. Each variant becomes a separate package."""

    script: Annotated[
        RelativePath | None,
        Meta(
            description="The program that each process (rank) runs: one of `files`. Without it, the overlays "
            "have a `script` or a `command`, or run the image's own entrypoint."
        ),
    ] = None
    scripts: Scripts = None
    args: Args = None
    workdir: Workdir = None
    init: Annotated[Init | None, Meta(description="What each pod runs before its program.")] = None
    image: Annotated[
        PrebuiltImage | None,
        Meta(description="The image, in place of the model's: the package contains no Dockerfile."),
    ] = None
    requirements: Annotated[
        RelativePath | None,
        Meta(
            description="A file of Python packages, one of `files`: `NAME==VERSION` with `--hash=sha256:…` for each, "
            "all that they need included. Pods install them before `init`, as their own user, once for each volume at "
            "OUTPUT_DIR, from the index PIP_INDEX_URL or the folder PIP_FIND_LINKS of mlops.env, or from a folder "
            "`wheels` of `files` or `assets`."
        ),
    ] = None
    precision: Annotated[Tag | None, Meta(description="The value for --precision; part of the package's name.")] = None
    mode: Annotated[Tag | None, Meta(description="The value for --mode; part of the package's name.")] = None
    overlays: Annotated[
        Annotated[list[Label], Meta(min_length=1)] | None,
        Meta(description="The overlays of this variant; all, if it is not set."),
    ] = None
    files: Annotated[list[FilePattern], Meta(description="More `files`, for this variant's package.")] = []
    environment: Environment = {}
    resources: Annotated[
        Resources,
        Meta(description="The resources of the container that computes. Those that an overlay sets replace them."),
    ] = Resources()

    def programs(self) -> Iterator[tuple[Location, str]]:
        """Yield each file that it runs, and where it says so."""
        if self.script is not None:
            yield ("script",), self.script
        for position, script in enumerate(self.scripts or ()):
            yield ("scripts", position), script
        if self.init is not None and self.init.script is not None:
            yield ("init", "script"), self.init.script

    def workdirs(self) -> Iterator[tuple[Location, str]]:
        """Yield the folder in which its program starts, and where it says so."""
        if self.workdir is not None:
            yield ("workdir",), self.workdir

    @property
    def run(self) -> Run:
        """The scripts, arguments, folder and preparation that the variant sets for its overlays."""
        scripts = (self.script,) if self.script is not None else tuple(self.scripts or ())
        return Run(scripts, tuple(self.args or ()), self.workdir, self.init)

    @property
    def label(self) -> str:
        """The variant's name among its siblings: `fp32 training`."""
        return " ".join(part for part in (self.precision, self.mode) if part) or "default"


class Spec(Fields, frozen=True):
    """A model: its name, image, files, overlays and variants."""

    name: Annotated[Label, Meta(description="The model's name for `mlpack build`.")]
    title: Annotated[OneLine, Meta(description="The model's title, for people to read.")]
    framework: Annotated[Label, Meta(description="The folder below quickstart/common.", examples=["tensorflow"])]
    image: Image
    overlays: Annotated[
        dict[Label, AnyOverlay],
        Meta(
            description="The ways to run it. Each key is the name of an overlay's folder.",
            min_length=1,
            max_length=MAX_OVERLAYS,
            examples=[{"single-node": {"kind": "Pod"}}],
        ),
    ]
    variants: Annotated[
        list[Variant],
        Meta(
            description="What it can do. Without --precision and --mode, `mlpack build` builds the first.",
            min_length=1,
            max_length=100,
            examples=[[{"script": "train.sh"}]],
        ),
    ]
    sequence: Annotated[
        list[Label],
        Meta(
            description="The overlays that run one after the other: `mlpack run` starts each when the one before has "
            "succeeded, or serves. A package has those of them that its variant has.",
            min_length=1,
            examples=[["train", "serving"]],
        ),
    ] = []
    files: Annotated[
        list[FilePattern],
        Meta(
            description="The code: files, folders, and patterns with `*`, `?` and `**`. Their paths are kept. They are "
            "delivered in ConfigMaps, at most 8 of 200 KiB each; with the option `package-volume` they may be larger. "
            "In a folder, what usually contains secrets, history or caches is left out, as in `assets`. Without "
            "`files`, everything that runs is in the image.",
            min_length=1,
            examples=[["train.sh"]],
        ),
    ] = []
    package: Annotated[Label | None, Meta(description="The start of package names; `name`, if it is not set.")] = None
    version: Annotated[
        Version | None,
        Meta(
            description="The version of the packages: in their manifest.json, in `mlpack list` and `mlpack status`, "
            "and in the names of their files with `mlpack build --versioned`."
        ),
    ] = None
    aliases: Annotated[list[Label], Meta(description="Other names for `mlpack build`.")] = []
    description: Annotated[Text, Meta(description="The description of the model in the package's README.")] = ""
    use_case: Annotated[
        UseCase | None,
        Meta(description="The purpose, such as image_recognition; becomes a label of the workload."),
    ] = None
    environment: Environment = {}
    dataset: Annotated[
        bool,
        Meta(
            description="Whether the model reads a dataset. If it is false, there is no DATASET_DIR, and no option "
            "needs to know where a dataset is."
        ),
    ] = True
    workspace: Annotated[
        ClaimName | None,
        Meta(
            description="A claim that overlays mount (`claims`). A package with them has an overlay `workspace`, which "
            "creates this claim and nothing else: `CLAIM_SIZE`, `CLAIM_ACCESS_MODE` and `CLAIM_CLASS` in site.env say "
            "how. Without `workspace`, claims have to exist.",
        ),
    ] = None
    secrets: Secrets = {}
    assets: Annotated[
        list[AssetPath],
        Meta(
            description="Files and folders of any size. They are in the package under `assets`, and the container "
            "sees them if the package is on storage that the cluster mounts. Files in a folder that usually contain "
            "secrets, history or caches (.git, .env, .ssh, __pycache__ and similar) are left out, unless they are "
            "listed here themselves.",
        ),
    ] = []

    downloads: Annotated[
        list[Download],
        Meta(
            description="Files that a build fetches into `assets`, with their digests. They are kept in a cache.",
            max_length=100,
        ),
    ] = []

    sources: Annotated[
        list[FetchedFile],
        Meta(
            description="Files that the pods fetch before their program starts, as their own user, once for each "
            "volume: data that is not in the package. The image needs python3. They are the only files that a package "
            "fetches, beside `requirements`.",
            max_length=20,
        ),
    ] = []

    documentation: Annotated[
        list[Section],
        Meta(description="Sections at the end of the README of each package, from Markdown files.", max_length=20),
    ] = []

    def pairs(self) -> Iterator[tuple[int, str]]:
        """Yield the index of each variant with the name of each overlay that it has, of those that there are."""
        for index, variant in enumerate(self.variants):
            yield from ((index, name) for name in variant.overlays or self.overlays if name in self.overlays)

    def code_places(self, variant: int) -> tuple[Location, ...]:
        """Return the locations of the lists of code for a variant's package: for all, the variant, its overlays."""
        names = [name for index, name in self.pairs() if index == variant]
        return (("files",), ("variants", variant, "files"), *(("overlays", name, "files") for name in names))

    def code_lists(self) -> Iterator[tuple[Location, Sequence[str]]]:
        """Yield each list of files that are code, and its location."""
        yield ("files",), self.files
        yield from ((("variants", index, "files"), variant.files) for index, variant in enumerate(self.variants))
        yield from ((("overlays", name, "files"), overlay.files) for name, overlay in self.overlays.items())

    def common_environments(self, variant: Variant) -> tuple[Environment, ...]:
        """Return the environments of all overlays of a variant; of one key, the last value counts."""
        defaults = REQUIREMENTS if variant.requirements else {}
        return defaults, self.environment, variant.environment

    def environments(self, variant: Variant, overlay: str) -> tuple[Environment, ...]:
        """Return the environments of an overlay of a variant; of one key, the last value counts."""
        values = self.overlays[overlay]
        environments = (*self.common_environments(variant), values.environment)
        defaults: Environment = {
            key: value for key, value in values.defaults.items() if not any(key in entered for entered in environments)
        }
        return (*environments, defaults)

    def resources(self, variant: Variant, overlay: str) -> Resources:
        """Return the resources of the container that computes: the overlay's values override the variant's."""
        overlay_resources = self.overlays[overlay].resources
        return Resources(
            requests={**variant.resources.requests, **overlay_resources.requests},
            limits={**variant.resources.limits, **overlay_resources.limits},
        )

    def image_of(self, variant: Variant, overlay: str | None = None) -> Image:
        """Return the image in which a variant runs, or one of its overlays."""
        own = (self.overlays[overlay].image if overlay else None) or variant.image
        return Image(own.name, own.tag, own.digest, own.registry or self.image.registry) if own else self.image

    def planned_overlay(self, variant: Variant, overlay: str) -> AnyOverlay:
        """Return an overlay with the resources that it has in a variant."""
        values = self.overlays[overlay]
        if variant.resources == Resources():
            return values
        return replace(values, resources=self.resources(variant, overlay))

    def runs(self) -> Iterator[tuple[int, str, AnyOverlay, Run]]:
        """Yield each of `pairs`, with the overlay as planned for the variant, and what it runs there."""
        for index, name in self.pairs():
            overlay = self.planned_overlay(self.variants[index], name)
            yield index, name, overlay, overlay.run(self.variants[index].run)

    def package_name(self, variant: Variant) -> str:
        """Return the name of `variant`'s package: `resnet50v1-5-fp32-training`."""
        return "-".join(part for part in (self.package or self.name, variant.precision, variant.mode) if part)

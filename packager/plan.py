"""Spec + Options -> Plan: every name, value and file of one package, decided. Pure: it reads and writes nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from packager import __version__
from packager.contents import shown
from packager.errors import UsageError
from packager.problems import similar
from packager.selection import Selection
from packager.spec import configmap
from packager.spec.fields import REGISTRY, Parameter, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.kinds import AnyOverlay
    from packager.spec.files import SourceFile
    from packager.spec.load import LoadedSpec
    from packager.spec.model import Spec, Variant

UNSET_ROOT = "ROOT"
"""What stands in mlops.env until the user says where the package lies."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line adds to a spec.

    Attributes:
        root: The folder, in the cluster's eyes, that the package will lie in; None leaves ROOT for the user.
        registry: Where the image is pulled from, in place of the spec's.
        site: The components that are switched on, and values for them.
    """

    root: str | None = None
    registry: str | None = None
    site: Selection = field(default_factory=Selection)


@dataclass(frozen=True, slots=True)
class Variable:
    """One line of mlops.env, and what the README says of it."""

    key: str
    value: str
    description: str


@dataclass(frozen=True, slots=True)
class CodeFile:
    """A file of the ConfigMap: its path below quickstart/scripts, and its key."""

    path: str
    key: str


@dataclass(frozen=True, slots=True)
class PlannedOverlay:
    """An overlay of the package: the name of its folder, which is also the suffix of its names, and its values."""

    name: str
    values: AnyOverlay


@dataclass(frozen=True, slots=True)
class Plan:
    """One package, decided.

    Attributes:
        name: The package's name, its top folder's, and its workloads' before the overlay's suffix.
        spec: The model.
        variant: Which of its variants.
        image: The image without its registry.
        script: The path of what a rank runs, below quickstart/scripts.
        variables: mlops.env, in order.
        code: The files of the ConfigMap.
        overlays: In the spec's order.
        payload: Files that are copied as they are: path in the package, file on disk, whether it is executable.
        site: The components that are switched on, and values for them.
        text: The spec file's bytes.
        about: What the manifest says beside the digests.
    """

    name: str
    spec: Spec
    variant: Variant
    image: str
    script: str
    variables: tuple[Variable, ...]
    code: tuple[CodeFile, ...]
    overlays: tuple[PlannedOverlay, ...]
    payload: tuple[tuple[str, SourceFile, bool], ...]
    site: Selection
    text: bytes
    about: dict[str, Any]

    @property
    def title(self) -> str:
        """What the package is, for people: `ResNet50 v1.5, fp32 training`."""
        named = self.variant.precision or self.variant.mode
        return f"{self.spec.title}, {self.variant.label}" if named else self.spec.title

    @property
    def dockerfile(self) -> bool:
        """Whether the package brings the image's Dockerfile."""
        return any(path == "Dockerfile" for path, _, _ in self.payload)

    @property
    def user(self) -> int:
        """The user and group that the workload runs as until somebody edits the patch."""
        return 0 if "root" in self.site.options else 1000

    @property
    def nested(self) -> bool:
        """Whether some code stands in a folder, which a ConfigMap's keys cannot say."""
        return any(file.key != file.path for file in self.code)


def choose(spec: Spec, precision: str | None, mode: str | None) -> Variant:
    """Return the first variant with this precision and this mode, each of which may be left open.

    Raises:
        UsageError: There is none; the message says which there are.
    """
    for variant in spec.variants:
        if precision in (None, variant.precision) and mode in (None, variant.mode):
            return variant
    asked = " ".join(part for part in (precision, mode) if part)
    there = ", ".join(variant.label for variant in spec.variants)
    near = similar(asked, [variant.label for variant in spec.variants])
    raise UsageError(f"{spec.name} has no variant {asked!r}; it has: {there}", hint=near)


def plan(loaded: LoadedSpec, variant: Variant, options: Options) -> Plan:
    """Decide everything about the package of `variant`."""
    spec = loaded.spec
    name = spec.package_name(variant)
    sources = loaded.sources
    overlays = variant.overlays or list(spec.overlays)
    payload = [(f"quickstart/scripts/{file.name}", file, True) for file in sources.files]
    payload += [(f"assets/{file.name}", file, file.executable) for file in sources.assets]
    if sources.dockerfile:
        payload.append(("Dockerfile", sources.dockerfile, False))
    return Plan(
        name=name,
        spec=spec,
        variant=variant,
        image=f"{spec.image.name}:{spec.image.tag}",
        script=variant.script,
        variables=tuple(_variables(spec, variant, name, options)),
        code=tuple(CodeFile(file.name, configmap.key(file.name)) for file in sources.files),
        overlays=tuple(PlannedOverlay(overlay, spec.overlays[overlay]) for overlay in overlays),
        payload=tuple(payload),
        site=options.site,
        text=loaded.text,
        about={
            "manifest": 1,
            "package": name,
            "tool": {"name": "mlpack", "version": __version__},
            "spec": {
                "name": spec.name,
                "sha256": loaded.digest,
                "precision": variant.precision,
                "mode": variant.mode,
                "set": [setting.argument for setting in loaded.settings],
                "root": options.root,
                "registry": options.registry,
                "with": list(options.site.names),
            },
        },
    )


def check_options(options: Options) -> None:
    """Refuse a root or a registry that could not stand where the package puts it.

    Raises:
        UsageError: With what was expected and found.
    """
    root, registry = options.root, options.registry
    if root is not None and (
        not re.fullmatch(r"/[^\x00-\x1f\x7f:\ud800-\udfff\ufffe\uffff]*", root)
        or ".." in root.split("/")
        or not root.strip("/ ")
    ):
        raise UsageError(f"--root {shown(root)}: expected an absolute path without ':' and '..'")
    if registry is not None and not re.fullmatch(REGISTRY, registry):
        raise UsageError(f"--registry {shown(registry)}: expected a host, perhaps with a port and a path")


def _variables(spec: Spec, variant: Variant, name: str, options: Options) -> Sequence[Variable]:
    """mlops.env: the four that every package has, then the spec's own; the variant's values win."""
    model_dir = f"{(options.root or UNSET_ROOT).rstrip('/')}/{name}"
    known = {
        "REGISTRY": Parameter(
            value=options.registry or spec.image.registry,
            description="Where the image is pulled from: a host, perhaps with a port and a path.",
        ),
        "DATASET_DIR": Parameter(value="/dataset", description="Where the dataset is, as the container sees it."),
        "MODEL_DIR": Parameter(value=model_dir, description="Where this package is, as the container sees it."),
        "OUTPUT_DIR": Parameter(value=f"{model_dir}/output", description="Where results and checkpoints go."),
    }
    for key, given in {**spec.environment, **variant.environment}.items():
        before = known.get(key) or spec.environment.get(key)
        described = before.description if isinstance(before, Parameter) else ""
        entry = given if isinstance(given, Parameter) else Parameter(value=given)
        known[key] = entry if entry.description else Parameter(value=entry.value, description=described)
    variables = []
    for key, entry in known.items():
        value = text(entry.value)
        if options.root and value.startswith(f"{UNSET_ROOT}/"):
            value = options.root.rstrip("/") + value.removeprefix(UNSET_ROOT)
        variables.append(Variable(key, value, entry.description))
    return variables

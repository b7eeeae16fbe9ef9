"""Spec + Options -> Plan: decides every name, value and file of a package; reads and writes nothing."""

from __future__ import annotations

import itertools
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from packager import __version__
from packager.base import envfile
from packager.base.errors import UsageError
from packager.base.fields import Parameter, text
from packager.base.problems import similar
from packager.base.values import Value, field, replace
from packager.builder.selection import Selection
from packager.kubernetes import configmap
from packager.kubernetes.containers import ROOT, root_fault
from packager.modelspec import code
from packager.package.image import IMAGE, REGISTRY, registry_complaint
from packager.package.layout import SCRIPTS
from packager.package.options import (
    BY_NAME,
    CLAIM,
    CLAIM_CLASS,
    CLAIM_OPTIONS,
    PACKAGE_VOLUME,
    PLACEMENT,
    TRAITS,
    offered,
)
from packager.package.path_checks import shown
from packager.workloads.program import CHOICE, Run, directory, fetching, installing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packager.base.fields import Environment
    from packager.base.problems import Problem
    from packager.modelspec.files import SourceFile
    from packager.modelspec.load import LoadedSpec, ReadmeSection
    from packager.modelspec.model import AnyOverlay, Spec, Variant
    from packager.package.options import Option
    from packager.workloads.amounts import Amount
    from packager.workloads.program import Program


class Options(Value, frozen=True):
    """The options of the command line that are added to a spec."""

    # the folder, as the nodes see it, that will contain the package; None leaves ROOT for the user
    root: str | None = None
    registry: str | None = None  # the host and path that the image is pulled from, in place of the registry in the spec
    site: Selection = field(default_factory=Selection)  # the components that are switched on, and values for them
    user: int | None = None  # the user that pods run as; None for the usual one, also below
    group: int | None = None  # the group that pods run as
    fs_group: int | None = None  # the group that volumes belong to


class Variable(Value, frozen=True):
    """One line of mlops.env, with its description in the README."""

    key: str
    value: str
    description: str

    @property
    def comment(self) -> str:
        """The description as a comment of mlops.env, where `# NAME=value` is a variable that is commented out."""
        is_assignment = any(envfile.keys(f"# {self.description}".encode()))
        return f"{self.key}: {self.description}" if is_assignment else self.description


class CodeFile(Value, frozen=True):
    """A file of a ConfigMap: its path below quickstart/scripts, and its key."""

    path: str
    key: str


class CodePart(Value, frozen=True):
    """One ConfigMap with code."""

    suffix: str  # the end of the ConfigMap's name; empty for the first ConfigMap
    files: tuple[CodeFile, ...]  # the files that the ConfigMap contains


class PlannedOverlay(Value, frozen=True):
    """An overlay of the package."""

    name: str  # the name of its folder, which is also the suffix of the names of its objects
    values: AnyOverlay  # the overlay's entry in the spec
    run: Run  # the scripts or the command that the overlay runs
    program: Program  # the program that the container that computes starts
    variables: tuple[Variable, ...]  # the lines of mlops.env, in order
    amounts: tuple[Amount, ...] = ()  # the numbers that are in `variables` and that the manifest takes from there
    init: Program | None = None  # the program that each pod runs before; None without one
    image: str = ""  # the image without its registry

    @property
    def traits(self) -> frozenset[str]:
        """The traits of `packager.package.options.TRAITS` that its workload has."""
        return self.values.traits_of(self.run)

    @property
    def folder(self) -> str | None:
        """The folder that the program starts in, as text for people; None if the spec sets none."""
        return f"`{directory(self.run.workdir)}`" if self.run.workdir else None

    @property
    def quantities(self) -> tuple[str, ...]:
        """The keys of `amounts` that are resources of containers."""
        return tuple(amount.key for amount in self.amounts if any(".resources." in path for path in amount.fields))

    @property
    def below_root(self) -> tuple[str, ...]:
        """The keys of mlops.env whose values are folders below ROOT, while ROOT is not set."""
        return tuple(variable.key for variable in self.variables if variable.value.startswith(f"{ROOT}/"))


class Plan(Value, frozen=True):
    """Everything that is decided about one package."""

    name: str  # the package's name, its top folder's, and its workloads' before the overlay's suffix
    spec: Spec  # the model
    variant: Variant  # the variant of the model
    image: str  # the image without its registry
    variables: tuple[Variable, ...]  # the lines that every overlay has in its mlops.env, in order
    code: tuple[CodePart, ...]  # the code, all of which becomes one folder, spread over ConfigMaps
    overlays: tuple[PlannedOverlay, ...]  # in the spec's order
    # files that are copied as they are: path in the package, file on disk, whether it is executable
    payload: tuple[tuple[str, SourceFile, bool], ...]
    site: Selection  # the components that are switched on, and values for them
    ids: dict[str, int]  # `user`, `group` and `fs_group` of the workload until the patch is edited
    documentation: tuple[ReadmeSection, ...]  # the sections at the end of the README
    text: bytes  # the spec file's bytes
    about: dict[str, Any]  # the entries of the inventory beside the digests
    # the problems of code that ConfigMaps cannot hold; only the option package-volume can mount it
    too_large: tuple[Problem, ...] = ()

    @property
    def config_maps(self) -> tuple[CodePart, ...]:
        """The ConfigMaps with the code that the package has; none if they cannot hold it."""
        return () if self.too_large else self.code

    @property
    def title(self) -> str:
        """The package's title for people: `ResNet50 v1.5, fp32 training`."""
        named = self.variant.precision or self.variant.mode
        return f"{self.spec.title}, {self.variant.label}" if named else self.spec.title

    @property
    def dockerfile(self) -> bool:
        """Whether the package contains the image's Dockerfile."""
        return any(path == "Dockerfile" for path, _, _ in self.payload)

    @property
    def secret(self) -> str:
        """The Secret that contains the values of the spec's secrets, until `site.env` is edited."""
        return self.site.values.get("SECRET", self.spec.name)

    @property
    def serves(self) -> bool:
        """Whether one of the overlays serves: a change of files that it shares with others then replaces its pods."""
        return any(overlay.values.serves for overlay in self.overlays)

    @property
    def prepares(self) -> bool:
        """Whether the pods of one of the overlays run something before their program."""
        return any(overlay.init for overlay in self.overlays)

    @property
    def sequence(self) -> tuple[PlannedOverlay, ...]:
        """The overlays that run one after the other, as the inventory lists them."""
        by_name = {overlay.name: overlay for overlay in self.overlays}
        return tuple(by_name[name] for name in self.about.get("sequence", ()))

    @property
    def workspace(self) -> str | None:
        """The claim that the overlay `workspace` creates; None if no overlay of the package mounts it."""
        claim = self.about.get("workspace")
        return None if claim is None else str(claim)

    @property
    def traits(self) -> frozenset[str]:
        """The traits of `packager.package.options.TRAITS` that the package has; some options are only for these."""
        having = {
            "dataset": self.spec.dataset,
            "checkpoint": self.checkpoints,
            "assets": bool(self.spec.assets or self.spec.downloads),
        }
        of_kinds = (overlay.traits for overlay in self.overlays)
        return frozenset(trait for trait, has in having.items() if has).union(*of_kinds)

    def traits_of(self, overlay: PlannedOverlay) -> frozenset[str]:
        """The traits of the package, of those of kinds only the ones of an overlay."""
        of_others = (other.traits for other in self.overlays)
        return self.traits.difference(*of_others) | overlay.traits

    @property
    def options(self) -> tuple[Option, ...]:
        """The options that the package contains: those that are on or that read a value which is set, and claims.

        A claim is left out if another option says where its folder is.
        """
        on = self.site.options
        placed = {place for name in on for place in BY_NAME[name].places}
        names = {*on, *(name for name in CLAIM_OPTIONS if placed.isdisjoint(BY_NAME[name].places))}
        if self.site.placement:
            names.add(PLACEMENT)
        fitting = offered(self.traits)
        read = {key.name for option in fitting if option.name in names for key in option.keys}
        read |= {key.name for key in (*CLAIM.keys, *CLAIM_CLASS.keys) if self.workspace}
        unread = self.site.values.keys() - read
        names.update(option.name for option in fitting if any(key.name in unread for key in option.keys))
        return tuple(option for option in fitting if self.site.every or option.name in names)

    def has(self, trait: str | None) -> bool:
        """Return whether the package has `trait`; None is the trait of options for every package."""
        return trait is None or trait in self.traits

    @property
    def checkpoints(self) -> bool:
        """Whether CHECKPOINT_DIR is a separate volume: the spec sets it to a folder outside of OUTPUT_DIR."""
        values = {variable.key: variable.value for variable in self.variables}
        folder, results = values.get("CHECKPOINT_DIR"), values["OUTPUT_DIR"].rstrip("/")
        return folder is not None and not f"{folder.rstrip('/')}/".startswith(f"{results}/")

    @property
    def fills_dataset(self) -> bool:
        """Whether pods fetch files to DATASET_DIR, which then is a volume without any option."""
        return any(source.folder == "DATASET_DIR" for source in self.spec.sources)

    @property
    def scratch_volumes(self) -> int:
        """The number of scratch volumes, the first volumes of a pod, which options of storage replace."""
        return 1 + self.checkpoints + self.fills_dataset

    @property
    def parameters(self) -> tuple[tuple[Variable, tuple[str, ...]], ...]:
        """Every line of every mlops.env once, with the overlays that have it; without names if all have it."""
        having: dict[Variable, list[str]] = {variable: [] for variable in self.variables}
        for overlay in self.overlays:
            for variable in overlay.variables:
                having.setdefault(variable, []).append(overlay.name)
        every = len(self.overlays)
        return tuple((line, () if len(names) == every else tuple(names)) for line, names in having.items() if names)

    @property
    def nested(self) -> bool:
        """Whether some code is in a subfolder, which a ConfigMap's key cannot express."""
        return any(file.key != file.path for part in self.code for file in part.files)


def choose(spec: Spec, precision: str | None, mode: str | None) -> Variant:
    """Return the first variant with this precision and this mode; None matches any."""
    for variant in spec.variants:
        if precision in (None, variant.precision) and mode in (None, variant.mode):
            return variant
    asked = " ".join(part for part in (precision, mode) if part)
    labels = ", ".join(variant.label for variant in spec.variants)
    hint = similar(asked, [variant.label for variant in spec.variants])
    raise UsageError(f"{spec.name} has no variant {asked!r}; it has: {labels}", hint=hint)


def plan(loaded: LoadedSpec, variant: Variant, options: Options) -> Plan:
    """Decide everything about the package of `variant`.

    Raises:
        UsageError: An option is switched on that is for other workloads than the package has.
    """
    spec = replace(loaded.spec, image=loaded.spec.image_of(variant))
    name = spec.package_name(variant)
    sources = loaded.sources
    overlays = variant.overlays or list(spec.overlays)
    runs = [spec.overlays[overlay].run(variant.run) for overlay in overlays]
    files = sources.code(spec.code_places(spec.variants.index(variant)))
    payload = [(f"{SCRIPTS}/{file.name}", file, True) for file in files]
    payload += [(f"assets/{file.name}", file, file.executable) for file in sources.assets]
    if sources.dockerfile and not variant.image:
        payload.append(("Dockerfile", sources.dockerfile, False))
    path_of = {key: path for path, key in configmap.keys([file.name for file in files]).items()}
    sequence = [overlay for overlay in spec.sequence if overlay in overlays]
    additions = [setting.argument for setting in loaded.settings if setting.adds]
    # The overlays that mount the claim of a workspace run one after the other, each on one node.
    workspace = spec.workspace if any(spec.workspace in spec.overlays[one].claim_names for one in overlays) else None
    site = options.site
    if workspace:
        site = replace(site, values=MappingProxyType({"CLAIM_ACCESS_MODE": "ReadWriteOnce", **site.values}))
    usual_id = 0 if "root" in site.options else 1000
    # The Run of all overlays is empty if their scripts differ.
    common = runs[0] if len({run.scripts for run in runs}) == 1 else Run()
    planned = Plan(
        name=name,
        spec=spec,
        variant=variant,
        image=spec.image.reference,
        variables=_variables(spec, spec.common_environments(variant), name, options, common),
        code=tuple(
            CodePart(f"-{number}" if number > 1 else "", tuple(CodeFile(path_of[key], key) for key in keys))
            for number, keys in enumerate(code.packed(files), start=1)
        ),
        overlays=tuple(_overlay(spec, variant, overlay, name, options) for overlay in overlays),
        payload=tuple(payload),
        site=site,
        ids={
            name: usual_id if own is None else own
            for name, own in (("user", options.user), ("group", options.group), ("fs_group", options.fs_group))
        },
        documentation=loaded.documentation,
        text=loaded.text,
        about={
            "manifest": 1,
            "package": name,
            **({"version": spec.version} if spec.version else {}),
            "tool": {"name": "mlpack", "version": __version__},
            **({"sequence": sequence} if sequence else {}),
            **({"workspace": workspace} if workspace else {}),
            "spec": {
                "name": spec.name,
                "sha256": loaded.digest,
                "precision": variant.precision,
                "mode": variant.mode,
                "set": [setting.argument for setting in loaded.settings if not setting.adds],
                **({"add": additions} if additions else {}),
                "root": options.root,
                "registry": options.registry,
                "with": list(options.site.names),
            },
        },
        too_large=() if not loaded.too_large or code.fits(files) else loaded.too_large,
    )
    offered_names = {option.name for option in offered(planned.traits)}
    for option in (BY_NAME[name] for name in options.site.options if name not in offered_names):
        raise UsageError(f"--with {option.name}: {TRAITS[str(option.only)].format(name)}")
    return planned


def check_options(options: Options) -> None:
    """Refuse a root or a registry that is invalid where the package uses it."""
    root, registry = options.root, options.registry
    if root is not None and (fault := root_fault(root)):
        raise UsageError(f"--root {shown(root)}: {fault}")
    if registry is not None and (fault := registry_complaint(registry)):
        raise UsageError(f"--registry {shown(registry)}: {fault}")


def _overlay(spec: Spec, variant: Variant, overlay: str, name: str, options: Options) -> PlannedOverlay:
    values = spec.planned_overlay(variant, overlay)
    spec = replace(spec, image=spec.image_of(variant, overlay))
    run = values.run(variant.run)
    amounts = tuple(values.amounts(run))
    registry, image, *others = _variables(spec, spec.environments(variant, overlay), name, options, run)
    numbers = (Variable(amount.key, amount.value, amount.description) for amount in amounts)
    images = (Variable(key, text(entry.value), entry.description) for key, entry in values.images.items())
    variables = (registry, image, *images, *numbers, *others)
    init = run.init.program(run.workdir) if run.init else None
    if spec.sources:
        # The arguments of the script for each source; Kubernetes replaces the variable.
        paths = [f"$({source.folder}){source.to.removeprefix(source.folder) or '/'}" for source in spec.sources]
        wanted = [(one.sha256 or "-", str(one.size), one.secret or "-") for one in spec.sources]
        sources = zip(spec.sources, paths, wanted, strict=True)
        init = fetching([(source.address, path, *values) for source, path, values in sources], init)
    if variant.requirements:  # installed first: they may have the clients that fetch sources
        init = installing(variant.requirements, init)
    return PlannedOverlay(overlay, values, run, values.program(run), variables, amounts, init, spec.image.reference)


def _variables(
    spec: Spec, environments: Iterable[Environment], name: str, options: Options, run: Run
) -> tuple[Variable, ...]:
    """Return the lines of mlops.env: five for every package, then `environments`; the last value of a key counts."""
    model_dir = f"{(options.root or ROOT).rstrip('/')}/{name}"
    output_dir = "/output" if PACKAGE_VOLUME in options.site.options else f"{model_dir}/output"
    entries = {
        REGISTRY: Parameter(
            value=options.registry or spec.image.registry,
            description="Where the image is pulled from: a host, optionally with a port and a path.",
        ),
        IMAGE: Parameter(value=spec.image.reference, description="The image there: NAME:TAG, or with a digest."),
        "DATASET_DIR": Parameter(value="/dataset", description="Where the dataset is, as the container sees it."),
        "MODEL_DIR": Parameter(value=model_dir, description="Where this package is, as the container sees it."),
        "OUTPUT_DIR": Parameter(value=output_dir, description="Where results and checkpoints go."),
    }
    if not spec.dataset:
        del entries["DATASET_DIR"]
    if run.is_choice:
        description = f"The script that runs: {', '.join(run.scripts[:-1])} or {run.scripts[-1]}."
        entries[CHOICE] = Parameter(value=run.scripts[0], description=description)
    for key, entered in itertools.chain(*(environment.items() for environment in environments)):
        usual = "Where checkpoints go, as the container sees it." if key == "CHECKPOINT_DIR" else ""
        described = entries[key].description if key in entries else usual
        entry = entered if isinstance(entered, Parameter) else Parameter(value=entered)
        entries[key] = entry if entry.description else Parameter(value=entry.value, description=described)
    variables = []
    for key, entry in entries.items():
        value = text(entry.value)
        if options.root and value.startswith(f"{ROOT}/"):
            value = options.root.rstrip("/") + value.removeprefix(ROOT)
        variables.append(Variable(key, value, entry.description))
    return tuple(variables)

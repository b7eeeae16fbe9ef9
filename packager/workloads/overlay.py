"""The keys that every kind of overlay has. Tests: modelspec/test_messages.py."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, ClassVar

from packager.base import names
from packager.base.fields import (
    Digest,
    Environment,
    FilePattern,
    ImageName,
    ImageTag,
    Parameter,
    Registry,
    RelativePath,
    Resources,
    Word,
    anchored,
)
from packager.base.problems import Fault
from packager.base.values import Fields, Meta
from packager.base.yamlio import Location
from packager.kubernetes.manifest import INT32
from packager.workloads.amounts import Amount, prefix
from packager.workloads.program import Init, Program, Run, Scripts, Workdir, directory, of_script, reserved_by

Deadline = Annotated[int, Meta(ge=1, le=INT32)]
"""Seconds after which a workload is stopped."""

TimeToLive = Annotated[int, Meta(ge=60, le=INT32)]
"""Seconds after its end when a workload is deleted; a client that asks now and then would miss the end of a shorter."""

PriorityClass = Annotated[
    str,
    Meta(
        pattern=anchored(names.SUBDOMAIN),
        max_length=names.SUBDOMAIN_LENGTH,
        title="a name of lower-case letters, digits, '-' and '.'",
        examples=["batch-low"],
    ),
]


# A claim's name could have dots, and a volume is called after its claim.
ClaimName = Annotated[
    str,
    Meta(
        pattern=anchored(names.LABEL),
        max_length=63,
        title="a name of lower-case letters, digits and '-' (at most 63)",
        examples=["workspace"],
    ),
]


class PrebuiltImage(Fields, frozen=True):
    """An image that is built elsewhere, in which an overlay or a variant runs instead of the model's image."""

    name: Annotated[ImageName, Meta(description="The image's repository, without its registry.")]
    tag: Annotated[
        ImageTag | None, Meta(description="The image's tag; it may be left out where there is a `digest`.")
    ] = None
    digest: Annotated[Digest | None, Meta(description="The digest of the image's manifest: no other is pulled.")] = None
    registry: Annotated[
        Registry | None,
        Meta(description="REGISTRY in mlops.env; without it, that of the model's image."),
    ] = None

    @property
    def reference(self) -> str:
        """The image without its registry."""
        return f"{self.name}{f':{self.tag}' if self.tag else ''}{f'@{self.digest}' if self.digest else ''}"


class Role(Fields, frozen=True):
    """Pods of an overlay that may differ from its other pods."""

    resources: Annotated[
        Resources | None, Meta(description="Of each pod's container; without it, those of the overlay.")
    ] = None
    script: Annotated[
        RelativePath | None,
        Meta(description="One of `files`: what each pod runs, in place of what the overlay or the variant says."),
    ] = None
    command: Annotated[
        list[Word] | None, Meta(description="What each pod runs in place of a script; as `command` of an overlay.")
    ] = None
    args: Annotated[
        list[Word] | None,
        Meta(description="The arguments of the script, of `command` or, without both, of the image's entrypoint."),
    ] = None
    workdir: Workdir = None

    @property
    def has_program(self) -> bool:
        """Whether the pods run something other than the pods of other roles."""
        return any(value is not None for value in (self.script, self.command, self.args))


class OverlaySpec(Fields, frozen=True, tag_field="kind"):
    """One way to run the model: an overlay of the package."""

    resources: Annotated[
        Resources, Meta(description="The resources of the container that computes: in the Pod, or in each worker.")
    ] = Resources()
    script: Annotated[
        RelativePath | None,
        Meta(description="The program to run, one of `files`, in place of the variant's."),
    ] = None
    scripts: Scripts = None
    command: Annotated[
        list[Word] | None,
        Meta(
            description="The program and arguments to run if the variant has no `script`, without a shell, in the "
            "image's working directory. Kubernetes replaces `$(KEY)` by the value of KEY in mlops.env, and `$$(KEY)` "
            "by `$(KEY)`. An empty list runs the image's own entrypoint."
        ),
    ] = None
    args: Annotated[
        list[Word] | None,
        Meta(
            description="The arguments of the script, in place of the variant's; of `command`; or, without both, of "
            "the image's own entrypoint."
        ),
    ] = None
    workdir: Workdir = None
    init: Annotated[
        Init | None, Meta(description="What each pod runs before its program, in place of the variant's `init`.")
    ] = None
    image: Annotated[PrebuiltImage | None, Meta(description="The image, in place of the variant's or the model's.")] = (
        None
    )
    priority_class: Annotated[
        PriorityClass | None,
        Meta(description="The PriorityClass of its pods, which must exist in the cluster (priorityClassName)."),
    ] = None
    stops_within: Annotated[
        Annotated[int, Meta(ge=1, le=3_600)] | None,
        Meta(
            description="The time in seconds from SIGTERM until its pods are killed, such as for a checkpoint when a "
            "node is drained; if it is not set, the 30 of Kubernetes (terminationGracePeriodSeconds)."
        ),
    ] = None
    files: Annotated[list[FilePattern], Meta(description="More `files`, for the packages that have this overlay.")] = []
    environment: Annotated[
        Environment, Meta(description="More keys for this overlay's mlops.env only. They replace the variant's.")
    ] = {}

    readme: ClassVar[str]
    """How the README calls a workload of this kind."""

    unproven: ClassVar[str] = ""
    """The note about what neither the package nor `lint` checks; empty for none."""

    serves: ClassVar[bool] = False
    """Whether it serves until it is deleted: a change of a ConfigMap then makes new pods, since each ConfigMap is
    called after its content."""

    ways: ClassVar[tuple[str, ...]] = ()
    """How its pods can find each other, for `mlpack init`, the usual way first; none where there is no choice."""

    @classmethod
    def scaffold_values(cls, way: str) -> dict[str, object]:  # noqa: ARG003 - for those that have a choice
        """Return the values for the kind's scaffold, for one of `ways`."""
        return {}

    @property
    def traits(self) -> frozenset[str]:
        """The traits of `packager.package.options.TRAITS` that the workload has."""
        return frozenset({"gang", "several", "ends"} if self.gang_key else {"ends"})

    def traits_of(self, run: Run) -> frozenset[str]:  # noqa: ARG002 - kinds depend on it
        """Return the traits of the workload, if the overlay has `run`."""
        return self.traits

    @property
    def gang_key(self) -> str | None:
        """The key in mlops.env for the number of pods that work together; None without such pods, or with several."""
        return None

    def longest_name(self, workload: str) -> str:
        """Return the longest name that anything of `workload` will have in the cluster."""
        return workload

    @property
    def role_keys(self) -> Mapping[str, tuple[Location, Role]]:
        """The roles of its pods, each with the place of its keys in the overlay, and the keys; none for most kinds."""
        return {}

    def variables_of(self, role: str) -> Collection[str]:  # noqa: ARG002 - kinds depend on it
        """Return the variables of the pods of a role, or of all, besides those of every container and of mlops.env."""
        return ()

    def resources_of(self, role: str) -> Resources:
        """Return the resources of each pod of a role."""
        return self.role_keys[role][1].resources or self.resources

    def keys_of(self, role: str) -> str:
        """Return the beginning of the keys in mlops.env for the resources of a role."""
        return prefix(role) if self.role_keys[role][1].resources is not None else ""

    def run_of(self, role: str, run: Run) -> Run:
        """Return the Run of a role's pods, if the overlay has `run`."""
        entry = self.role_keys[role][1]
        scripts = () if entry.command is not None else (entry.script,) if entry.script else run.scripts
        args = run.args if entry.args is None and entry.command is None else tuple(entry.args or ())
        return Run(scripts, args, entry.workdir or run.workdir, run.init)

    def program_of(self, role: str, run: Run) -> Program:
        """Return the program of a role's pods, if the overlay has `run`."""
        entry, of_role = self.role_keys[role][1], self.run_of(role, run)
        if of_role.scripts:
            return of_script(of_role)
        command = entry.command if entry.has_program else self.command
        return Program(tuple(command or ()), of_role.args, directory(of_role.workdir))

    def faults(self) -> Iterator[Fault]:
        """Yield errors among the overlay's own values that their types do not exclude."""
        for place, role in self.role_keys.values():
            if role.script is not None and role.command is not None:
                message = f"the role runs the script {role.script!r} already"
                yield Fault((*place, "command"), message, "remove one of them", at_key=True)

    def containers(self) -> Iterator[tuple[Location, Resources]]:
        """Yield the resources of each container, and their location in the overlay."""
        yield ("resources",), self.resources
        for place, role in self.role_keys.values():
            if role.resources is not None:
                yield (*place, "resources"), role.resources

    def programs(self) -> Iterator[tuple[Location, str]]:
        """Yield the scripts that run in place of the variant's, and where the overlay names them."""
        scripts: list[tuple[Location, str | None]] = [(("script",), self.script)]
        scripts += [(("scripts", index), script) for index, script in enumerate(self.scripts or ())]
        scripts += [(("init", "script"), self.init.script if self.init else None)]
        scripts += [((*place, "script"), role.script) for place, role in self.role_keys.values()]
        yield from ((place, script) for place, script in scripts if script is not None)

    def workdirs(self) -> Iterator[tuple[Location, str]]:
        """Yield the folders in which programs start, and where the overlay names them."""
        for place, workdir in [((), self.workdir), *((place, role.workdir) for place, role in self.role_keys.values())]:
            if workdir is not None:
                yield (*place, "workdir"), workdir

    def words(self) -> Iterator[tuple[Location, Sequence[str], Collection[str]]]:
        """Yield each list of words that containers start: its location, and the variables of all these containers.

        The variables are those that the kind or Kubernetes adds, besides those of every container and of mlops.env.
        """
        roles = self.role_keys.items()
        alike = [set(self.variables_of(name)) for name, (_, role) in roles if not role.has_program]
        common = set.intersection(*alike) if alike else () if roles else self.variables_of("")
        for key in ("command", "args"):
            yield (key,), getattr(self, key) or (), common
            for name, (place, role) in roles:
                yield (*place, key), getattr(role, key) or (), self.variables_of(name)

    def run(self, variant: Run) -> Run:
        """Return the Run of the overlay in a variant with the Run `variant`."""
        if self.command is not None:
            scripts: tuple[str, ...] = ()
        elif self.script is not None:
            scripts = (self.script,)
        else:
            scripts = tuple(self.scripts or variant.scripts)
        args = variant.args if self.args is None and scripts else tuple(self.args or ())
        return Run(scripts, args, self.workdir or variant.workdir, self.init or variant.init)

    def program_faults(self, run: Run) -> Iterator[Fault]:  # noqa: ARG002 - for those that run anything
        """Yield the reasons why this overlay cannot run its scripts, or its command."""
        yield from ()

    @property
    def setters(self) -> tuple[str, ...]:
        """The setters of variables in its pods, which no environment may set; see `reserved_by`."""
        return ()

    def reserved(self, key: str) -> str | None:
        """Return why the environment variable `key` must not be set in this overlay; None if it may be."""
        return reserved_by(key, *self.setters)

    def amounts(self, run: Run) -> Iterator[Amount]:  # noqa: ARG002 - for those whose numbers depend on what runs
        """Yield the numbers that mlops.env has and the manifest takes from there, if the overlay has `run`."""
        yield from ()

    def refused(self, key: str, run: Run) -> str | None:
        """Return why a spec must not set the environment variable `key` where the overlay has `run`; None if it may."""
        if key in (amount.key for amount in self.amounts(run)):
            return "mlops.env has it already: the package sets it, from the overlay's own keys"
        return self.reserved(key)

    def missing_reason(self, key: str) -> str | None:
        """Return the reason why arguments may not use the variable `key`, which is missing in their container."""
        return self.reserved(key)

    @property
    def has_program(self) -> bool:
        """Whether it says what runs where its variant has no script: also that the image's own entrypoint does."""
        return self.command is not None or self.args is not None

    @property
    def defaults(self) -> Mapping[str, Parameter]:
        """Keys of mlops.env that the overlay has where the spec says nothing of them."""
        return {}

    def has_meeting(self, run: Run) -> bool:  # noqa: ARG002 - kinds depend on it
        """Return whether pods are started by the script that checks whether they meet, if the overlay has `run`."""
        return False

    def unchecked(self, run: Run) -> tuple[str, ...]:  # noqa: ARG002 - kinds depend on it
        """Return the roles of which it is not checked whether their pods meet, if the overlay has `run`."""
        return ()

    @property
    def images(self) -> Mapping[str, Parameter]:
        """More images in mlops.env, and their registries, by their keys."""
        return {}

    def image_keys_of(self, role: str) -> tuple[str, str]:  # noqa: ARG002 - kinds depend on it
        """Return the keys in mlops.env of the image of a role, and of its registry."""
        return "IMAGE", "REGISTRY"

    @property
    def claim_names(self) -> tuple[str, ...]:
        """The claims that it mounts itself, each once."""
        return ()

    @property
    def kind(self) -> str:
        """The Kubernetes kind, which is also the name of the template folder."""
        return type(self).__name__

    @property
    def starter(self) -> tuple[str, ...]:
        """The program that starts the script; empty if the script is started directly."""
        return ()

    def program(self, run: Run) -> Program:
        """Return the program of the container that computes."""
        if not run.scripts:
            return Program(tuple(self.command or ()), run.args, directory(run.workdir))
        return of_script(run, self.starter)

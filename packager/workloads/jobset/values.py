"""JobSet: pods in roles, on several nodes, that find each other by name (jobset.x-k8s.io/v1alpha2)."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Literal

from packager.base.fields import Environment, Label, Parameter, Resources, anchored, text
from packager.base.problems import Fault, similar
from packager.base.values import Meta, replace
from packager.base.yamlio import Location
from packager.kubernetes.containers import refusal_reason
from packager.workloads import amounts
from packager.workloads.amounts import PER_GPU, Amount
from packager.workloads.jobset.rendezvous import RENDEZVOUS, PodVariable, Rendezvous
from packager.workloads.overlay import Deadline, OverlaySpec, PrebuiltImage, Role, TimeToLive
from packager.workloads.pods import named
from packager.workloads.program import (
    MEET,
    PROCESSES,
    TORCHRUN,
    TORCHRUN_DEFAULTS,
    Program,
    Run,
    says_processes,
    without_meet,
)

_CODE = "(?:[1-9][0-9]?|1[0-9][0-9]|2[0-4][0-9]|25[0-5])"
_RANGE = anchored(f"({_CODE})-({_CODE})")

ExitCode = Annotated[int, Meta(ge=1, le=255)]
ExitCodes = Annotated[
    str,
    # Not `pattern`: msgspec 0.22 frees memory twice for a union of a text with a pattern and a list. So JobSet looks at
    # the form itself.
    Meta(
        title="a range such as `1-127` (at most 255)",
        examples=["1-127"],
        extra_json_schema={"pattern": _RANGE},
    ),
]


def _key(role: str) -> str:
    """Return the key in mlops.env for the number of pods of a role: WORKERS."""
    return f"{role.upper().replace('-', '_').removesuffix('S')}S"


def _job(role: str) -> str:
    """Return the fieldPath of the spec of a role's Job."""
    return f"spec.replicatedJobs.{named(role)}.template.spec"


def _containers(role: str, run: Run) -> tuple[str, ...]:
    """Return the fieldPaths of the containers of a role's pods that run something of the model."""
    return run.containers(f"{_job(role)}.template.spec", named(role))


def _container(role: str) -> str:
    """Return the fieldPath of the container of a role's pods."""
    return f"{_job(role)}.template.spec.containers.{named(role)}"


class JobSetRole(Role, frozen=True):
    """Pods that differ in nothing but their index."""

    replicas: Annotated[int, Meta(ge=1, le=10_000, description="How many pods.")] = 1
    environment: Annotated[
        Environment, Meta(description="Variables of these pods alone. They replace those in mlops.env.")
    ] = {}
    image: Annotated[
        PrebuiltImage | None,
        Meta(description="The image of these pods, in place of the overlay's: ROLE_IMAGE in mlops.env."),
    ] = None
    gpu: Annotated[
        bool | None,
        Meta(
            description="Whether the pods get what options give to pods that compute, such as GPUs. Without it, they "
            "do, but for `server` of `dmlc`, which gets storage only, and `scheduler`, which gets neither."
        ),
    ] = None


class JobSet(OverlaySpec, frozen=True, kw_only=True, tag="JobSet"):
    """Pods in roles on several nodes, which find each other by name; needs JobSet in the cluster."""

    rendezvous: Annotated[
        Literal["torch", "dmlc", "jax", "xgboost", "tensorflow", "none"],
        Meta(
            description="How the pods find each other: `torch` for torchrun, `dmlc` for a scheduler, servers and "
            "workers (MXNet, BytePS), `jax`, `xgboost`, `tensorflow` for TF_CONFIG, or `none` for a program that does "
            "so by itself."
        ),
    ]
    roles: Annotated[
        dict[Label, JobSetRole],
        Meta(
            min_length=1,
            description="The pods, by what they do: `node` for torch and jax, `scheduler`, `server` and `worker` for "
            "dmlc, `worker` for xgboost, any for none; `chief`, `worker`, `ps`, `evaluator` for tensorflow.",
            examples=[{"node": {"replicas": 2}}],
        ),
    ]
    resources: Annotated[
        Resources, Meta(description="Of the container of each pod whose role says nothing of its own.")
    ] = Resources()
    port: Annotated[
        Annotated[int, Meta(ge=1, le=65_535)] | None,
        Meta(
            description="Where the first pod listens for the others. Without it, 29500 for torch, 9091 for dmlc and "
            "xgboost, 8476 for jax, 2222 for tensorflow."
        ),
    ] = None
    processes_per_node: Annotated[
        Annotated[int, Meta(ge=1, le=1_000)] | Literal["auto", "per-gpu"] | None,
        Meta(
            description="With torch, how many processes torchrun starts in each pod; `per-gpu`, the default, for one "
            "for each GPU, or 1 without GPUs; `auto` for one for each GPU, or for each core without GPUs. A command of "
            "Python is started by torchrun if there are several; others find the number in PET_NPROC_PER_NODE."
        ),
    ] = None
    checks_world: Annotated[
        bool,
        Meta(
            description="Whether a pod fails if its program ends well and has never been connected to another pod: it "
            "has worked alone. Set it to false for programs that share work without connecting."
        ),
    ] = True
    retries: Annotated[
        int,
        Meta(
            ge=0,
            le=100,
            description="How often all pods are started again when one has failed, before the set counts as failed.",
        ),
    ] = 0
    permanent_exit_codes: Annotated[
        ExitCode | ExitCodes | Annotated[list[ExitCode | ExitCodes], Meta(min_length=1)] | None,
        Meta(
            description="The exit codes of a pod's program after which the set has failed, whatever `retries` says: "
            "`1-127` for a program's own, so that only one that a signal has stopped is started again. A pod that "
            "ends so for want of another one counts too, and torchrun ends with 1 however its processes do."
        ),
    ] = None
    deadline: Annotated[
        Deadline | None,
        Meta(description="Seconds after which an attempt is stopped, and counts as failed."),
    ] = None
    ttl: Annotated[
        TimeToLive | None,
        Meta(description="Seconds from its end until the set is deleted, and its logs with it."),
    ] = None
    success: Annotated[
        Annotated[list[Label], Meta(min_length=1)] | None,
        Meta(
            description="The roles of which all pods have to end well for the set to succeed. Without it, `node` for "
            "torch and jax, `worker` for dmlc and xgboost; tensorflow and none have to say."
        ),
    ] = None

    readme = "a JobSet"
    ways = tuple(sorted(RENDEZVOUS, key="none".__eq__))

    @classmethod
    def scaffold_values(cls, way: str) -> dict[str, object]:
        """Return the rendezvous and its roles."""
        return {"rendezvous": way, "roles": RENDEZVOUS[way].roles or ("worker",)}

    @property
    def has_program(self) -> bool:
        """Whether the overlay says what runs where its variant has no script, or each of its roles does."""
        return super().has_program or all(role.has_program for role in self.roles.values())

    @property
    def defaults(self) -> Mapping[str, Parameter]:
        """The variables that torchrun's processes need, if torchrun starts them."""
        return TORCHRUN_DEFAULTS if self.rendezvous == "torch" else {}

    @property
    def traits(self) -> frozenset[str]:
        """The traits of all work that ends, and those of a JobSet."""
        return super().traits | {"jobset", "several"}

    def traits_of(self, run: Run) -> frozenset[str]:
        """Return the traits, with `elastic` if all pods start torchrun, which can go on without some of them."""
        commands = {tuple(without_meet(self.program_of(role, run).command)[:1]) for role in self.roles}
        is_elastic = self.rendezvous == "torch" and commands == {(TORCHRUN,)}
        return self.traits | {"elastic"} if is_elastic else self.traits

    @property
    def gang_key(self) -> str | None:
        """The key of the role whose pods compute, if it is the only one."""
        computing = [role for role in self.roles if self.options_of(role) is None]
        return self.count_key(computing[0]) if len(computing) == 1 else None

    @property
    def way(self) -> Rendezvous:
        """The meaning of `rendezvous`."""
        return RENDEZVOUS[self.rendezvous]

    @property
    def listens(self) -> int | None:
        """The port that the first pod of the leading role listens on; None when nothing is agreed."""
        return self.port or self.way.port

    @property
    def successful(self) -> tuple[str, ...]:
        """The roles whose end is the end of the set; commands use the first pod of the first one by default."""
        return tuple(self.success or self.way.success)

    @property
    def permanent(self) -> tuple[int, ...]:
        """The exit codes after which no other attempt is made, in order."""
        return tuple(sorted({code for _, codes in self._permanent() for code in codes}))

    def _permanent(self) -> Iterator[tuple[Location, range]]:
        """Yield each entry of `permanent_exit_codes`, with its codes; none for what is no range from a lower code."""
        entries = self.permanent_exit_codes
        for index, entry in enumerate(entries if isinstance(entries, list) else [] if entries is None else [entries]):
            match = re.match(_RANGE, f"{entry}-{entry}" if isinstance(entry, int) else entry)
            codes = range(int(match[1]), int(match[2]) + 1) if match else range(0)
            yield ("permanent_exit_codes", *((index,) if isinstance(entries, list) else ())), codes

    def amounts(self, run: Run) -> Iterator[Amount]:
        """Yield the number of pods of each role that may have several, of torchrun's processes, resources, deadline."""
        yield from (self._count(role, run) for role in self.roles if self.count_key(role))
        if processes := self._processes(self.roles, run):
            description = (
                "The number of processes in each pod; per-gpu: one for each GPU, or 1; auto: one for each GPU, or core."
            )
            number = str(self.processes_per_node or PER_GPU)
            yield Amount("PROCESSES_PER_NODE", number, description, processes, may_be_per_gpu=True)
        yield from self._quantities(run)
        yield from amounts.deadline(self.deadline, *(f"{_job(role)}.activeDeadlineSeconds" for role in self.roles))

    def _quantities(self, run: Run) -> Iterator[Amount]:
        """Yield the resources of all roles that have none of their own, then those of each other role."""
        alike = [name for name, role in self.roles.items() if role.resources is None]
        computing = any(self.options_of(name) is None for name in alike)
        paths = [path for name in alike for path in _containers(name, run)]
        processes = self._processes(alike, run)
        yield from amounts.quantities(self.resources, paths, computes=computing, processes=processes)
        for name, role in self.roles.items():
            if role.resources is not None:
                computes = self.options_of(name) is None
                containers, processes = _containers(name, run), self._processes([name], run)
                yield from amounts.quantities(role.resources, containers, name, computes=computes, processes=processes)

    def _processes(self, roles: Iterable[str], run: Run) -> tuple[str, ...]:
        """Return the fields with torchrun's number of processes of roles whose commands do not contain it."""
        if self.rendezvous != "torch":
            return ()
        roles = [role for role in roles if not says_processes(self.program_of(role, run).command)]
        return tuple(f"{_container(role)}.env.{named(PROCESSES)}.value" for role in roles)

    def count_key(self, role: str) -> str | None:
        """Return the key in mlops.env for the number of pods of a role; None if it cannot be changed there."""
        is_fixed = self.rendezvous == "tensorflow" or (self.way.single and role == self.way.leader)
        return None if is_fixed else _key(role)

    def _count(self, role: str, run: Run) -> Amount:
        """Return the number of pods of a role: of its Job, and in the variables of all roles that contain it."""
        variables = [
            f"{_container(name)}.env.{named(variable.name)}.value"
            for name in self.roles
            for variable in (*self.way.variables, *(self.way.plain if not self.run_of(name, run).scripts else ()))
            if variable.value == f"{{{role}}}" and (not variable.roles or name in variable.roles)
        ]
        fields = (f"{_job(role)}.parallelism", f"{_job(role)}.completions", *variables)
        return Amount(_key(role), str(self.roles[role].replicas), f"The number of pods of the role {role}.", fields)

    @property
    def pods(self) -> int:
        """The number of pods."""
        return sum(role.replicas for role in self.roles.values())

    @property
    def role_keys(self) -> Mapping[str, tuple[Location, Role]]:
        """The roles."""
        return {name: (("roles", name), role) for name, role in self.roles.items()}

    def environment_of(self, role: str, run: Run) -> Sequence[PodVariable]:
        """Return the variables that address the pods of other roles, and the role's own variables."""
        counts = {name: entry.replicas for name, entry in self.roles.items()}
        variables = self.roles[role].environment
        values = {key: entry.value if isinstance(entry, Parameter) else entry for key, entry in variables.items()}
        way = self.way.environment(role, self.listens, counts, is_plain=not self.run_of(role, run).scripts)
        number = self.processes_per_node
        if number in (None, PER_GPU):
            number = amounts.gpus(self.resources_of(role))
        if number is not None:
            way = (replace(variable, value=str(number)) if variable.name == PROCESSES else variable for variable in way)
        return (
            *way,
            *(PodVariable(key, text(value)) for key, value in values.items()),
        )

    def options_of(self, role: str) -> str | None:
        """Return the options that change the pods of a role: "storage" only, "none", or all of them (None)."""
        computes = not self.way.computes or role in self.way.computes
        if self.roles[role].gpu if self.roles[role].gpu is not None else computes:
            return None
        return "storage" if role in self.way.stores or computes else "none"

    def program_of(self, role: str, run: Run) -> Program:
        """Return the program of a role's pods, if the overlay has `run`."""
        program, scripts = super().program_of(role, run), self.run_of(role, run).scripts
        # Without variables, the pods do not meet in a known way; but for torch, the script also decides about torchrun.
        is_alone = self.rendezvous == "tensorflow" and self.pods == 1
        meets = self.way.meets_of(role) if self.checks_world and not is_alone else "none"
        meet = (MEET, meets) if self.way.variables and (self.checks_world or self.rendezvous == "torch") else ()
        if self.rendezvous == "torch" and scripts:
            # Both torch 1.13 and later ones know the flag in this spelling.
            meet = (*meet, TORCHRUN, *(() if scripts[0].endswith(".py") else ("--no_python",)))
        return replace(program, command=(*meet, *program.command)) if program.command else program

    def has_meeting(self, run: Run) -> bool:
        """Return whether pods are started by the script that checks whether they meet, if the overlay has `run`."""
        return any(self.program_of(role, run).command[:1] == (MEET,) for role in self.roles)

    def unchecked(self, run: Run) -> tuple[str, ...]:
        """Return the roles of which it is not checked whether their pods meet, if the overlay has `run`."""
        if not self.way.variables or not self.checks_world:
            return ()
        return tuple(role for role in self.roles if not self.program_of(role, run).command)

    def checked(self, run: Run) -> str:
        """Return the sentence of the README about the number of pods that meet."""
        if not self.checks_world or any(self.program_of(role, run).command[:1] != (MEET,) for role in self.roles):
            return "It is not checked whether the pods have found each other."
        return "A pod whose program has never been connected to another one fails: it has worked alone."

    @property
    def images(self) -> dict[str, Parameter]:
        """The images of roles in mlops.env, and their registries if they have their own, by their keys."""
        images = {}
        for name, role in self.roles.items():
            if role.image:
                key, description = amounts.prefix(name), f"image of the role {name}"
                images[f"{key}IMAGE"] = Parameter(value=role.image.reference, description=f"The {description}.")
                if role.image.registry:
                    registry = f"The registry of the {description}."
                    images[f"{key}REGISTRY"] = Parameter(value=role.image.registry, description=registry)
        return images

    def image_keys_of(self, role: str) -> tuple[str, str]:
        """Return the keys in mlops.env of the image of a role, and of its registry."""
        image, registry = (f"{amounts.prefix(role)}{key}" for key in super().image_keys_of(role))
        return image if image in self.images else "IMAGE", registry if registry in self.images else "REGISTRY"

    def program_faults(self, run: Run) -> Iterator[Fault]:
        """Yield a fault when torchrun would have to start Python for some of the scripts, and not for others."""
        if self.rendezvous == "torch" and len({script.endswith(".py") for script in run.scripts}) > 1:
            message = "torchrun starts Python programs (.py) in one way and others in another, and `scripts` has both"
            yield Fault((), message, "use only one of them")

    def reserved(self, key: str) -> str | None:
        """Return the reason why the environment may not set a variable of the rendezvous."""
        return "it is the image of a role" if key in self.images else self.way.refused(key)

    def variables_of(self, role: str) -> Collection[str]:
        """Return the names of the variables of a role's pods, besides those of mlops.env."""
        is_plain = self.command is not None or self.roles[role].command is not None
        return {*self.way.names(role, is_plain=is_plain), *self.roles[role].environment}

    def missing_reason(self, key: str) -> str | None:
        """Return the roles that have a variable, or the reason why its name is taken."""
        roles = [name for name in self.roles if key in self.variables_of(name)]
        if not roles:
            return self.reserved(key)
        return f"only the pods of {' and '.join(roles)} have it: write the command there"

    def longest_name(self, workload: str) -> str:
        """Return the longest name of a pod: of the last one, with five characters of its Job's."""
        return max((f"{workload}-{name}-0-{role.replicas - 1}-abcde" for name, role in self.roles.items()), key=len)

    def faults(self) -> Iterator[Fault]:
        """Yield keys that do not fit the rendezvous, and roles that do not exist."""
        yield from super().faults()
        yield from self._role_faults()
        yield from self._key_faults()
        names = f"the roles are: {', '.join(self.roles)}"
        for index, name in enumerate(self.success or ()):
            if name not in self.roles:
                yield Fault(("success", index), f"role {name!r} not found", similar(name, list(self.roles)) or names)
        if not self.successful:
            message = f"the key 'success' is missing: rendezvous {self.rendezvous} has no roles of its own"
            yield Fault((), message, names)
        if self.port and not self.way.port:
            message = f"rendezvous {self.rendezvous} uses no port"
            yield Fault(("port",), message, "remove it: a program that listens chooses its port itself", at_key=True)
        if self.processes_per_node is not None and self.rendezvous != "torch":
            message = f"torchrun starts processes, and the rendezvous is {self.rendezvous}"
            yield Fault(("processes_per_node",), message, "remove it", at_key=True)
        yield from self._range_faults()

    def _range_faults(self) -> Iterator[Fault]:
        """Yield GPUs that cannot be a number of processes, and exit codes that are no range, or without effect."""
        if self.rendezvous == "torch" and self.processes_per_node in (None, PER_GPU):
            for location, resources in self.containers():
                yield from amounts.gpu_faults(resources, location, "processes_per_node")
        for place, codes in self._permanent():
            if not codes:
                yield Fault(place, "expected a range of exit codes, the lower one first, such as 1-127 (at most 255)")
        if self.permanent_exit_codes is not None and not self.retries:
            message = "without `retries`, the set has failed after any exit code"
            yield Fault(("permanent_exit_codes",), message, "set retries, or remove it", at_key=True)

    def _key_faults(self) -> Iterator[Fault]:
        """Yield roles whose numbers of pods would have the same key in mlops.env, or a taken one."""
        keys: dict[str, str] = {}
        quantities = {amount.key for amount in self._quantities(Run())}
        for role in self.roles:
            other = keys.setdefault(_key(role), role)
            if other != role:
                message = f"the number of pods of {other!r} and {role!r} would both be {_key(role)} in mlops.env"
                yield Fault(("roles", role), message, "rename one of them", at_key=True)
            elif reason := refusal_reason(_key(role)) or self.reserved(_key(role)):
                message = f"the number of its pods would be {_key(role)} in mlops.env"
                yield Fault(("roles", role), message, reason, at_key=True)
            elif _key(role) in quantities:
                message = f"the number of its pods would be {_key(role)} in mlops.env, as an amount of its resources is"
                yield Fault(("roles", role), message, "rename the role", at_key=True)

    def _role_faults(self) -> Iterator[Fault]:
        roles = self.way.roles
        listed = roles[0] if len(roles) == 1 else f"{', '.join(roles[:-1])} and {roles[-1]}" if roles else ""
        for name in roles:
            if name not in self.roles:
                message = f"the role {name!r} is missing: rendezvous {self.rendezvous} needs {listed}"
                yield Fault(("roles",), message, at_key=True)
        for name, role in self.roles.items():
            if roles and name not in roles:
                message = f"unknown role {name!r}: rendezvous {self.rendezvous} has {listed}"
                yield Fault(("roles", name), message, similar(name, roles), at_key=True)
            elif self.way.single and name == self.way.leader and role.replicas != 1:
                yield Fault(("roles", name, "replicas"), f"expected 1, found {role.replicas}")
            for key in role.environment:
                if reason := refusal_reason(key) or self.reserved(key):
                    place = ("roles", name, "environment", key)
                    yield Fault(place, f"{key} cannot be set for this role", reason, at_key=True)

"""Job: one process, or several of torchrun's, on one node (batch/v1)."""

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Literal

from packager.base.fields import Parameter, anchored
from packager.base.problems import Fault
from packager.base.values import Fields, Meta
from packager.kubernetes.containers import folder_complaint, normalized
from packager.workloads import amounts
from packager.workloads.amounts import Amount
from packager.workloads.overlay import ClaimName, Deadline, OverlaySpec, TimeToLive
from packager.workloads.program import INDEX_VARIABLE, TORCHRUN_DEFAULTS, Run

MAX_COMPLETIONS = 10_000

FolderPath = Annotated[
    str,
    Meta(
        pattern=anchored(r"/[^\x00-\x1f\x7f-\x9f\ufffe\uffff:\\]*"),
        max_length=1000,
        title="an absolute path",
        examples=["/mnt/workspace"],
    ),
]
SubPath = Annotated[
    str,
    Meta(
        pattern=anchored(r"[^\x00-\x1f\x7f-\x9f\ufffe\uffff/\\][^\x00-\x1f\x7f-\x9f\ufffe\uffff\\]*"),
        max_length=1000,
        title="a path below the claim's root",
        examples=["data"],
    ),
]


class ClaimMount(Fields, frozen=True):
    """A persistent volume claim of the site, and where the program sees it."""

    claim: Annotated[ClaimName, Meta(description="The claim, which must exist where the package is deployed.")]
    path: Annotated[FolderPath, Meta(description="Where it is mounted.")]
    sub_path: Annotated[SubPath | None, Meta(description="What to mount of it, instead of all.")] = None
    read_only: Annotated[bool, Meta(description="Whether the program may only read there.")] = False


class Job(OverlaySpec, frozen=True, tag="Job"):
    """One process on one node, which is started again when it fails. Needs no operator."""

    retries: Annotated[
        int,
        Meta(
            ge=0,
            le=100,
            description="How often a failed pod is replaced by a new one before the job counts as failed.",
        ),
    ] = 0
    deadline: Annotated[
        Deadline | None,
        Meta(description="The time in seconds after which the job is stopped and counts as failed."),
    ] = None
    ttl: Annotated[
        TimeToLive | None,
        Meta(description="The time in seconds after its end when the job is deleted, and its log with it."),
    ] = None
    processes: Annotated[
        Annotated[int, Meta(ge=1, le=1_000)] | Literal["auto"] | None,
        Meta(
            description="How many processes torchrun starts in the pod. `auto` means one for each GPU, or one for "
            "each core if there is no GPU. The script must be Python. If it is not set, the script itself is started."
        ),
    ] = None

    completions: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_COMPLETIONS)] | None,
        Meta(
            description="How often the program runs, each time in a pod of its own that finds its index, from 0 on, in "
            "JOB_COMPLETION_INDEX: for sweeps and shards. `retries` is for all of them together."
        ),
    ] = None
    parallelism: Annotated[
        Annotated[int, Meta(ge=1, le=1_000)] | None,
        Meta(description="How many of `completions` run at a time; 1, if it is not set."),
    ] = None
    claims: Annotated[
        list[ClaimMount],
        Meta(
            description="Claims of the site to mount, for a program that has its own place for its files. `pvc` and "
            "the other storage options are for OUTPUT_DIR and DATASET_DIR."
        ),
    ] = []  # noqa: RUF012 - msgspec copies it

    readme = "a Job"

    @property
    def claim_names(self) -> tuple[str, ...]:
        """The claims, each once."""
        return tuple(dict.fromkeys(mount.claim for mount in self.claims))

    @property
    def init_claims(self) -> tuple[ClaimMount, ...]:
        """The claims that `init` mounts: all except read-only mounts within a writable mount of the same whole claim.

        So `init` can create folders that the program only reads. A folder missing when a pod mounts it is made by
        the kubelet, as root.
        """
        whole = {(mount.claim, mount.path) for mount in self.claims if not mount.sub_path and not mount.read_only}
        return tuple(
            mount
            for mount in self.claims
            if not mount.read_only
            or not mount.sub_path
            or (mount.claim, mount.path.removesuffix(f"/{mount.sub_path}")) not in whole
        )

    @property
    def volumes(self) -> dict[str, str]:
        """The volume of each claim: its name is the name of no other volume, and contains none."""
        return {claim: f"claim-{number}" for number, claim in enumerate(self.claim_names, start=1)}

    def amounts(self, run: Run) -> Iterator[Amount]:
        """Yield how often it runs, how many at a time, torchrun's processes, the resources and the deadline."""
        if self.completions is not None:
            total, parallel = ("spec.completions",), ("spec.parallelism",)
            if self.parallelism == self.completions:
                description = "The number of pods, all of which run at the same time, each with an index of its own."
                yield Amount("WORKERS", str(self.completions), description, (*total, *parallel))
            else:
                yield Amount("COMPLETIONS", str(self.completions), "How often the program runs.", total)
                description = "How many of COMPLETIONS run at a time."
                yield Amount("PARALLELISM", str(self.parallelism or 1), description, parallel)
        if self.processes is not None and run.scripts:
            description = "The number of processes in the pod; auto: one for each GPU, or core."
            word = "spec.template.spec.containers.[name=^main$].command.2"
            yield Amount("PROCESSES", str(self.processes), description, (word,), delimiter="=")
        yield from amounts.quantities(self.resources, run.containers("spec.template.spec"))
        yield from amounts.deadline(self.deadline, "spec.activeDeadlineSeconds")

    def longest_name(self, workload: str) -> str:
        """Return the last pod's host name (pkg/apis/batch/validation: an Indexed Job's must be a DNS label)."""
        return workload if self.completions is None else f"{workload}-{self.completions - 1}"

    def faults(self) -> Iterator[Fault]:
        """Yield a fault when more is to run at a time than in all, and claims that cannot be mounted."""
        yield from self._claim_faults()
        if self.parallelism is None:
            return
        if self.completions is None:
            yield Fault(
                ("parallelism",), "parallelism needs completions", "say how often the program runs", at_key=True
            )
        elif self.parallelism > self.completions:
            message = f"expected at most {self.completions}, the completions, found {self.parallelism}"
            yield Fault(("parallelism",), message)

    def variables_of(self, role: str) -> Collection[str]:  # noqa: ARG002 - it has one
        """Return the index of a pod in an array."""
        return () if self.completions is None else (INDEX_VARIABLE,)

    def missing_reason(self, key: str) -> str | None:
        """Return the setting that gives a container an index, or the reason why the name is taken."""
        return "set `completions`: only an array has an index" if key == INDEX_VARIABLE else super().missing_reason(key)

    def _claim_faults(self) -> Iterator[Fault]:
        paths: dict[str, int] = {}
        for index, mount in enumerate(self.claims):
            place = ("claims", index)
            if complaint := folder_complaint(mount.path) if mount.path.startswith("/") else "expected an absolute path":
                yield Fault((*place, "path"), complaint)
            elif paths.setdefault(normalized(mount.path), index) != index:
                yield Fault((*place, "path"), f"another claim is mounted at {mount.path}", "use another folder")

    def program_faults(self, run: Run) -> Iterator[Fault]:
        """Yield a fault if torchrun is to start a script that is not Python."""
        if self.processes is None:
            return
        other = next((script for script in run.scripts if not script.endswith(".py")), None)
        if not run.scripts:
            message = "torchrun starts Python programs (.py), and a variant has no script"
            yield Fault(("processes",), message, "give the variant a script, or start torchrun by `command`")
        elif other is not None:
            message = f"torchrun starts Python programs (.py), and a variant runs {other!r}"
            yield Fault(("processes",), message, "leave it out to start the script itself")

    @property
    def setters(self) -> tuple[str, ...]:
        """Kubernetes sets the index in an array, and torchrun variables of the processes that it starts."""
        index = () if self.completions is None else ("index",)
        return (*index, *(() if self.processes is None else ("torchrun",)))

    @property
    def defaults(self) -> Mapping[str, Parameter]:
        """The variables that torchrun's processes need, if torchrun starts them."""
        return {} if self.processes is None else TORCHRUN_DEFAULTS

    @property
    def starter(self) -> tuple[str, ...]:
        """The program that starts the script; empty if the script is started directly."""
        if self.processes is None:
            return ()
        return ("torchrun", "--standalone", f"--nproc_per_node={self.processes}")

"""Run and Program: the scripts or the command of an overlay, and the program of the main container.

Also reads these from manifests: the user's choice of a script, the sources that pods fetch, and commands of torchrun;
and lists the variables that launchers and operators set. Where `mlops.env` had a value for one of those, it would be
ignored, or two programs would disagree on the identity of the processes.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

from packager.base.fields import Folder, Parameter, RelativePath, Word
from packager.base.problems import Fault, show, similar
from packager.base.values import Fields, Meta, Value, replace
from packager.kubernetes.manifest import listing, mapping, text
from packager.package.layout import SCRIPTS

if TYPE_CHECKING:
    from packager.workloads.pods import Pods


# Kubernetes, third_party/forked/golang/expansion: `$$` means one `$`, whatever follows.
_REFERENCES = re.compile(r"\$\$|\$\(([^)]*)\)")


CHOICE = "SCRIPT"
"""The variable that says which of several scripts runs."""

_SCRIPTS = "mlpack/scripts"
"""The annotation of pods that lists the scripts among which CHOICE chooses."""

FETCH = "/etc/mlpack/runtime/sources.sh"
"""The script that fetches files. Its arguments: five for each source, `--`, and the program that follows."""

_WORDS, _NONE = 5, "-"

Scripts = Annotated[
    Annotated[list[RelativePath], Meta(min_length=2)] | None,
    Meta(
        description="Several of `files`, in place of `script`. `SCRIPT` in mlops.env says which of them runs; the "
        "first, as built."
    ),
]
Args = Annotated[list[Word] | None, Meta(description="The arguments of the script.")]
Workdir = Annotated[
    Folder | None,
    Meta(
        description="The folder in which the program starts: `.` is the folder of `files`, `src` a folder in it, and "
        "`/opt/model` a folder of the image. If it is not set, a script starts in `/`, and everything else in the "
        "image's working directory."
    ),
]

# torchrun sets the first one itself, but only where a pod has several processes (torch/distributed/run.py). With a
# single one, PyTorch takes as many threads as the node has cores, whatever the pod may use of them.
TORCHRUN_DEFAULTS: Mapping[str, Parameter] = MappingProxyType(
    {
        "OMP_NUM_THREADS": Parameter(
            value=1, description="CPU threads of each process: at most the CPUs of a pod divided by its processes."
        ),
        "PYTHONUNBUFFERED": Parameter(
            value=1, description="Writes each line of Python's output to the log at once; if it is empty, later."
        ),
    }
)
"""The variables that processes of torchrun find in mlops.env unless a spec sets others."""


class Init(Fields, frozen=True):
    """A program that each pod runs before its own, in another container with the same image and variables."""

    script: Annotated[RelativePath | None, Meta(description="One of `files`.")] = None
    command: Annotated[
        Annotated[list[Word], Meta(min_length=1)] | None,
        Meta(description="A program of the image and its arguments, without a shell."),
    ] = None
    args: Args = None

    def faults(self) -> Iterator[Fault]:
        """Yield errors among its values."""
        if (self.script is None) == (self.command is None):
            kinds = "neither" if self.script is None else "both"
            yield Fault((), f"expected either `script` or `command`, found {kinds}")

    def program(self, workdir: str | None) -> "Program":
        """Return the program of the init container, which starts in the same folder as the pod's program."""
        args = tuple(self.args or ())
        if self.script is not None:
            return of_script(Run((self.script,), args, workdir))
        return Program(tuple(self.command or ()), args, directory(workdir))


IN_PACKAGE = f"MODEL_DIR/{SCRIPTS}"
"""The folder of the code, in which a replacement fills in MODEL_DIR."""


class Run(Value, frozen=True):
    """The scripts or the command of an overlay, from its variant and its own keys."""

    # the files, of which one runs: the first, unless the user chooses another. Without any, it is a command or the
    # image's entrypoint
    scripts: tuple[str, ...] = ()
    args: tuple[str, ...] = ()  # the arguments
    workdir: str | None = None  # the folder that the program starts in; None for the usual place
    init: Init | None = None  # the program that runs before it

    @property
    def is_choice(self) -> bool:
        """Whether the user may choose the script."""
        return len(self.scripts) > 1

    def containers(self, pods: str, main: str = "[name=^main$]") -> tuple[str, ...]:
        """Return the fieldPaths of the containers that run something of the model, in the pods at the path `pods`."""
        init = (f"{pods}.initContainers.[name=^init$]",) if self.init else ()
        return (*init, f"{pods}.containers.{main}")

    @property
    def choices(self) -> str:
        """The scripts, as the annotation lists them."""
        return " ".join(self.scripts)


class Program(Value, frozen=True):
    """A program in the form of Kubernetes: `$(KEY)` in a word becomes the value of an environment variable."""

    command: tuple[str, ...] = ()  # the command instead of the image's ENTRYPOINT; empty to keep that
    # the arguments instead of the image's CMD; empty to keep that, or for none if there is a command
    args: tuple[str, ...] = ()
    # the folder to start in, with MODEL_DIR as a placeholder; None for the image's working directory, to which
    # relative words refer
    directory: str | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The command and its arguments."""
        return (*self.command, *self.args)


def of_script(run: Run, starter: Sequence[str] = ()) -> Program:
    """Return the program that is a file of the package, below quickstart/scripts, started by `starter`."""
    script = f"$({CHOICE})" if run.is_choice else run.scripts[0]
    # ROOT, if it is not replaced, is a folder at the root for the kubelet that mounts the files there.
    return Program((*starter, f"$(MODEL_DIR)/{SCRIPTS}/{script}"), run.args, directory(run.workdir) or "/")


def installing(requirements: str, following: Program | None) -> Program:
    """Return the program that installs the Python packages of a file below quickstart/scripts before another one."""
    return _before(("/bin/sh", "/etc/mlpack/runtime/requirements.sh", requirements), following)


def fetching(files: Sequence[Sequence[str]], following: Program | None) -> Program:
    """Return the program that fetches files before another one.

    Each file is a URL, a path, the sha256, the size, and the variable with the token (or `-`).
    """
    return _before(("/bin/sh", FETCH, *(word for file in files for word in file), "--"), following)


def _before(command: tuple[str, ...], following: Program | None) -> Program:
    """Return the program that runs a command, and then starts another program in its place, if there is one."""
    if following is None:
        return Program(command, directory="/")
    return replace(following, command=(*command, *following.command))


def directory(workdir: str | None) -> str | None:
    """Return the folder that `workdir` means: a folder of the package below a placeholder, MODEL_DIR."""
    if workdir is None or workdir.startswith("/"):
        return workdir
    return IN_PACKAGE if workdir == "." else f"{IN_PACKAGE}/{workdir}"


def references(word: str) -> Iterator[str]:
    """Yield each KEY of `$(KEY)` that Kubernetes looks up for `word`."""
    return (match[1] for match in _REFERENCES.finditer(word, 0, _end(word)) if match[1] is not None)


def replaced_references(word: str, replacement: Callable[[str | None], str]) -> str:
    """Return a word with other texts in place of its references: for each KEY of `$(KEY)`, and for None, a `$$`."""
    end = _end(word)
    before = _REFERENCES.sub(lambda match: replacement(match[1]), word[:end])
    return before + word[end:].replace("$$", replacement(None))


def _end(word: str) -> int:
    """Return the index behind the last `)`: after it, each `$(` would be compared with all that follows."""
    return word.rfind(")") + 1


class FetchedSource(Value, frozen=True):
    """A source that pods fetch, as the arguments of the script: words that an edit may have changed."""

    address: str  # the place that it is fetched from
    path: str  # the file or the folder that it becomes
    sha256: str | None  # the digest of the file; None where the address names a commit or a digest
    size: str  # the most bytes, and those of a file
    secret: str | None  # the variable with the token; None without one


def fetched(command: Sequence[str]) -> Iterator[tuple[int, FetchedSource]]:
    """Yield the sources that the command of a container fetches, and the index of the first word of each."""
    if FETCH not in command or "--" not in command:
        return
    for index in range(command.index(FETCH) + 1, command.index("--") - _WORDS + 1, _WORDS):
        address, path, digest, size, secret = command[index : index + _WORDS]
        sha256 = None if digest == _NONE else digest
        yield index, FetchedSource(address, path, sha256, size, None if secret == _NONE else secret)


def choices(pods: "Pods") -> tuple[str, ...]:
    """Return the scripts among which the user of pods chooses by CHOICE; none where there is nothing to choose."""
    listed = mapping(pods.metadata.get("annotations")).get(_SCRIPTS)
    return tuple(str(listed).split()) if listed is not None else ()


def wrong_choice(value: str, scripts: Sequence[str]) -> tuple[str, str | None]:
    """Return the message for a value of CHOICE that is not one of `scripts`, and the fix if there is a similar one."""
    return f"expected one of {', '.join(scripts)}, found {show(value)}", similar(value, scripts)


INDEX_ANNOTATION = "batch.kubernetes.io/job-completion-index"
"""The annotation of a pod of an Indexed Job with its index (pkg/apis/batch: JobCompletionIndexAnnotation)."""

INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
"""The variable with the index, from Kubernetes 1.22 on (pkg/controller/job: addCompletionIndexEnvVariable)."""

LWS_VARIABLES = ("LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX")
"""The variables that LeaderWorkerSet adds to every container (v0.10, pkg/utils/pod: AddLWSVariables)."""

ADDED = {"index": (INDEX_VARIABLE,), "leaderworkerset": LWS_VARIABLES}
"""The variables that setters add to every container, and that the manifest does not contain."""

_FROM_ROLES = "the package sets it, from the overlay's roles"
_FOR_RANKS = "mpirun sets it for each rank"
_TO_WORKERS = "the launcher sets it, to reach the workers"

_RESERVED: dict[str, dict[str, str]] = {
    "index": {INDEX_VARIABLE: "Kubernetes sets it, to the pod's index"},
    "leaderworkerset": dict.fromkeys(LWS_VARIABLES, "LeaderWorkerSet sets it, in every container"),
    # torch/distributed/elastic/agent/server/local_elastic_agent.py sets these for each process, and
    # torch/distributed/argparse_util.py reads PET_<FLAG> for every flag of torchrun.
    "torchrun": {
        "PET_*": "torchrun takes it for one of its own options, which the package gives",
        **dict.fromkeys(
            """
            MASTER_ADDR MASTER_PORT RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK GROUP_RANK GROUP_WORLD_SIZE
            ROLE_RANK ROLE_WORLD_SIZE
            """.split(),  # noqa: SIM905 - a column of quoted words reads worse
            "torchrun sets it for each process",
        ),
    },
    "dmlc": {
        **dict.fromkeys(("DMLC_*", "MX_CONFIG"), "the package sets such names, from the overlay's roles"),
        "PORT": "ps-lite takes it for the port that it listens at itself",  # dmlc/ps-lite, src/van.cc
    },
    "tensorflow": dict.fromkeys(("TF_CONFIG", "TF_TASK_INDEX"), _FROM_ROLES),
    # jax/_src/clusters and jax/_src/distributed.py.
    "jax": dict.fromkeys(("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"), _FROM_ROLES),
    "mpi": {
        # Open MPI 4 and 5, PMIx, and the Hydra of MPICH and Intel.
        "OMPI_COMM_WORLD_*": _FOR_RANKS,
        "PMIX_RANK*": _FOR_RANKS,
        "PMIX_NAMESPACE*": _FOR_RANKS,
        "PMIX_SERVER_*": _FOR_RANKS,
        "PMI_*": _FOR_RANKS,
        "MPI_LOCAL*": _FOR_RANKS,
        # mpi-launcher.sh and mpi-operator (pkg/controller/mpi_job_controller.go).
        "OMPI_MCA_plm_rsh_a*": _TO_WORKERS,  # ..._agent and ..._args
        "OMPI_MCA_plm_rsh_no_tree_spawn*": _TO_WORKERS,
        "PRTE_MCA_plm_ssh_a*": _TO_WORKERS,
        "PRTE_MCA_plm_ssh_no_tree_spawn*": _TO_WORKERS,
        "OMPI_MCA_orte_default_hostfile*": _TO_WORKERS,
        "OMPI_MCA_orte_keep_fqdn_hostnames*": _TO_WORKERS,
        "HYDRA_HOST_FILE*": _TO_WORKERS,
        "HYDRA_LAUNCH*": _TO_WORKERS,
        "I_MPI_HYDRA_BOOTSTRAP*": _TO_WORKERS,
        "I_MPI_HYDRA_HOST_FILE*": _TO_WORKERS,
        "K_MPI_JOB_ROLE*": "mpi-operator sets it, to the pod's role",
    },
}
"""The variables that each setter sets, with the reason why no environment may; `*` ends a beginning of names."""


def reserved_by(key: str, *setters: str) -> str | None:
    """Return why the variable `key` must not be set where one of `setters` sets variables; None if it may be."""
    for setter in setters:
        for name, reason in _RESERVED[setter].items():
            if key == name or (name.endswith("*") and key.startswith(name[:-1])):
                return reason
    return None


TORCHRUN = "torchrun"
"""The program that starts the processes, as the first word of a command."""

ELASTIC_TORCHRUN = "/etc/mlpack/runtime/torchrun.sh"
"""The script that the option elastic starts in its place, with the same arguments."""

MEET = "/etc/mlpack/runtime/meet.sh"
"""The script that starts the program of a pod that has to connect to others; its first argument says which."""

PROCESSES = "PET_NPROC_PER_NODE"
"""The variable with the number of processes that torchrun starts in each pod."""

_PROCESSES_FLAG = "--nproc_per_node="
"""The beginning of torchrun's argument with this number, which replaces the variable."""

_PROCESS_NUMBER = "auto|cpu|gpu|xpu|[1-9][0-9]{0,3}"
"""The values that torchrun takes for a number of processes (torch/distributed/run.py: determine_local_world_size)."""


def without_meet(words: Sequence[str]) -> Sequence[str]:
    """Return a command without the script that starts it."""
    return words[2:] if words[:1] == [MEET] or words[:1] == (MEET,) else words


def says_processes(words: Iterable[str]) -> bool:
    """Return whether a command of torchrun contains the number of processes."""
    return any(word.startswith(_PROCESSES_FLAG) for word in words)


def torchrun_faults(pods: "Pods") -> Iterator[Fault]:
    """Yield a fault for each number of processes in a command of torchrun, or its variable, that is invalid."""
    for location, container in pods.containers():
        words = [text(word) for word in listing(container.get("command"))]
        starts = [word.rpartition("/")[2] for word in without_meet(words)[:1]]
        is_torchrun = starts == [TORCHRUN] or starts == [ELASTIC_TORCHRUN.rpartition("/")[2]]
        for index, word in enumerate(words if is_torchrun else ()):
            number = word.removeprefix(_PROCESSES_FLAG)
            if word.startswith(_PROCESSES_FLAG) and not re.fullmatch(_PROCESS_NUMBER, number):
                message = f"expected a number of processes or 'auto', found {show(number)}"
                yield Fault((*location, "command", index), message)
        for index, variable in enumerate(map(mapping, listing(container.get("env")))):
            number = text(variable.get("value"))
            if variable.get("name") == PROCESSES and not re.fullmatch(_PROCESS_NUMBER, number):
                message = f"expected a number of processes, 'auto' or 'per-gpu', found {show(number)}"
                yield Fault((*location, "env", index, "value"), message)

"""Run and Program: the scripts or the command of an overlay, and the program of the main container."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated

from packager.base.faults import Fault
from packager.base.fields import Folder, Parameter, RelativePath, Word
from packager.base.values import Fields, Meta, Value, replace
from packager.package.layout import SCRIPTS
from packager.workloads.scripts import CHOICE, FETCH

# Kubernetes, third_party/forked/golang/expansion: `$$` means one `$`, whatever follows.
_REFERENCES = re.compile(r"\$\$|\$\(([^)]*)\)")


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
    """Return the program that installs Python packages, and then starts another one in its place.

    Args:
        requirements: The requirements file, below quickstart/scripts.
        following: The program to start afterwards, with its command; None to start nothing.
    """
    command = ("/bin/sh", "/etc/mlpack/runtime/requirements.sh", requirements)
    if following is None:
        return Program(command, directory="/")
    return replace(following, command=(*command, *following.command))


def fetching(files: Sequence[Sequence[str]], following: Program | None) -> Program:
    """Return the program that fetches files, and then starts another one in its place.

    Args:
        files: The URL, the path, the sha256, the size, and the variable with the token (or `-`) of each file.
        following: The program to start afterwards, with its command; None to start nothing.
    """
    command = ("/bin/sh", FETCH, *(word for file in files for word in file), "--")
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
    """Return a word with other texts in place of its references.

    Args:
        word: The word.
        replacement: Returns the text for the KEY of a `$(KEY)`, and for None, which is a `$$`.
    """
    end = _end(word)
    before = _REFERENCES.sub(lambda match: replacement(match[1]), word[:end])
    return before + word[end:].replace("$$", replacement(None))


def _end(word: str) -> int:
    """Return the index behind the last `)`: after it, each `$(` would be compared with all that follows."""
    return word.rfind(")") + 1
